"""Channels of full size and stacks against their dense matrices.

What holds for smaller channels is a law of mechanisms (``tests/mechanisms``).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.channels import assert_products_are_the_matrix

import ldpbeam
from ldpbeam import Categories, Numeric, build_mechanism
from ldpbeam.channels import Channel, StackedChannel
from ldpbeam.mechanisms import Laplace, Piecewise, SquareWave


def make(name: str, epsilon: float, value_buckets: int, resolution: int) -> Channel:
    numeric = ldpbeam.registered_mechanisms()[name].domain_type is Numeric
    categories = tuple(map(str, range(max(2, value_buckets))))
    domain = Numeric(0.0, 1.0) if numeric else Categories(categories)
    return build_mechanism(name, domain, epsilon).channel(value_buckets, resolution)


@pytest.mark.parametrize(
    "name", ["square_wave", "piecewise", "laplace", "stochastic_rounding", "hybrid", "grr", "hadamard"]
)
def test_products_equal_the_dense_matrix_at_full_size(name: str) -> None:
    for epsilon in (0.01, 1.0):
        assert_products_are_the_matrix(make(name, epsilon, 256, 512))


def test_a_stack_is_its_channels_one_below_the_other() -> None:
    channels = [
        make("square_wave", 0.5, 12, 7),
        make("square_wave", 2.0, 12, 9),
        make("laplace", 1.0, 12, 5),
        make("stochastic_rounding", 1.0, 12, 3),
    ]
    stack = StackedChannel(channels)
    assert stack.shape == (7 + 9 + (5 + 2) + 2, 12)
    np.testing.assert_array_equal(stack.dense(), np.vstack([c.dense() for c in channels]))
    assert_products_are_the_matrix(stack)
    np.testing.assert_allclose(stack.rmatvec(np.ones(stack.shape[0])), 4.0, atol=1e-12)


def test_stochastic_rounding_and_grr_are_the_papers_tables() -> None:
    E, buckets = math.exp(1.3), 5
    v = 2 * (np.arange(buckets) + 0.5) / buckets - 1
    up = 0.5 + v * (E - 1) / (2 * (E + 1))
    found = make("stochastic_rounding", 1.3, buckets, 9).dense()
    np.testing.assert_allclose(found, [1 - up, up], rtol=1e-13)
    other = 1 / (E + buckets - 1)
    expected = np.where(np.eye(buckets, dtype=bool), E * other, other)
    np.testing.assert_allclose(make("grr", 1.3, buckets, 9).dense(), expected, rtol=1e-13)


def test_a_report_bucket_is_where_bucketise_puts_its_reports() -> None:
    for mechanism in (SquareWave(1.0), Piecewise(1.0)):
        low, high = mechanism.report_range
        edges = np.linspace(low, high, 8)
        inside = np.concatenate([edges[:-1] + 1e-9, edges[1:] - 1e-9])
        assert mechanism.bucketise(inside, 7).tolist() == [*range(7), *range(7)]
        assert mechanism.bucketise(np.array([low, high]), 7).tolist() == [0, 6]
    laplace = Laplace(1.0)
    edges = np.linspace(-1.0, 1.0, 8)
    inside = np.concatenate([edges[:-1] + 1e-9, edges[1:] - 1e-9])
    assert laplace.bucketise(inside, 7).tolist() == [*range(1, 8), *range(1, 8)]
    ends = np.array([-60.0, -1.0 - 1e-9, -1.0, 1.0, 1.0 + 1e-9, 60.0])
    assert laplace.bucketise(ends, 7).tolist() == [0, 0, 1, 7, 8, 8]

"""Channels of full size and stacks against their dense matrices, and dense matrices against integration.

That products of smaller channels are those of their matrices is a law of mechanisms (``tests/mechanisms``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats
from support.channels import assert_products_are_the_matrix
from support.covering import covering

import ldpbeam
from ldpbeam import Categories, Numeric, build_mechanism
from ldpbeam.channels import (
    BandChannel,
    Channel,
    DenseChannel,
    DiagonalChannel,
    StackedChannel,
)
from ldpbeam.domains import Floats
from ldpbeam.mechanisms import Laplace, Piecewise, SquareWave
from ldpbeam.mechanisms.numbers.laplace import LaplaceChannel


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


def test_each_mechanism_has_the_structure_it_claims() -> None:
    kinds = {
        "grr": DiagonalChannel,
        "laplace": LaplaceChannel,
        "piecewise": BandChannel,
        "square_wave": BandChannel,
        "stochastic_rounding": DenseChannel,
    }
    for name, kind in kinds.items():
        assert type(make(name, 1.0, 8, 8)) is kind


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


def band_integrals(weights: Floats, source: Floats, target: Floats, half_width: float) -> Floats:
    """The formula of the products of a band, with all look-ups anew."""
    width = float(source[-1] - source[0]) / (len(source) - 1)
    mass = np.concatenate(([0.0], np.cumsum(weights)))
    second = np.concatenate(([0.0], np.cumsum(width * (mass[:-1] + 0.5 * weights))))

    def antiderivative(points: Floats) -> Floats:
        position = (points - source[0]) / width
        index = np.clip(np.floor(position).astype(np.int64), 0, len(weights) - 1)
        inside = np.clip(position - index, 0.0, 1.0)
        beyond = np.maximum(points - source[-1], 0.0)
        result: Floats = (
            second[index] + width * inside * (mass[index] + 0.5 * inside * weights[index]) + mass[-1] * beyond
        )
        return result

    return np.diff(antiderivative(target + half_width) - antiderivative(target - half_width))


@pytest.mark.parametrize(
    ("name", "epsilon", "shape"),
    covering(
        itertools.product(
            ["square_wave", "piecewise"],
            [1e-5, 0.01, 0.5, 1.0, 3.0, 10.0, 20.0],
            [(1, 1), (3, 3), (5, 1), (1, 6), (100, 37), (1000, 1000), (4096, 16384)],
        )
    ),
)
def test_the_products_of_a_band_are_its_formula_to_the_bit(
    name: str, epsilon: float, shape: tuple[int, int]
) -> None:
    channel = make(name, epsilon, shape[1], shape[0])
    assert isinstance(channel, BandChannel)
    rng = np.random.default_rng(3)
    reports, centres = channel.report_edges, channel.centre_edges
    ratio = (
        (reports[-1] - reports[0]) / (len(reports) - 1) / ((centres[-1] - centres[0]) / (len(centres) - 1))
    )
    for _ in range(3):
        weights, ratios = (
            rng.dirichlet(np.ones(shape[1])),
            rng.random(shape[0]) * (rng.random(shape[0]) < 0.5),
        )
        onto = band_integrals(weights, centres, reports, channel.half_width)
        back = band_integrals(ratios, reports, centres, channel.half_width)
        np.testing.assert_array_equal(
            channel.matvec(weights), channel.floor * weights.sum() + channel.step * onto
        )
        np.testing.assert_array_equal(
            channel.rmatvec(ratios), channel.floor * ratios.sum() + channel.step * back * ratio
        )


def band(
    low: float,
    high: float,
    centre: Callable[[float], float],
    half_width: float,
    densities: tuple[float, float],
    shape: tuple[int, int],
) -> NDArray[np.float64]:
    """P(report bucket | value bucket) of a wave, by adaptive integration over the value.

    Given x the probability is a sum of overlaps of intervals, piecewise linear in x; its kinks lie
    where an end of the wave meets an edge of a report bucket, and ``quad`` is told of them.
    """
    inside, outside = densities
    edges = np.linspace(low, high, shape[0] + 1)
    intercept, slope = centre(0.0), centre(1.0) - centre(0.0)
    matrix = np.empty(shape)
    for report in range(shape[0]):
        s, t = edges[report], edges[report + 1]

        def given(x: float, s: float = s, t: float = t) -> float:
            c = centre(x)
            overlap = max(0.0, min(t, c + half_width) - max(s, c - half_width))
            return outside * (t - s) + (inside - outside) * overlap

        kinks = [(e + h - intercept) / slope for e in (s, t) for h in (half_width, -half_width)]
        for value in range(shape[1]):
            x0, x1 = value / shape[1], (value + 1) / shape[1]
            points = [kink for kink in kinks if x0 < kink < x1]
            area, _ = integrate.quad(given, x0, x1, points=points or None, epsabs=1e-13)
            matrix[report, value] = area * shape[1]
    return matrix


# ``quad`` is asked for 1e-13 absolute, times 4 value buckets at most; 1e-11 is room for rounding.
@pytest.mark.parametrize(("epsilon", "shape"), [(0.1, (5, 3)), (1.0, (3, 4)), (4.0, (5, 3))])
def test_square_wave_equals_numeric_integration(epsilon: float, shape: tuple[int, int]) -> None:
    E = math.exp(epsilon)
    b = (epsilon * E - E + 1) / (2 * E * (E - 1 - epsilon))
    densities = E / (2 * b * E + 1), 1 / (2 * b * E + 1)
    expected = band(-b, 1 + b, lambda x: x, b, densities, shape)
    found = make("square_wave", epsilon, shape[1], shape[0]).dense()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("epsilon", "shape"), [(0.1, (5, 3)), (1.0, (3, 4)), (4.0, (5, 3))])
def test_piecewise_equals_numeric_integration(epsilon: float, shape: tuple[int, int]) -> None:
    s = math.exp(epsilon / 2)
    C = (s + 1) / (s - 1)
    inside = s * (s - 1) / (2 * (s + 1))

    def centre(x: float) -> float:
        left = (C + 1) * (2 * x - 1) / 2 - (C - 1) / 2
        return left + (C - 1) / 2

    densities = inside, inside / math.exp(epsilon)
    expected = band(-C, C, centre, (C - 1) / 2, densities, shape)
    found = make("piecewise", epsilon, shape[1], shape[0]).dense()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("epsilon", "inner", "value_buckets"), [(0.1, 5, 3), (1.0, 3, 4), (4.0, 5, 3)])
def test_laplace_equals_numeric_integration(epsilon: float, inner: int, value_buckets: int) -> None:
    # On [-1, 1] the scale is 2/eps: 1/eps on the unit interval.
    edges = np.concatenate(([-math.inf], np.linspace(0.0, 1.0, inner + 1), [math.inf]))
    noise = stats.laplace(scale=1.0 / epsilon)
    expected = np.empty((inner + 2, value_buckets))
    for report in range(inner + 2):
        s, t = edges[report], edges[report + 1]

        def given(x: float, s: float = s, t: float = t) -> float:
            return float(noise.cdf(t - x) - noise.cdf(s - x))

        for value in range(value_buckets):
            x0, x1 = value / value_buckets, (value + 1) / value_buckets
            points = [edge for edge in (s, t) if x0 < edge < x1]
            area, _ = integrate.quad(given, x0, x1, points=points or None, epsabs=1e-13)
            expected[report, value] = area * value_buckets
    found = make("laplace", epsilon, value_buckets, inner).dense()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


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

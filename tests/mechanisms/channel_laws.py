"""Laws of channels and of privacy: each is a function that fails for a case that breaks it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cases import EXTREME, MODERATE, Case, built, has_whole_reports, largest_ratio, likelihoods
from hypothesis import given, settings
from hypothesis import strategies as st
from law import is_estimated_whole, is_pure, law, reports_numbers
from support.channels import assert_products_are_the_matrix

from ldpbeam.channels import Channel
from ldpbeam.domains import Domain
from ldpbeam.mechanisms import (
    CategoricalMechanism,
    KeyValueMechanism,
    Mechanism,
    NumericMechanism,
    SampledCoordinate,
)

#: What a likelihood ratio may be above exp(epsilon), relatively: the rounding of the matrix.
SLACK = 1e-9
reproducibly = settings(derandomize=True, deadline=None, max_examples=25)


def channels_of(mechanism: Mechanism) -> list[tuple[Channel, tuple[int, int]]]:
    """Channels of whole reports and of histograms, at several sizes, each with the shape it should have."""
    shapes = [(1, 1), (7, 12), (12, 7), (64, 48), (48, 64)]
    if isinstance(mechanism, KeyValueMechanism):
        shapes = [(1, 1), (4, 7), (7, 4)]
    elif isinstance(mechanism, CategoricalMechanism):
        shapes = [(mechanism.size, 7)]
    elif mechanism.granularity > 1:
        shapes = [(mechanism.granularity, 9), (3 * mechanism.granularity, 5)]
    channels = []
    for buckets, resolution in shapes:
        columns = buckets
        if isinstance(mechanism, KeyValueMechanism):
            columns = mechanism.channel(buckets, resolution).shape[1]
        cells = mechanism.histogram_cells(resolution)
        channels.append((mechanism.histogram_channel(buckets, resolution), (cells, columns)))
        if has_whole_reports(mechanism):
            cells = mechanism.cells(resolution)
            channels.append((mechanism.channel(buckets, resolution), (cells, columns)))
    return channels


@law(is_estimated_whole)
def columns_sum_to_one_and_products_are_those_of_the_matrix(case: Case) -> None:
    for epsilon in case.epsilons(*MODERATE):
        mechanism = case.at(epsilon)
        for channel, shape in channels_of(mechanism):
            matrix = channel.dense()
            assert matrix.shape == channel.shape == shape
            # A report of one key says nothing of the others; else every report can come from every value.
            assert matrix.min() >= 0.0 if isinstance(mechanism, KeyValueMechanism) else matrix.min() > 0.0
            np.testing.assert_allclose(matrix.sum(axis=0), 1.0, rtol=0, atol=1e-12)
            np.testing.assert_allclose(channel.rmatvec(np.ones(shape[0])), 1.0, rtol=0, atol=1e-12)
            assert_products_are_the_matrix(channel)


@law(reports_numbers)
def single_values_have_the_probabilities_that_buckets_are_the_averages_of(case: Case) -> None:
    """The midpoint rule with 4,096 parts of a bucket errs by less than the square of a part's width."""
    buckets, resolution, parts = 3, 8, 4096
    values = (np.arange(buckets * parts) + 0.5) / (buckets * parts)
    for epsilon in case.epsilons(*MODERATE):
        mechanism = case.at(epsilon)
        at = mechanism.at(values, resolution)
        if at is None:
            continue
        np.testing.assert_allclose(at.sum(axis=0), 1.0, rtol=0, atol=1e-12)
        averages = at.reshape(len(at), buckets, parts).mean(axis=2)
        matrix = mechanism.channel(buckets, resolution).dense()
        np.testing.assert_allclose(averages, matrix, rtol=0, atol=1e-6)


@law(reports_numbers)
def probabilities_are_linear_between_corners(case: Case) -> None:
    for epsilon in case.epsilons(*MODERATE):
        mechanism = case.at(epsilon)
        corners = mechanism.corners(8)
        if corners is None:
            continue
        points = np.concatenate(([0.0], corners, [1.0]))
        ends, middles = mechanism.at(points, 8), mechanism.at(0.5 * (points[1:] + points[:-1]), 8)
        np.testing.assert_allclose(middles, 0.5 * (ends[:, 1:] + ends[:, :-1]), rtol=0, atol=1e-12)


@law(is_estimated_whole)
def every_accepted_epsilon_gives_a_channel(case: Case) -> None:
    # Differences of densities of numbers lose digits, those of the numbers in slots some, others none.
    rounding = 1e-6 if reports_numbers(case) else 1e-10
    for epsilon in case.epsilons(*EXTREME):
        for channel, _ in channels_of(case.at(epsilon)):
            matrix = channel.dense()
            assert matrix.min() >= 0.0
            np.testing.assert_allclose(matrix.sum(axis=0), 1.0, rtol=0, atol=rounding)
            if not reports_numbers(case):
                assert_products_are_the_matrix(channel)


# Privacy


@law(is_pure)
def no_report_is_likelier_than_exp_epsilon_allows(case: Case) -> None:
    variants = st.just((case.domain, dict(case.options))) if case.variants is None else case.variants

    @reproducibly
    @given(epsilon=st.floats(0.05, min(6.0, case.largest)), variant=variants, size=st.integers(1, 40))
    def check(epsilon: float, variant: tuple[Domain, dict[str, Any]], size: int) -> None:
        domain, options = variant
        mechanism = built(case.name, domain, epsilon, options)
        if isinstance(mechanism, KeyValueMechanism):
            size = 16
        buckets = size if mechanism.granularity == 1 else mechanism.granularity
        chances = likelihoods(mechanism, buckets, size)
        np.testing.assert_allclose(chances.sum(axis=0), 1.0, rtol=0, atol=1e-11)
        assert largest_ratio(chances) <= math.exp(epsilon) * (1.0 + SLACK)

    check()


@law(lambda case: is_pure(case) and case.spends)
def the_whole_budget_is_spent(case: Case) -> None:
    # Fine buckets see the density of numbers itself; differences of nearly equal areas cost some digits.
    # What is not a number has a report that is exactly exp(epsilon) times likelier.
    for epsilon in case.epsilons(0.1, 1.0, 3.0):
        mechanism = case.at(epsilon)
        if isinstance(mechanism, NumericMechanism | SampledCoordinate):
            fine = 128 if isinstance(mechanism, SampledCoordinate) else 512
            ratio = largest_ratio(likelihoods(mechanism, fine, fine))
            assert ratio <= math.exp(epsilon) * (1.0 + 1e-7)
            assert ratio > 1.0 + 0.9 * math.expm1(epsilon)
        else:
            fine = 32 if isinstance(mechanism, KeyValueMechanism) else mechanism.granularity
            ratio = largest_ratio(likelihoods(mechanism, fine, fine))
            assert ratio == pytest.approx(math.exp(epsilon), rel=SLACK)

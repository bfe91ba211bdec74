"""Mixture reduction of numbers: which neighbours are merged, against loops, and by what deviations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from support.asked import attribute_of, question_of

from ldpbeam import Numeric
from ldpbeam.estimators.em import ems
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.mixture_reduction.mr import mr
from ldpbeam.estimators.mixture_reduction.neighbours import NeighbourChoice, bootstrap
from ldpbeam.mechanisms import (
    Piecewise,
    SquareWave,
)

Floats = NDArray[np.float64]


UNIT = Numeric(0.0, 1.0)


def distribution(estimate: Estimate) -> Floats:
    assert estimate.distribution is not None
    return estimate.distribution


def test_windows_halve_and_take_the_least_weight_below_two_deviations() -> None:
    weights = np.array([0.02, 0.03, 0.15, 0.1, 0.1, 0.2, 0.25, 0.15])
    # A window of m buckets has draws 0, m and 2m: their deviation is m.
    drawn = np.outer(np.arange(9.0), [0.0, 1.0, 2.0])

    def windows(scale: float) -> NeighbourChoice:
        scaled: Floats = scale * drawn
        return NeighbourChoice(lambda _: scaled, 2.0)

    ones = np.ones(8, dtype=np.int64)
    first = windows(0.1)
    # Half of the buckets: 0.3 against 2 x 0.4.
    assert first(weights, ones, 7).tolist() == [0, 1, 2, 3]
    merged, sizes = np.array([0.3, 0.1, 0.2, 0.25, 0.15]), np.array([4, 1, 1, 1, 1])
    # A quarter, of what is single still: 0.1 + 0.2 against 2 x 0.2.
    assert first(merged, sizes, 4).tolist() == [1, 2]
    assert first(merged, sizes, 4).tolist() == []
    # 0.3 against 0.32, which the deviation of a population would not reach.
    assert windows(0.04)(weights, ones, 7).tolist() == [0, 1, 2, 3]
    # Half of them is above (0.3 against 0.24), a quarter is not: 0.05 against 0.12.
    assert windows(0.03)(weights, ones, 7).tolist() == [0, 1]
    assert windows(0.01)(weights, ones, 7).tolist() == []
    # Half of seven are four, a quarter two.
    assert windows(0.1)(weights[:7], ones[:7], 7).tolist() == [0, 1, 2, 3]
    # No more than may be merged.
    assert windows(0.1)(weights, ones, 3).tolist() == [0, 1, 2]


def windows_by_loops(
    weights: list[float],
    cumulative: Floats,
    least: int,
    merge: Callable[[list[list[int]]], list[float]],
) -> None:
    """Algorithm 3 as printed, but for the BIC, on groups of neighbours that ``merge`` re-estimates."""
    groups = [[k] for k in range(len(weights))]
    width = len(weights)
    while len(groups) > least and width > 2:
        width = math.ceil(width / 2)
        wide = min(width, len(groups) - least + 1)
        best, start = math.inf, -1
        for k in range(len(groups) - wide + 1):
            if all(len(group) == 1 for group in groups[k : k + wide]) and sum(weights[k : k + wide]) < best:
                best, start = sum(weights[k : k + wide]), k
        if start < 0:
            continue
        one = [bucket for group in groups[start : start + wide] for bucket in group]
        drawn = cumulative[one[-1] + 1] - cumulative[one[0]]
        if best < 3 * np.std(drawn, ddof=1):
            groups[start : start + wide] = [one]
            weights = merge(groups)


def smooth_by_loops(weights: list[float]) -> list[float]:
    first, last = (2 * weights[0] + weights[1]) / 3, (2 * weights[-1] + weights[-2]) / 3
    inner = [(weights[i - 1] + 2 * weights[i] + weights[i + 1]) / 4 for i in range(1, len(weights) - 1)]
    total = first + last + sum(inner)
    return [weight / total for weight in (first, *inner, last)]


def test_a_numeric_range_equals_that_of_loops() -> None:
    attribute = attribute_of(UNIT, Piecewise(2.0), buckets=24)
    rng = np.random.default_rng(1)
    question = question_of(attribute, rng.beta(12, 4, 1_000), rng)
    counts = question.statistic.histograms[0].astype(float)
    matrix = attribute.channel(0).dense()

    def ems_of(groups: list[list[int]], weights: list[float]) -> list[float]:
        columns = np.column_stack([matrix[:, group].mean(axis=1) for group in groups])
        last = -math.inf
        while True:
            probabilities = columns @ weights
            likelihood = float(counts @ np.log(probabilities))
            if likelihood - last < 1e-3:
                return weights
            last = likelihood
            updated = np.array(weights) * (columns.T @ (counts / probabilities)) / counts.sum()
            weights = smooth_by_loops(updated.tolist())

    current = ems_of([[k] for k in range(24)], [1 / 24] * 24)
    by_bucket = dict(enumerate(current))

    components = [24]

    def merge(groups: list[list[int]]) -> list[float]:
        components.append(len(groups))
        start = [sum(by_bucket[k] for k in group) for group in groups]
        weights = ems_of(groups, start)
        for group, weight in zip(groups, weights, strict=True):
            for k in group:
                by_bucket[k] = weight / len(group)
        return weights

    cumulative = bootstrap([attribute.channel(0)], [1_000], np.array(current), 1e-3)
    windows_by_loops(current, cumulative, 6, merge)
    answer = mr(question)
    assert answer.details["components"] == components
    assert len(components) > 2
    assert not answer.details["undone"]
    np.testing.assert_allclose(distribution(answer), [by_bucket[k] for k in range(24)], atol=1e-10)


def test_bootstrap_deviations_are_those_of_repeated_experiments() -> None:
    """The estimates of people drawn anew spread as the bootstrap says."""
    attribute, truth = attribute_of(UNIT, SquareWave(1.0), buckets=64), np.full(64, 1 / 64)
    rng = np.random.default_rng(0)
    cumulative = [
        np.cumsum(distribution(ems(question_of(attribute, rng.random(2_000), rng)))) for _ in range(60)
    ]
    drawn = bootstrap([attribute.channel(0)], [2_000], truth, 1e-3)
    assert drawn.shape == (65, 32)
    assert (drawn[0] == 0.0).all()
    np.testing.assert_allclose(drawn[-1], 1.0, atol=1e-12)
    half = drawn[48] - drawn[16]
    repeated = np.array([one[47] - one[15] for one in cumulative])
    # Deviations of 32 and 60 draws: their ratio's own relative error is about
    # sqrt(1/62 + 1/118) = 0.16 (normal draws); here it may be three times that.
    assert abs(math.log(half.std(ddof=1) / repeated.std(ddof=1))) < 3 * 0.16

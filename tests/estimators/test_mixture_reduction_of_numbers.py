"""Mixture reduction of numbers: which neighbours are merged, and by what deviations."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from support.asked import attribute_of, question_of

from ldpbeam import Numeric
from ldpbeam.estimators.em import ems
from ldpbeam.estimators.mixture_reduction.neighbours import NeighbourChoice, bootstrap
from ldpbeam.mechanisms import SquareWave

Floats = NDArray[np.float64]


UNIT = Numeric(0.0, 1.0)


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


def test_bootstrap_deviations_are_those_of_repeated_experiments() -> None:
    """The estimates of people drawn anew spread as the bootstrap says."""
    attribute, truth = attribute_of(UNIT, SquareWave(1.0), buckets=64), np.full(64, 1 / 64)
    rng = np.random.default_rng(0)
    cumulative = [
        np.cumsum(ems(question_of(attribute, rng.random(2_000), rng)).distribution) for _ in range(60)
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

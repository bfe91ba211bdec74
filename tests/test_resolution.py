"""The number of report buckets that keeps enough of a mechanism's information."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from ldpbeam.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    Piecewise,
    RandomisedResponse,
    SquareWave,
    StochasticRounding,
)
from ldpbeam.resolution import AIMED, ENOUGH, RESOLUTIONS, enough_buckets, least_kept, mutual_information

EPSILONS = [0.1, 0.3, 1.0, 3.0]


def noisy(epsilon: float) -> list[Mechanism]:
    return [SquareWave(epsilon), Piecewise(epsilon), Laplace(epsilon), Gaussian(epsilon, delta=1e-6)]


def test_mutual_information_is_that_of_the_joint_distribution() -> None:
    rng = np.random.default_rng(1)
    channel = rng.dirichlet(np.ones(5), 3).T
    weights = rng.dirichlet(np.ones(3))
    joint = channel * weights
    expected = sum(stats.entropy(joint.sum(axis=axis)) for axis in (0, 1)) - stats.entropy(joint.ravel())
    assert mutual_information(channel, weights) == pytest.approx(expected, rel=1e-12)
    assert mutual_information(np.eye(4), np.full(4, 0.25)) == pytest.approx(math.log(4))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_chosen_resolution_is_the_coarsest_that_keeps_what_is_aimed_at(epsilon: float) -> None:
    for mechanism in noisy(epsilon):
        chosen = enough_buckets(mechanism, 256)
        place = RESOLUTIONS.index(chosen)
        kept = [least_kept(mechanism, 256, resolution) for resolution in RESOLUTIONS]
        assert kept[place] >= AIMED
        assert all(share < AIMED for share in kept[:place])
        assert mechanism.cells(chosen) <= 256


def test_signs_and_categories_have_buckets_of_their_own() -> None:
    for mechanism in (StochasticRounding(0.3), RandomisedResponse(0.3, size=700)):
        assert least_kept(mechanism, 256, 2) == 1.0
        assert enough_buckets(mechanism, 256) == RESOLUTIONS[0]


def hump(centre: float, width: float, buckets: int = 256) -> NDArray[np.float64]:
    edges = special.ndtr((np.linspace(0, 1, buckets + 1) - centre) / width)
    return np.diff(edges) / (edges[-1] - edges[0])


OTHERS = {
    "smooth": hump(0.5, 0.2),
    "skewed": np.diff(special.betainc(1.5, 6.0, np.linspace(0, 1, 257))),
    "two humps": 0.3 * hump(0.15, 0.06) + 0.7 * hump(0.62, 0.08),
    "a narrow hump": hump(0.37, 0.06),
    "a point among others": 0.5 * np.eye(256)[93] + 0.5 * np.full(256, 1 / 256),
}


@pytest.mark.parametrize("population", OTHERS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_other_populations_keep_enough_as_well(population: str, epsilon: float) -> None:
    weights = OTHERS[population]
    for mechanism in noisy(epsilon):
        coarse, fine = (
            mutual_information(mechanism.channel(256, n).dense(), weights)
            for n in (enough_buckets(mechanism, 256), 4096)
        )
        assert coarse >= ENOUGH * fine, mechanism

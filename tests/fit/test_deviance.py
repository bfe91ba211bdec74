"""The deviance and its distribution, against sums over all counts and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ldpbeam.fit.deviance import Moments, checked, deviance, moments


def test_the_deviance_is_the_sum_over_cells() -> None:
    probabilities = np.array([0.5, 0.3, 0.2])
    for counts in ([3.0, 4.0, 5.0], [0.0, 0.0, 7.0]):
        n = sum(counts)
        expected = 2 * sum(c * math.log(c / (n * p)) for c, p in zip(counts, probabilities, strict=True) if c)
        assert deviance(np.array(counts), probabilities) == pytest.approx(expected, rel=1e-12)
    assert deviance(np.array([1.0, 2.0, 0.0]), np.array([0.0, 1.0, 0.0])) == math.inf


@pytest.mark.parametrize("n", [100, 1000, 100_000])
def test_moments_and_tail_are_those_of_draws(n: int) -> None:
    rng = np.random.default_rng(n)
    probabilities = rng.dirichlet(np.full(256, 0.5))
    draws = rng.multinomial(n, probabilities, size=4000).astype(float)
    found = np.array([deviance(counts, probabilities) for counts in draws])
    known = moments(n, probabilities)
    # Four standard errors of a mean and of a variance of 4000 draws.
    assert abs(found.mean() - known.mean) < 4 * found.std() / math.sqrt(4000)
    assert abs(found.var() / known.variance - 1) < 4 * math.sqrt((stats.kurtosis(found) + 2) / 4000)
    tail = np.mean([known.p_value(value) < 0.01 for value in found])
    assert abs(tail - 0.01) < 4 * math.sqrt(0.01 * 0.99 / 4000)


def test_large_counts_have_the_chi_square_distribution() -> None:
    known = moments(1e9, np.full(50, 0.02))
    assert known.mean == pytest.approx(49, rel=1e-3)
    assert known.variance == pytest.approx(98, rel=1e-2)
    assert known.p_value(80.0) == pytest.approx(stats.chi2.sf(80, 49), rel=0.05)
    assert Moments(49.0, 98.0).p_value(80.0) == pytest.approx(stats.chi2.sf(80, 49), rel=1e-9)


def test_a_p_value_that_draws_contradict_is_theirs() -> None:
    probabilities = np.full(10, 0.1)
    counts = np.random.default_rng(0).multinomial(1000, probabilities).astype(float)
    found = deviance(counts, probabilities)
    # Half of all draws or so are as large as an ordinary deviance, whatever the formula said.
    assert checked(0.001, found, counts, probabilities) > 0.05
    # Nothing is drawn where draws could not see it, or where nothing hangs on it.
    assert checked(1e-13, found, counts, probabilities) == 1e-13
    assert checked(0.5, 1e9, counts, probabilities) == 0.5
    # No draw has such a deviance: the formula's tail reaches further.
    assert checked(1e-9, 1e9, counts, probabilities) == 1e-9
    assert checked(0.001, found, counts, probabilities) == checked(0.001, found, counts, probabilities)

"""The variance by user of numbers: what dependent reports are worth, and the noise that draws lack."""

from __future__ import annotations

import numpy as np
import pytest
from support.memoised_reports import FLEETS

from ldpbeam.over_time.joined_windows import JoinedCells, joined_cells
from ldpbeam.over_time.variance_by_user import added_noise, independent_covariance, noise_factor, variance_of

SIZE, USERS, TIMES = 6, 500, 4
SHARES = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])


def repeated(times: int) -> JoinedCells:
    """Users who send the same report several times."""
    cells = np.random.default_rng(1).choice(SIZE, USERS, p=SHARES)
    return joined_cells(np.repeat(np.arange(USERS), times), np.repeat(cells, times), SIZE)


def test_repeated_reports_are_worth_one() -> None:
    once, often = repeated(1), repeated(TIMES)
    told = np.arange(SIZE, dtype=float)
    assert once.covariance(np.eye(SIZE)) == pytest.approx(independent_covariance(once, np.eye(SIZE)))
    assert variance_of(often, told, 0.0) == pytest.approx(variance_of(once, told, 0.0))
    assert variance_of(once, told, 0.0) == pytest.approx(np.var(np.repeat(told, once.totals)) / USERS)
    attribute = FLEETS["square_wave"].study.attribute("x")
    cells = np.random.default_rng(2).integers(0, 32, USERS)
    for times in (1, TIMES):
        rows = np.repeat(np.arange(USERS), times)
        joined = joined_cells(rows, np.repeat(cells, times), 32)
        assert noise_factor(attribute, 0, joined) == pytest.approx(times)


def test_the_variance_is_not_below_that_of_independent_reports_nor_of_their_noise() -> None:
    """Users with one report in each cell vary less than chance: the mean over reports is the same for all."""
    joined = joined_cells(np.repeat(np.arange(9), SIZE), np.tile(np.arange(SIZE), 9), SIZE)
    told = np.arange(SIZE, dtype=float)[:, None]
    assert joined.covariance(told)[0, 0] == pytest.approx(0.0)
    independent = independent_covariance(joined, told)[0, 0]
    assert variance_of(joined, told[:, 0], 0.1) == pytest.approx(independent)
    equal = joined_cells(np.repeat(np.arange(2), 4), np.zeros(8, dtype=np.int64), SIZE)
    assert variance_of(equal, told[:, 0], 4.0) == pytest.approx(0.5)


@pytest.mark.parametrize("factor", [1.0, float(TIMES)])
def test_draws_and_added_noise_have_the_covariance_of_the_users(factor: float) -> None:
    """Reports show values, so the posterior is normal with the multinomial covariance.

    A variance of 4,000 draws has the relative standard error sqrt(2/4000); the jackknife doubles it.
    """
    joined, rng, many = repeated(TIMES), np.random.default_rng(3), 4_000
    n = int(joined.totals.sum())
    seen = joined.totals / n
    right = joined.covariance(np.eye(SIZE))
    assert right == pytest.approx(TIMES * independent_covariance(joined, np.eye(SIZE)))
    draws = rng.multivariate_normal(seen, right * factor / TIMES, many)
    noise = added_noise(joined, draws.T, draws, factor, rng)
    assert noise.shape == draws.shape
    found = np.var(draws + noise, axis=0)
    assert found == pytest.approx(np.diag(right), rel=8.0 * np.sqrt(2.0 / many))
    if factor == TIMES:
        # Nothing is missing, and noise of the draws is in both covariances that are compared.
        assert np.abs(noise).max() < 1e-6

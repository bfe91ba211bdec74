"""What each user sent in several windows: the variance by user, by brute force and on drawn populations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support import memoised_clients as clients

from ldpbeam.memoised.chains import randomised_response
from ldpbeam.over_time.joined_windows import (
    JoinedCells,
    JoinedSupports,
    joined_cells,
    joined_supports,
)

WINDOWS, SIZE, RUNS = 6, 5, 150
WINDOW = randomised_response(SIZE, 2.0, 1.0).window


def a_week(rng: np.random.Generator, people: int = 60) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(users, categories that are named) of people who answer some of the windows."""
    sent = rng.random((people, WINDOWS)) < 0.6
    named = rng.integers(0, SIZE, (people, 1)) + (rng.random((people, WINDOWS)) < 0.3)
    rows = np.repeat(np.arange(people)[:, None] * 7, WINDOWS, axis=1)
    order = rng.permutation(int(sent.sum()))
    return rows[sent][order], (named % SIZE)[sent][order]


def test_the_variances_are_those_of_a_loop_over_users() -> None:
    rows, named = a_week(np.random.default_rng(1))
    supports = joined_supports(rows, named[:, None] == np.arange(SIZE), WINDOWS)
    cells = joined_cells(rows, named, SIZE)
    by_hand, covariance, n = np.zeros(SIZE), np.zeros((SIZE, SIZE)), len(rows)
    totals = np.bincount(named, minlength=SIZE)
    for user in set(rows.tolist()):
        own = np.bincount(named[rows == user], minlength=SIZE)
        away = own - own.sum() * totals / n
        by_hand += away**2
        covariance += np.outer(away, away) / n**2
    assert supports.reports == n and np.array_equal(supports.supports, totals)
    assert supports.variances == pytest.approx(by_hand)
    assert cells.covariance(np.eye(SIZE)) == pytest.approx(covariance)
    told = np.arange(SIZE, dtype=float)[:, None]
    assert cells.covariance(told)[0, 0] == pytest.approx((told.T @ covariance @ told)[0, 0])


def test_parts_of_the_users_merge_into_the_whole_bit_for_bit() -> None:
    rows, named = a_week(np.random.default_rng(2))
    part = rows % 2 == 0

    def both(chosen: NDArray[np.bool_]) -> tuple[JoinedSupports, JoinedCells]:
        supported = named[chosen][:, None] == np.arange(SIZE)
        return joined_supports(rows[chosen], supported, WINDOWS), joined_cells(
            rows[chosen], named[chosen], SIZE
        )

    whole, one, other = both(np.ones(len(rows), dtype=bool)), both(part), both(~part)
    assert one[0].merged(other[0]) == whole[0] and one[1].merged(other[1]) == whole[1]
    assert whole[0] != one[0] and whole[1] != one[1]
    with pytest.raises(ValueError, match="cannot be merged"):
        one[0].merged(joined_supports(rows, named[:, None] == np.arange(SIZE), WINDOWS + 1))
    with pytest.raises(ValueError, match="cannot be merged"):
        one[1].merged(joined_cells(rows, named, SIZE + 1))


def test_no_user_has_more_reports_than_windows_and_none_is_no_statistic() -> None:
    with pytest.raises(ValueError, match="2 reports in 1 windows"):
        joined_supports(np.array([5, 5]), np.ones((2, SIZE), dtype=bool), 1)
    with pytest.raises(ValueError, match="no reports"):
        joined_cells(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), SIZE).covariance(np.eye(SIZE))


@pytest.mark.parametrize(("remember", "change"), [(0.0, 0.0), (0.5, 0.2), (1.0, 0.0), (1.0, 1.0)])
def test_intervals_hold_the_shares_of_the_population_whatever_the_dependence(
    remember: float, change: float
) -> None:
    """A population drawn anew in each run; users have 1 to 6 reports. 3.5 standard errors of 150 runs."""
    rng, weights = np.random.default_rng(4), np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    held, people = [], 600
    for _ in range(RUNS):
        values = np.repeat(rng.choice(SIZE, (people, 1), p=weights), WINDOWS, axis=1)
        for window in range(1, WINDOWS):
            new = rng.choice(SIZE, people, p=weights)
            values[:, window] = np.where(rng.random(people) < change, new, values[:, window - 1])
        lasting = clients.grr(values, SIZE, 2.0, 1.0, rng)
        fresh = clients.kept_or_another(values, SIZE, WINDOW[0], rng)
        named = np.where(np.arange(people)[:, None] < remember * people, lasting, fresh)
        sent = np.arange(WINDOWS) < rng.integers(1, WINDOWS + 1, (people, 1))
        rows = np.repeat(np.arange(people)[:, None], WINDOWS, axis=1)[sent]
        found = joined_supports(rows, named[sent][:, None] == np.arange(SIZE), WINDOWS)
        apart = WINDOW[0] - WINDOW[1]
        shares = (found.supports / found.reports - WINDOW[1]) / apart
        errors = np.sqrt(found.variances) / (found.reports * apart)
        held.append(np.mean(np.abs(shares - weights) <= 1.96 * errors))
    spread = max(float(np.std(held)), np.sqrt(0.05 * 0.95 / SIZE)) / np.sqrt(RUNS)
    assert abs(np.mean(held) - 0.95) < 3.5 * spread

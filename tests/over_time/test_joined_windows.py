"""What each user sent in several windows: the variance by user, by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ldpbeam.over_time.joined_windows import JoinedCells, JoinedSupports, joined_cells, joined_supports

WINDOWS, SIZE = 6, 5


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

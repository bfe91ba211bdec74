"""Differences of two windows whose people may be the same: by brute force, and how often intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import memoised_clients as clients

from ldpbeam.over_time import joined_windows
from ldpbeam.over_time.joined_windows import Difference, difference_of_windows

SIZE, RUNS, PEOPLE = 4, 400, 400
LIFETIME, EPSILON = 6.0, 4.0


@pytest.mark.parametrize("block", [2**20, SIZE * 7])
def test_differences_are_those_of_a_loop_over_users(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_windows, "BLOCK_NUMBERS", block)
    rng, users = np.random.default_rng(1), 40
    # Users have no report, one or several in each window.
    sides = [(rng.integers(0, users, many), rng.normal(size=(many, SIZE))) for many in (50, 35)]
    found = difference_of_windows(users, sides[0], sides[1], lambda reports: 3.0 * reports)
    moved, alone = np.zeros((users, SIZE)), np.zeros((2, users, SIZE))
    for which, (rows, reports) in enumerate(sides):
        for row, own in zip(rows, 3.0 * reports, strict=True):
            one = (own - 3.0 * reports.mean(axis=0)) / len(reports)
            moved[row] += one if which else -one
            alone[which, row] += one
    assert found.first == pytest.approx(3.0 * sides[0][1].mean(axis=0))
    assert found.second == pytest.approx(3.0 * sides[1][1].mean(axis=0))
    assert found.errors == pytest.approx(np.sqrt((moved**2).sum(axis=0)))
    assert found.independent == pytest.approx(np.sqrt((alone**2).sum(axis=(0, 1))))
    nobody = np.zeros(0, dtype=np.int64), np.zeros((0, SIZE))
    with pytest.raises(ValueError, match="no reports"):
        difference_of_windows(users, nobody, sides[0], lambda reports: reports)


def one_run(who: str, values: str, rng: np.random.Generator) -> Difference:
    both = {"same": PEOPLE, "half": PEOPLE // 2, "others": 0}[who]
    people = 2 * PEOPLE - both
    # Half of all people who alternate have the first category now and the second then, and half the reverse.
    first = rng.integers(0, 2 if values == "alternating" else SIZE, people)
    another = (first + rng.integers(1, SIZE, people)) % SIZE
    second = {"lasting": first, "changing": another, "alternating": 1 - first}[values]
    both_values = np.stack((first, second), axis=1)
    reports = clients.grr(both_values, SIZE, LIFETIME, EPSILON, rng)[..., None] == np.arange(SIZE)
    rows = np.arange(PEOPLE), np.arange(people - PEOPLE, people)
    sides = [(own, reports[own, window]) for window, own in enumerate(rows)]
    return difference_of_windows(people, sides[0], sides[1], lambda some: some)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "values", "added"),
    [
        ("same", "lasting", "too wide"),
        ("same", "changing", "about right"),
        ("same", "alternating", "too narrow"),
        ("half", "lasting", "too wide"),
        ("half", "alternating", "too narrow"),
        ("others", "lasting", "right"),
        ("others", "alternating", "right"),
    ],
)
def test_intervals_by_user_hold_the_difference_whoever_answered_both(
    who: str, values: str, added: str
) -> None:
    """400 populations, all with a difference of zero; 3.5 standard errors of the runs.

    Where values last, adding variances is too wide, and where they alternate it is too narrow.
    """
    rng = np.random.default_rng(4)
    runs = [one_run(who, values, rng) for _ in range(RUNS)]
    seen = slice(0, 2 if values == "alternating" else SIZE)
    moved = np.stack([run.second[seen] - run.first[seen] for run in runs])
    errors, independent = (
        np.stack([getattr(run, name)[seen] for run in runs]) for name in ("errors", "independent")
    )
    held = (np.abs(moved) <= 1.96 * errors).mean(axis=1)
    # Shares of one run depend on each other: the spread of runs counts.
    assert abs(held.mean() - 0.95) < 3.5 * max(held.std(), math.sqrt(0.05 * 0.95 / SIZE)) / math.sqrt(RUNS)
    ratio = (errors / independent).mean()
    limits = {
        "too wide": (0.0, 0.97),
        "right": (0.99, 1.01),
        "about right": (0.95, 1.15),
        "too narrow": (1.03, 1.5),
    }
    assert limits[added][0] < ratio < limits[added][1]

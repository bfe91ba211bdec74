"""Differences of two windows whose people may be the same: by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.over_time import joined_windows
from ldpbeam.over_time.joined_windows import difference_of_windows

SIZE = 4


@pytest.mark.parametrize("block", [2**20, SIZE * 7])
def test_differences_are_those_of_a_loop_over_users(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_windows, "BLOCK_NUMBERS", block)
    rng, users = np.random.default_rng(1), 40
    # Users have no report, one or several in each window.
    sides = [(rng.integers(0, users, many), rng.normal(size=(many, SIZE))) for many in (50, 35)]
    first, second, errors = difference_of_windows(users, sides[0], sides[1], lambda reports: 3.0 * reports)
    moved = np.zeros((users, SIZE))
    for which, (rows, reports) in enumerate(sides):
        for row, own in zip(rows, 3.0 * reports, strict=True):
            one = (own - 3.0 * reports.mean(axis=0)) / len(reports)
            moved[row] += one if which else -one
    assert first == pytest.approx(3.0 * sides[0][1].mean(axis=0))
    assert second == pytest.approx(3.0 * sides[1][1].mean(axis=0))
    assert errors == pytest.approx(np.sqrt((moved**2).sum(axis=0)))
    nobody = np.zeros(0, dtype=np.int64), np.zeros((0, SIZE))
    with pytest.raises(ValueError, match="no reports"):
        difference_of_windows(users, nobody, sides[0], lambda reports: reports)

"""Which cases of a product ``make test`` takes."""

from __future__ import annotations

import itertools

import pytest
from support.covering import covering

ROWS = [
    row for row in itertools.product("abcd", range(3), (0.5, 1.0, 2.0), (True, False)) if row[:2] != ("a", 2)
]


def pairs(rows: list[tuple[object, ...]]) -> set[object]:
    return {pair for row in rows for pair in itertools.combinations(enumerate(row), 2)}


def test_each_pair_of_values_is_in_a_case_that_is_taken() -> None:
    taken = covering(ROWS, every=False)
    assert pairs(taken) == pairs(ROWS)
    assert len(taken) <= 16 < len(ROWS) == 66
    assert taken == [row for row in ROWS if row in taken] == covering(ROWS, every=False)


def test_factors_may_be_coarser_than_the_values() -> None:
    taken = covering(ROWS, lambda row: (row[0], row[3]), every=False)
    assert sorted((row[0], row[3]) for row in taken) == sorted(itertools.product("abcd", (True, False)))


@pytest.mark.parametrize("every", [False, True])
def test_every_case_is_taken_if_wanted_or_if_there_is_one_factor(every: bool) -> None:
    assert covering(ROWS, every=True) == ROWS
    assert covering([], every=every) == []

"""What the page of a run says of the ledger over periods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estimate_records import price, results

from ldpbeam.results.page.html import Part
from ldpbeam.results.page.parts import parts_of
from ldpbeam.results.page.warnings import warnings_of
from ldpbeam.schemas.outputs.records import PeriodEntry, SpentAtMost

FRESH = PeriodEntry(
    period_start="2026-11-03T00:00:00Z", period_end="2026-12-03T00:00:00Z", users=1_200, reports=30_000,
    about_values=(SpentAtMost(6.0, 1_000), SpentAtMost(9.0, 1_200)),
    changes_included=(SpentAtMost(6.0, 1_000), SpentAtMost(9.0, 1_200)), cap=7.0, users_over_cap=200,
)  # fmt: skip
REMEMBERED = replace(FRESH, changes_included=(SpentAtMost(41.5, 1_200),))


def part_of(*periods: PeriodEntry) -> Part:
    (part,) = [
        part
        for part in parts_of(replace(results(price()), periods=periods))
        if part.title == "What users spent over periods"
    ]
    return part


@pytest.mark.parametrize(
    ("periods", "columns", "rows"),
    [
        ((FRESH,), ["epsilon at most", "users"], [["6", "1,000"], ["9", "1,200"]]),
        (
            (REMEMBERED,),
            ["line", "epsilon at most", "users"],
            [
                ["about values", "6", "1,000"],
                ["about values", "9", "1,200"],
                ["changes included", "41.5", "1,200"],
            ],
        ),
    ],
    ids=["fresh noise has one line", "remembered noise has two"],
)
def test_a_row_says_how_many_users_spent_at_most_an_epsilon(
    periods: tuple[PeriodEntry, ...], columns: list[str], rows: list[list[str]]
) -> None:
    part = part_of(*periods)
    assert list(part.table.columns) == columns
    assert [list(row) for row in part.table.rows] == rows
    assert any("may hold the epsilons of two periods" in sentence for sentence in part.sentences)
    assert "The cap is epsilon 7 for a period." in part.sentences


def test_several_periods_are_named_and_who_is_over_the_cap_is_warned_of() -> None:
    later = replace(FRESH, period_start="2026-12-03T00:00:00Z", period_end="2027-01-02T00:00:00Z")
    part = part_of(FRESH, later)
    assert part.table.columns[0] == "period"
    over = replace(results(price()), periods=(FRESH, replace(later, users_over_cap=0)))
    assert (
        sum(
            "200 users spent more than epsilon 7 in all in the period" in own.sentence
            for own in warnings_of(over)
        )
        == 1
    )

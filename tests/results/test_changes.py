"""What the page says of changes, and that its numbers are those of ``ldpbeam diff``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estimate_records import paid, price

from ldpbeam.answers.between import between_windows
from ldpbeam.charts.subject import Subject
from ldpbeam.results.page.changes import MOST_ROWS, changes_of
from ldpbeam.results.page.html import Part
from ldpbeam.schemas.outputs.records import Ends, EstimateRecord, IntervalsRecord, ManyEnds

HOURS = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12, 13)]


def of(hour: int, record: EstimateRecord) -> EstimateRecord:
    return replace(record, window_start=HOURS[hour], window_end=HOURS[hour + 1])


def changes(*records: EstimateRecord) -> list[Part]:
    return list(changes_of(Subject(records[0].attribute, records), None))


def test_the_last_complete_window_is_compared_with_the_one_before() -> None:
    early = replace(of(2, price(mean=9.0)), pane_timing="early", complete=False)
    later = IntervalsRecord(0.95, mean=Ends(11.0, 13.0), quantiles={"0.5": Ends(2.0, 5.0)})
    records = of(0, price()), of(1, price(mean=12.0, intervals=later)), early
    (part,) = changes(*records)
    assert part.title == "From 20 Nov 2026, 10:00 to 11:00 UTC to 20 Nov 2026, 11:00 to 12:00 UTC"
    assert part.table.columns == [
        "estimate", "number", "before", "after", "difference", "interval", "beyond error"
    ]  # fmt: skip
    told = {row[1]: row[2:] for row in part.table.rows}
    between = between_windows(records, None, HOURS[0], HOURS[1])
    of_mean = next(own for own in between.comparison.differences if own.number == "mean")
    ends = f"{of_mean.low:.4g} to {of_mean.high:.4g}"
    assert told["mean"] == ["5", "12", "7", ends, "yes"] and part.table.rows[0][1] == "mean"
    assert told["quantile 0.5"][-1] == ""
    assert part.sentences[0] == "1 of 3 numbers differs by more than the error."
    assert "the study cannot be read here" in part.sentences[2]


def test_the_two_groups_with_the_most_reports_are_compared_in_the_last_window() -> None:
    groups = {"a": 30, "b": 10, "c": 20}
    records = [
        of(hour, price(group=group, reports=reports)) for hour in (0, 1) for group, reports in groups.items()
    ]
    by_window, by_group = changes(*records)
    assert {row[1] for row in by_window.table.rows} == {"a", "b", "c"}
    assert by_group.title == "c beside a, 20 Nov 2026, 11:00 to 12:00 UTC"
    assert by_group.table.columns[1:4] == ["number", "a", "c"]


@pytest.mark.parametrize("records", [[price()], [of(0, price())], [price(group="a"), price(other_groups=3)]])
def test_without_two_windows_or_groups_there_is_nothing(records: list[EstimateRecord]) -> None:
    assert changes(*records) == []


def test_of_many_numbers_those_beyond_their_error_come_first() -> None:
    many = MOST_ROWS + 5
    names = tuple(map(str, range(many)))
    ends = IntervalsRecord(0.95, frequencies=ManyEnds((0.0,) * many, (0.1,) * many))
    shares = (0.05,) * many
    before = of(0, paid(categories=names, frequencies=shares, intervals=ends))
    high = IntervalsRecord(
        0.95, frequencies=ManyEnds((0.0,) * (many - 1) + (0.8,), (0.1,) * (many - 1) + (0.9,))
    )
    after = of(1, paid(categories=names, frequencies=(*shares[1:], 0.85), intervals=high))
    (part,) = changes(before, after)
    assert len(part.table.rows) == MOST_ROWS
    assert part.table.rows[0][1] == f"share of {many - 1}"
    assert (
        part.sentences[0]
        == f"1 of {many} numbers differs by more than the error; 5 more are in ldpbeam diff."
    )

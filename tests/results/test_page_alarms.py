"""Windows that differ from those before: a sentence on top that links them, and a mark over time."""

from __future__ import annotations

from dataclasses import replace

from support.estimate_records import held, paid, price, results

from ldpbeam.charts.over_time import means_over_time
from ldpbeam.charts.subject import STATES, Subject
from ldpbeam.results.page.answer import answer_of
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import page
from ldpbeam.results.page.warnings import warnings_of
from ldpbeam.schemas.outputs.records import AlarmRecord, EstimateRecord

HOURS = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12, 13)]


def at(record: EstimateRecord, hour: int, differs: bool, number: str, expected: float) -> EstimateRecord:
    alarm = AlarmRecord(differs, number, expected, 40, 1.0, (0.0,) * 4)
    return replace(record, window_start=HOURS[hour], window_end=HOURS[hour + 1], alarm=alarm)


def test_a_sentence_names_the_windows_that_differ() -> None:
    records = [at(price(), hour, hour > 0, "mean", 3.25 + hour) for hour in range(3)]
    (warned,) = warnings_of(results(*records))
    assert warned.attribute == "price" and warned.sentence.startswith("the mean is unlike the same hours")
    assert warned.sentence.endswith("from which 5.25 was expected in the latest window.")
    hours = ("12:00\u201313:00", "11:00\u201312:00")
    assert warned.where == ", ".join(f"20 Nov 2026, {hour} UTC" for hour in hours)
    text = page([content_of(results(*records), {})])
    assert text.index("from which 5.25") < text.index("<h2>price</h2>")


def test_a_share_is_expected_in_percent_and_each_attribute_has_its_sentence() -> None:
    shares = at(paid(), 0, True, "share of cash", 0.31)
    first, second = warnings_of(
        results(at(price(), 0, True, "mean", 2.0), shares, at(paid(), 1, False, "", 0.0))
    )
    assert (first.attribute, second.attribute) == ("price", "paid")
    assert second.sentence.startswith("the share of cash is unlike")
    assert second.sentence.endswith("from which 31.0% was expected.")


def test_no_window_that_is_like_those_before_is_named_or_marked() -> None:
    records = [at(price(), hour, False, "mean", 3.0) for hour in range(3)]
    assert warnings_of(results(*records, price(attribute="other"))) == []
    figure = means_over_time(Subject("price", records), {})
    assert figure is not None and "Open marks" not in figure.caption


def test_an_alarm_is_a_mark_over_time_and_its_window_is_still_the_latest_number() -> None:
    records = [at(price(mean=4.0 + hour), hour, hour == 2, "mean", 3.0) for hour in range(3)]
    figure = means_over_time(Subject("price", records), {})
    assert figure is not None
    assert [(row["start"], row["state"]) for row in figure.rows] == [
        *zip(HOURS, ("complete", "complete", "unusual"), strict=False)
    ]
    assert "Open marks are unusual." in figure.caption
    early = [*records[:2], replace(records[2], pane_timing="early", complete=False)]
    figure = means_over_time(Subject("price", early), {})
    assert figure is not None and figure.rows[-1]["state"] == "early"
    answer = answer_of(Subject("price", records), None)
    assert answer is not None and answer.headline.startswith("Mean price: 6")
    assert "careful" not in answer.table.columns


def test_the_table_of_numbers_says_when_each_interval_holds() -> None:
    both = held(certain={"mean": (4.0, 6.0)}, any_look={"mean": (3.0, 7.0)}, narrowest=10_000)
    for record, name, cell in (
        (price(intervals=both), "mean", "5.0 (certainly 4.0 to 6.0; at any look 3.0 to 7.0)"),
        (price(), "mean", "5.0 (certainly 4.0 to 6.0)"),
        (price(), "quantile 0.5", "3.0 (certainly 1.5 to 5.4; if smooth 2.0 to 5.0)"),
    ):
        (chapter,) = content_of(results(record), {}).chapters
        (row,) = chapter.estimates.rows
        assert row[chapter.estimates.columns.index(name)] == cell


def test_each_state_of_a_window_has_a_shape_of_its_own() -> None:
    records = [at(price(), hour, True, "mean", 3.0) for hour in range(3)]
    figure = means_over_time(Subject("price", records), {})
    assert figure is not None
    scale = figure.chart(600).to_dict()["layer"][-1]["encoding"]["shape"]["scale"]
    assert len(set(scale["range"])) == len(scale["domain"]) == len(STATES)

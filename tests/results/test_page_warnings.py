"""Warnings on the page: each sentence once, with the windows and groups that it is about."""

from __future__ import annotations

from dataclasses import replace

from support.estimate_records import paid, price, results

from ldpbeam.answers.results import Results, RunResults
from ldpbeam.charts.subject import Subset
from ldpbeam.intervals.flags import HIDDEN, LITTLE, OUTSIDE, PAGE
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import page
from ldpbeam.results.page.warnings import Warned, merged, warnings_of
from ldpbeam.schemas.outputs.records import Accounting, EstimateRecord, IntervalsRecord

HOURS = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12)]


def flagged(record: EstimateRecord, hour: int, group: str, **flags: str) -> EstimateRecord:
    intervals = IntervalsRecord(0.95, flags={part.replace("__", " "): flag for part, flag in flags.items()})
    window = {"window_start": HOURS[hour], "window_end": HOURS[hour + 1]}
    return replace(record, group=group, intervals=intervals, **window)


def test_one_flag_of_many_windows_is_one_warning_that_names_them() -> None:
    coarse, coarser = (LITTLE.format(detail=detail) for detail in ("9%", "31%"))
    hidden = HIDDEN.format(value="-20", share="7%")
    records = [
        flagged(price(), 0, "EWR", distribution=coarse, cdf=coarse, quantiles=coarse),
        flagged(price(), 1, "JFK", distribution=f"{coarser}; {hidden}"),
        flagged(price(), 1, "EWR"),
    ]
    first, second = warnings_of(results(*records))
    assert (first.what, first.where) == ("price, the shape", "2 of 3")
    assert first.sentence.startswith("the reports show no detail finer than 9% to 31% of the range: ")
    assert PAGE not in first.sentence and first.sentence.endswith("epsilon.")
    # The latest comes first.
    assert [subset.short for subset in first.subsets] == [
        "JFK, 20 Nov 2026, 11:00",
        "EWR, 20 Nov 2026, 10:00",
    ]
    assert (second.where, second.sentence.startswith("the reports do not tell whether many")) == (
        "1 of 3",
        True,
    )


def test_flags_of_single_shares_are_one_warning() -> None:
    flag = OUTSIDE.format(estimator="em")
    records = [
        flagged(paid(), hour, "a", frequencies__cash=flag, **{"frequencies__card > 5": flag})
        for hour in (0, 1)
    ]
    (warned,) = warnings_of(results(*records))
    assert (warned.what, warned.where) == ("paid, the share of cash and card > 5", "2 of 2")


def test_sentences_that_differ_in_numbers_are_one() -> None:
    assert merged(["1,200 of 9 people", "30 of 9 people"]) == "30 to 1,200 of 9 people"
    assert merged(["a mean of -1.2", "a mean of -3.4"]) == "a mean of -3.4 to -1.2"
    assert merged(["buckets 3-5", "buckets 3-7"]) == "buckets 3-5 to 7"
    assert merged(["no number"]) == "no number"
    assert merged(["version 1.2.3", "version 1.2.4"]) == "version 1.2.3 to 4"


def of_counts(**counts: int) -> Results:
    given = dict.fromkeys(("duplicates", "late", "out_of_range", "dead_letters"), 0) | counts
    found = results(price())
    accounting = Accounting(**{"in": 2_000, "used": 2_000 - sum(given.values()), **given})
    return replace(found, runs=(RunResults(found.about, "out", True, accounting, (), None),))


def test_half_of_the_reports_unused_is_the_first_and_loudest_warning() -> None:
    first, *_ = warnings_of(of_counts(duplicates=900, late=100))
    assert first.loud and first.sentence == (
        "1,000 of 2,000 reports were not used (900 duplicates and 100 late): find out why before you read on."
    )
    assert not any(warned.loud for warned in warnings_of(of_counts(duplicates=900, late=99)))
    text = page([content_of(of_counts(duplicates=1_500), ["A sentence."], {})])
    assert 'class="loud"' in text


def test_a_warning_links_to_its_panel_and_the_line_of_the_overview_to_the_warning() -> None:
    records = [
        flagged(replace(price(), distribution=(0.4, 0.6), bucket_edges=(0.0, 1.0, 2.0)), hour, group, **flags)
        for hour in (0, 1)
        for group, flags in (("EWR", {"mean": "outside"} if hour else {}), ("JFK", {}))
    ]
    text = page([content_of(results(*records), ["A sentence."], {})])
    # The mean over time is the first figure; the panel of the last window is the second of the next one.
    assert '<a href="#p1.1">EWR, 20 Nov 2026, 11:00</a>' in text
    assert 'id="p1.1"' in text and 'id="w0.1"' in text
    assert text.count('<a href="#w0.1">1</a>') == 1
    assert "1 of 4: " in text


def test_what_has_no_panel_has_a_row_in_the_table() -> None:
    records = [flagged(price(), 0, f"g{place}", mean="outside") for place in range(3)]
    text = page([content_of(results(*records), ["A sentence."], {})])
    for place in range(3):
        assert f'id="r1.{place}"' in text and f'href="#r1.{place}"' in text


def test_the_whole_output_has_no_place() -> None:
    assert (Warned("x").what, Warned("x").where) == ("", "")
    assert str(Subset(None, None, None, 0)) == ""

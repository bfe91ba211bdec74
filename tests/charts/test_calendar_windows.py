"""Windows of a zone have their local names and times, on the page and in charts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

import pytest
from support.estimate_records import price, results

from ldpbeam import words
from ldpbeam.answers.results import RunResults
from ldpbeam.cells import clock_of
from ldpbeam.charts.over_time import means_over_time
from ldpbeam.charts.subject import Subject, Subset
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import page
from ldpbeam.schemas.outputs.records import EstimateRecord, Fit, FitEntry
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.times import milliseconds

CLOCK = clock_of("America/New_York")
#: Midnights in New York; the second day has 23 hours.
DAYS = ["2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]
STUDY = parse_study("""\
study: s
windows: {size: 1d, zone: America/New_York}
attributes:
  price: {domain: {categories: [a, b]}, services: {app: {mechanism: grr, epsilon: 1.0}}}
""")


def day(number: int) -> EstimateRecord:
    start, end = DAYS[number : number + 2]
    name = CLOCK.name((milliseconds(start), milliseconds(end)))
    return price(window_start=start, window_end=end, window_name=name)


def test_the_axis_of_time_has_what_local_clocks_show() -> None:
    for clock, shown in ((CLOCK, ["2026-03-07T00:00:00Z", "2026-03-08T00:00:00Z"]), (None, DAYS[:2])):
        figure = means_over_time(Subject("price", [day(0), day(1)], clock), {})
        assert figure is not None
        assert [row["start"] for row in figure.rows] == shown


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2026-10-19", "2026-10-26", "19\u201325 Oct"),
        ("2026-10-26", "2026-11-02", "26 Oct \u2013 1 Nov"),
        ("2026-12-28", "2027-01-04", "28 Dec 2026 \u2013 3 Jan 2027"),
        ("2026-10-01", "2026-11-01", "Oct"),
        ("2026-10-19", "2026-10-20", "19 Oct"),
        ("2026-10-19T10", "2026-10-19T11", "19 Oct, 10:00\u201311:00"),
        ("2026-10-19T10:00:10", "2026-10-19T10:00:20", "19 Oct, 10:00:10\u201310:00:20"),
        ("2026-10-19T10:00", "2026-10-19T10:00:00.250", "19 Oct, 10:00:00.000\u201310:00:00.250"),
    ],
)
def test_a_window_has_a_short_name_that_no_other_has(start: str, end: str, expected: str) -> None:
    times = [datetime.fromisoformat(time) for time in (start, end)]
    assert words.span(times[0], times[1], year=False) == expected


def test_events_inside_the_time_of_the_windows_are_marked_in_every_panel() -> None:
    (release,) = [milliseconds("2026-03-08T12:00:00Z")]
    events = {"release": release, "before": release - 10**9, "after": release + 10**9}
    records = [replace(day(number), group=group) for number in (0, 1) for group in ("north", "south")]
    figure = means_over_time(Subject("price", records, CLOCK, events), {})
    assert figure is not None
    assert [row for row in figure.rows if row["part"] == "event"] == [
        {
            "part": "event",
            "panel": panel,
            "lane": "",
            "at": "2026-03-08T08:00:00Z",
            "name": "",
            "side": "left",
        }
        for panel in ("north", "south")
    ]
    # The name is in the chart if there is room.
    assert "Vertical: release." in figure.caption
    alone = means_over_time(Subject("price", [day(0), day(1)], CLOCK, events), {})
    assert alone is not None
    assert [row["name"] for row in alone.rows if row["part"] == "event"] == ["release"]


def test_a_test_of_fit_is_of_the_window_of_an_estimate_and_has_its_name() -> None:
    test = FitEntry("price", None, False, *DAYS[1:], "reports", ("app",), 10, 1e-9, True)
    named, in_utc = Subset.of_test(test, CLOCK), Subset.of_test(test, None)
    assert named == in_utc == Subset.of(day(1)) and len({named, in_utc, Subset.of(day(1))}) == 1
    assert (named.window, in_utc.window) == (
        "2026-03-08 (New York), 23 h",
        "8 Mar 2026, 05:00\u201304:00 UTC",
    )


@pytest.mark.parametrize("zoned", [True, False])
def test_no_place_of_the_page_names_a_local_window_in_utc(zoned: bool) -> None:
    test = FitEntry("price", None, False, *DAYS[1:], "reports", ("app",), 10, 1e-9, True)
    records = [replace(day(0), notes=("a note",)), replace(day(1), mean=9.0)]
    if not zoned:
        records = [replace(record, window_name=None) for record in records]
    found = results(*records)
    run = RunResults(found.about, "out", True, None, (), Fit(0.01, (test,)))
    found = replace(found, runs=(run,), read_study=lambda: (STUDY if zoned else None, ""))
    text = re.sub("<script.*?</script>", "", page([content_of(found, {})]), flags=re.DOTALL)
    assert ("UTC" in text) != zoned
    assert ("2026-03-08 (New York), 23 h" in text) == zoned

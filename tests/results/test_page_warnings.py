"""Warnings on the page: each sentence once, with the windows and groups that it is about."""

from __future__ import annotations

import re
from dataclasses import replace

from support.estimate_records import held, paid, price, results

from ldpbeam.answers.results import Results, RunResults
from ldpbeam.charts.subject import Subset
from ldpbeam.intervals.flags import PAGE, REFUSED_PAYLOADS, UNEXPLAINED
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import page
from ldpbeam.results.page.warnings import Warned, merged, warnings_of
from ldpbeam.schemas.outputs.records import Accounting, EstimateRecord

HOURS = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12)]


def flagged(record: EstimateRecord, hour: int, group: str, **flags: str) -> EstimateRecord:
    window = {"window_start": HOURS[hour], "window_end": HOURS[hour + 1]}
    return replace(record, group=group, intervals=held(flags), **window)


def test_one_flag_of_many_windows_is_one_warning_that_names_them() -> None:
    few, more = (REFUSED_PAYLOADS.format(share=share, service="web") for share in ("9%", "31%"))
    records = [
        flagged(price(), 0, "EWR", certain=few),
        flagged(price(), 1, "JFK", certain=more, if_smooth=UNEXPLAINED),
        flagged(price(), 1, "EWR"),
    ]
    first, second = warnings_of(results(*records))
    assert (first.what, first.where) == (
        "price, all intervals",
        "2 of 3: JFK, 20 Nov 2026, 11:00, EWR, 20 Nov 2026, 10:00",
    )
    assert first.sentence.startswith("9% to 31% of the payloads of web were refused: ")
    assert PAGE not in first.sentence and first.sentence.endswith("number.")
    assert (second.what, second.where) == (
        "price, what holds if people are spread smoothly",
        "1 of 3: JFK, 20 Nov 2026, 11:00",
    )
    assert second.sentence.startswith("no density that was tried explains")


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
    text = page([content_of(of_counts(duplicates=1_500), {})])
    assert 'class="loud"' in text


def test_what_numbers_say_of_themselves_is_folded_into_their_attribute() -> None:
    records = [flagged(price(), 0, "EWR", certain="outside"), replace(paid(), group="EWR")]
    text = page([content_of(replace(of_counts(late=1), estimates=tuple(records)), {})])
    parts = re.split("<h2>", text)
    assert [part.partition("</h2>")[0] for part in parts[1:]] == [
        "Before you use these numbers", "price", "paid", "Where the numbers come from",
    ]  # fmt: skip
    assert "came too late" in parts[1] and "outside" not in parts[1]
    assert re.search(r"<summary>Careful: 1 thing to know.*outside", parts[2], re.DOTALL)
    assert '<th scope="col">careful</th>' in parts[2]
    assert "careful" not in parts[3].lower()


def test_the_whole_output_has_no_place() -> None:
    assert (Warned("x").what, Warned("x").where) == ("", "")
    assert str(Subset(None, None, None, 0)) == ""

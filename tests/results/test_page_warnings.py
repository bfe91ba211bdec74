"""Warnings on the page: each sentence once, with the windows and groups that it is about."""

from __future__ import annotations

import re
from dataclasses import replace

from support.estimate_records import held, paid, price, results

from ldpbeam.answers.results import Results, RunResults
from ldpbeam.intervals.flags import PAGE, REFUSED_PAYLOADS, UNEXPLAINED
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import page
from ldpbeam.results.page.warnings import caution_of, notes_of, warnings_of
from ldpbeam.schemas.outputs.records import Accounting, EstimateRecord

HOURS = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12)]


def flagged(record: EstimateRecord, hour: int, group: str, **flags: str) -> EstimateRecord:
    window = {"window_start": HOURS[hour], "window_end": HOURS[hour + 1]}
    return replace(record, group=group, intervals=held(flags), **window)


def test_what_estimates_say_is_said_once_with_how_many_say_it() -> None:
    few, more = (REFUSED_PAYLOADS.format(share=share, service="web") for share in ("9%", "31%"))
    records = [
        flagged(price(), 0, "EWR", certain=few),
        flagged(
            price(notes=("90% of people give one answer",)), 1, "JFK", certain=more, if_smooth=UNEXPLAINED
        ),
        replace(flagged(price(), 1, "EWR"), converged=False),
    ]
    refused, *others = notes_of(records)
    assert (
        refused.startswith("up to 9% of the payloads of web were refused or do not decode: ")
        and PAGE not in refused
    )
    assert refused.endswith("number (2 of 3 estimates).")
    assert sorted(said[:20] for said in others) == [
        "90% of people give o",
        "no density that was ",
        "stopped before it co",
    ]


def test_the_caution_says_in_plain_words_what_not_to_believe() -> None:
    records = [flagged(price(), 0, "EWR", certain="outside"), flagged(price(), 0, "JFK")]
    flags, *rest = caution_of(records).split(". ")
    assert flags == "1 of 2 estimates are flagged, as reports look wrong: do not rely on them"
    assert ". ".join(rest) == caution_of(records[1:])
    (drawn,) = caution_of([price(distribution=[1.0])]).split(". ")[:1]
    assert drawn == "A peak or a gap in the bars is certain only where certain intervals show it"
    assert "population" in caution_of(records, True) and "population" not in caution_of(records)


def of_counts(*, dead_letters_by_reason: dict[str, int] | None = None, **counts: int) -> Results:
    given = dict.fromkeys(("duplicates", "late", "out_of_range", "dead_letters"), 0) | counts
    found = results(price())
    accounting = Accounting(
        **{"in": 2_000, "used": 2_000 - sum(given.values()), **given},
        dead_letters_by_reason=dead_letters_by_reason or {},
    )
    return replace(found, runs=(RunResults(found.about, "out", True, accounting, (), None),))


def test_impossible_reports_cast_doubt_on_others_only_if_they_are_many() -> None:
    for impossible, doubt in ((20, False), (21, True)):
        reasons = {"payload_outside_mechanism": impossible}
        (warned,) = warnings_of(of_counts(dead_letters=impossible, dead_letters_by_reason=reasons))
        assert ("misread" in warned.sentence) == doubt and f"{impossible / 20:.2f}%" in warned.sentence


def test_half_of_the_reports_unused_is_the_first_and_loudest_warning() -> None:
    first, *_ = warnings_of(of_counts(duplicates=900, late=100))
    assert (first.attribute, first.where, first.loud) == ("", "", True) and first.sentence == (
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
    assert re.search(r"All numbers of price</summary>.*outside", parts[2], re.DOTALL)
    assert '<th scope="col">careful</th>' in parts[2] and "What not to believe</summary>" in parts[2]
    assert "careful" not in parts[3].lower()

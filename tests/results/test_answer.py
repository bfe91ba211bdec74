"""The answer on top of the page: which number, which groups are clearly higher, and what clearly changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from support.estimate_records import held, paid, price

from ldpbeam.charts.subject import Subject
from ldpbeam.results.page.answer import answer_of
from ldpbeam.results.page.html import Answer
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study
from ldpbeam.words import rounded

CHANGE = "change since 10:00\u201311:00"
HOURS = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12, 13)]


def mean(value: float, error: float, hour: int = 0, **changed: Any) -> EstimateRecord:
    """A mean whose 95% interval is that of a standard error."""
    room = norm.ppf(0.975) * error
    ends = held(changed.pop("flags", {}), certain={"mean": (value - room, value + room)})
    window = {"window_start": HOURS[hour], "window_end": HOURS[hour + 1]}
    return price(mean=value, intervals=ends, **window, **changed)


def answer(*records: EstimateRecord, study: Study | None = None) -> Answer:
    made = answer_of(Subject(records[0].attribute, records), study)
    assert made is not None
    return made


def rows(made: Answer) -> list[dict[str, str]]:
    return [dict(zip(made.table.columns, row, strict=True)) for row in made.table.rows]


def test_the_mean_is_told_with_the_digits_that_its_interval_leaves() -> None:
    made = answer(price(mean=18.59103, intervals=held(certain={"mean": (16.6, 20.6)})))
    assert made.headline == "Mean price: 18.6"
    assert rows(made) == [{"Mean price": "18.6 (16.6 to 20.6)", "median": "3", "from": "10 reports"}]
    assert rows(answer(price(users=9)))[0]["from"] == "9 people"
    assert made.sentences == []


def test_the_last_complete_window_is_compared_with_the_one_before() -> None:
    early = replace(mean(90.0, 1.0, 2), pane_timing="early", complete=False)
    made = answer(mean(5.0, 1.0, 0), mean(12.0, 1.0, 1), early)
    # Without its study clients may remember noise, so standard errors add, but for sums over reports.
    room = norm.ppf(0.975) * np.hypot(1, 1)
    (row,) = rows(made)
    assert row[CHANGE] == f"+7.0 ({7 - room:.1f} to {7 + room:.1f}): certain"
    assert row["Mean price, 11:00\u201312:00"].startswith("12.0 (")
    (said,) = made.sentences
    assert said.startswith("Since 10:00\u201311:00: rose by 7.0 (4.2 to")
    small = answer(mean(5.0, 1.0, 0), mean(7.0, 1.0, 1))
    assert rows(small)[0][CHANGE].endswith(": may be chance")
    assert small.sentences == ["Since 10:00\u201311:00: no mean changed for certain."]


def test_changes_of_all_groups_hold_together() -> None:
    """A change of 2.9 standard errors is clear alone, and not among 100 groups."""
    change = 2.9 * np.hypot(1, 1)
    for groups, clear in ((1, True), (100, False)):
        records = [
            mean(10 + change * hour, 1.0, hour, group=f"g{place}", reports=200 - place)
            for place in range(groups)
            for hour in (0, 1)
        ]
        assert rows(answer(*records))[0][CHANGE].endswith("certain") is clear


def test_groups_keep_their_order_and_colour_and_the_clearly_higher_ones_are_named() -> None:
    values = {"a": 10.0, "b": 30.0, "c": 29.0, "d": 10.5}
    records = [
        mean(value, 1.0, group=group, reports=100 - 10 * place)
        for place, (group, value) in enumerate(values.items())
    ]
    made = answer(*records)
    # Neither b nor c is certainly the highest, so the headline has no order.
    assert made.headline == "Mean price by group"
    assert made.sentences == ["b and c are certainly higher than a and d. Other differences may be chance."]
    assert [row["group"] for row in rows(made)] == ["a", "b", "c", "d"]
    assert answer(records[0], records[3]).sentences == ["No group's mean is certainly higher than another's."]
    total = mean(25.8, 1.0, group="all groups", reports=240)
    several = answer(records[0], records[1], mean(50.0, 1.0, group="e", reports=50), total)
    # The total comes first, and is no group that is higher than others.
    assert several.headline == "Mean price: 25.8 in all; e 50.0, highest; a 10.0, lowest"
    assert several.sentences == [] and rows(several)[0]["from"] == "240 reports"


def test_on_a_scale_the_median_leads_and_the_mean_is_beside_it() -> None:
    scaled = {"bucket_edges": (1.0, 10.0, 100.0), "distribution": (0.9, 0.1)}
    made = answer(*(price(group=group, **scaled) for group in ("n", "s")))
    assert made.headline == "Median price by group"
    assert rows(made)[0] | {"from": ""} == {
        "group": "n", "Median price": "3.0 (1.5 to 5.4)", "mean": "5.0 (4.0 to 6.0)", "from": "",
    }  # fmt: skip
    assert made.sentences == ["No group's median is certainly higher than another's."]


def test_many_groups_that_are_lower_are_counted() -> None:
    values = {"top": 90.0, "next": 89.0} | {f"g{place}": 1.0 for place in range(5)}
    many = [mean(value, 1.0, group=group) for group, value in values.items()]
    assert answer(*many).sentences == [
        "next and top are certainly higher than 5 other groups. Other differences may be chance."
    ]
    # Each is certainly higher than all below it: three sentences, and that there are more.
    ordered = [mean(20.0 * place, 1.0, group=f"g{place}") for place in range(7)]
    assert answer(*ordered).sentences[0].endswith("Further differences between groups are certain.")


def test_a_flagged_number_is_moved_into_its_interval_and_marked() -> None:
    made = answer(replace(mean(12.0, 1.0, flags={"certain": "false reports"}), mean=99.0))
    (row,) = rows(made)
    assert row["careful"] == "flagged" and "14.0 (10.0 to 14.0)" in row.values()
    assert rows(answer(replace(mean(12.0, 1.0), complete=False)))[0]["careful"] == "incomplete"
    # What rests on a flagged interval is not clear.
    after = mean(40.0, 1.0, 1, flags={"certain": "false reports"})
    assert rows(answer(mean(5.0, 1.0), after))[0][CHANGE].endswith("may be chance")


def test_of_categories_it_is_the_most_frequent_one_of_the_last_window() -> None:
    intervals = held(certain={"frequencies": [(0.1, 0.2), (0.2, 0.3), (0.3, 0.6)]})
    shares = {"categories": ("bus", "bike", "car"), "intervals": intervals}
    places = [{"window_start": HOURS[hour], "window_end": HOURS[hour + 1]} for hour in (0, 1)]
    made = answer(
        paid(frequencies=(0.7, 0.2, 0.1), **shares | places[0]),
        paid(frequencies=(0.15, 0.25, 0.45), **shares | places[1]),
    )
    assert made.headline == "Share of car: 45%"
    assert "points" in rows(made)[0][CHANGE]
    assert made.sentences == ["Since 10:00\u201311:00: no share changed for certain."]
    assert answer_of(Subject("paid", [paid(categories=None, frequencies=None)]), None) is None


@pytest.mark.parametrize("error", [0.0, 1e-12])
def test_an_interval_without_width_keeps_four_digits(error: float) -> None:
    assert answer(mean(18.59103, error)).headline.startswith("Mean price: 18.59")


@pytest.mark.parametrize(
    ("value", "text"), [(508.69, "500"), (-245.2, "-200"), (4321.0, "4,300"), (0.3, "0")]
)
def test_a_wide_interval_leaves_a_number_of_its_size(value: float, text: str) -> None:
    assert rounded(value, (-2_000.0, 4_000.0)) == text


def test_other_shares_in_which_groups_certainly_differ_are_named() -> None:
    shares = {"a": (0.2, 0.3, 0.5), "b": (0.4, 0.1, 0.5)}
    made = answer_of(
        Subject(
            "paid",
            [
                paid(
                    frequencies=own,
                    categories=("bus", "bike", "car"),
                    intervals=held(certain={"frequencies": [(share - 0.04, share + 0.04) for share in own]}),
                    group=group,
                )
                for group, own in shares.items()
            ],
        ),
        None,
    )
    assert made is not None and made.sentences == [
        "No group's share of car is certainly higher than another's. "
        "Certain differences between groups: share of bus and share of bike."
    ]

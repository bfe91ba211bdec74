"""Which categories small panels draw: every panel shows its own most frequent ones, if there is room."""

from __future__ import annotations

import pytest

from ldpbeam.charts.figures import Figure
from ldpbeam.charts.names import MOST_NAMES_OF_PANELS, frequencies, most_frequent
from ldpbeam.charts.over_time import MOST_LANES, shares_over_time
from ldpbeam.charts.subject import Subject
from ldpbeam.schemas.outputs.records import EstimateRecord

CARRIERS = tuple(f"carrier {place}" for place in range(16))
#: At the largest airport nobody flies with the last carrier, which has a third of the people at another.
AIRPORTS = {
    "EWR": (*(0.4 - 0.02 * place for place in range(15)), 0.0),
    "JFK": (*(0.3 - 0.02 * place for place in range(15)), 0.0),
    "LGA": (*(0.04 for _ in range(15)), 0.34),
}


def record(
    group: str | None,
    shares: tuple[float, ...],
    reports: int,
    hour: int | None = None,
    names: tuple[str, ...] = CARRIERS,
) -> EstimateRecord:
    window = {} if hour is None else {
        "window_start": f"2026-11-20T{hour:02}:00:00Z", "window_end": f"2026-11-20T{hour + 1:02}:00:00Z",
    }  # fmt: skip
    return EstimateRecord(
        study="flights", attribute="carrier", name="shares", estimator="em", reports=reports, converged=True,
        n_iterations=1, services=("app",), group=group, categories=names, frequencies=shares, **window,
    )  # fmt: skip


def shares(*records: EstimateRecord) -> Figure:
    figure = frequencies(Subject("carrier", records), {})
    assert figure is not None
    return figure


def names_in(figure: Figure, panel: str) -> list[str]:
    return [row["label"] for row in figure.rows if row["panel"] == panel]


def test_the_largest_category_of_every_panel_is_drawn_in_all() -> None:
    records = [record(name, shares, 100 - place) for place, (name, shares) in enumerate(AIRPORTS.items())]
    figure = shares(*records)
    assert figure.panels == ["EWR", "JFK", "LGA"]
    names = names_in(figure, "EWR")
    assert len(names) == MOST_NAMES_OF_PANELS and {"carrier 0", "carrier 15"} <= {*names}
    assert all(names_in(figure, panel) == names for panel in figure.panels)
    assert "The 12 with the largest estimates, of 16." in figure.caption
    assert len(names_in(shares(record(None, AIRPORTS["LGA"], 100)), "")) == 16


def test_groups_are_panels_over_time_and_names_their_lanes() -> None:
    records = [
        record(name, own, 100 - 10 * place, hour)
        for place, (name, own) in enumerate(AIRPORTS.items())
        for hour in (8, 9, 11)
    ]
    figure = shares_over_time(Subject("carrier", records))
    assert figure is not None and figure.panels == list(AIRPORTS)
    lines = {row["lane"] for row in figure.rows}
    assert len(lines) == MOST_LANES and {"carrier 0", "carrier 15"} <= lines
    # From 10 to 11 there is no window, and the line is broken.
    line = [row for row in figure.rows if (row["panel"], row["lane"]) == ("JFK", "carrier 0")]
    assert [(row["start"][11:13], row["value"]) for row in line] == [
        ("08", 0.3), ("09", 0.3), ("10", None), ("11", 0.3),
    ]  # fmt: skip


def test_a_group_has_one_place_in_all_windows_whoever_has_most_reports_there() -> None:
    # In the first window the last group has the most reports, and one group has none.
    sent = {8: {"a": 10, "b": 20, "c": 90, "d": 5, "e": 4}, 9: {"a": 300, "b": 200, "d": 50, "e": 40}}
    figure = shares(
        *(
            record(group, AIRPORTS["EWR"], reports, hour)
            for hour, own in sent.items()
            for group, reports in own.items()
        )
    )
    expected = ["a", "b", "c\n(no estimate)", "d", "e"]
    assert figure.panels == expected and figure.caption.startswith("09:00\u201310:00.")
    # The panel without an estimate is drawn, and empty.
    assert names_in(figure, expected[2]) == []
    (drawn,) = figure.chart(900).to_dict()["datasets"].values()
    assert {"panel": expected[2], "lane": ""} in drawn


def test_many_groups_and_windows_leave_twelve_panels_and_the_caption_says_of_what() -> None:
    figure = shares(
        *(record(f"g{place:02}", AIRPORTS["EWR"], 50, hour) for place in range(14) for hour in (8, 9))
    )
    assert figure.panels == [f"g{place:02}" for place in range(12)]
    assert "09:00\u201310:00. The first 12 of 14." in figure.caption


@pytest.mark.parametrize(("width", "columns"), [(350, 2), (960, 6)])
def test_as_many_panels_stand_side_by_side_as_have_room(width: int, columns: int) -> None:
    chart = shares(*(record(f"g{place}", AIRPORTS["EWR"], 50) for place in range(6))).chart(width).to_dict()
    assert chart["columns"] == columns
    assert columns * chart["spec"]["width"] < width


@pytest.mark.parametrize(
    ("panels", "most", "expected"),
    [
        ([(0.2, 0.5, 0.3)], 2, [1, 2]),
        # Two panels and two places: the largest of each, though the first panel's second is larger.
        ([(0.5, 0.45, 0.05), (0.2, 0.3, 0.5)], 2, [0, 2]),
        ([(0.5, 0.4, 0.1), (0.1, 0.1, 0.3)], 3, [0, 1, 2]),
        # Ties keep the order of the study.
        ([(0.25, 0.25, 0.25, 0.25)], 3, [0, 1, 2]),
        ([], 3, []),
    ],
)
def test_each_panels_most_frequent_name_goes_first(
    panels: list[tuple[float, ...]], most: int, expected: list[int]
) -> None:
    named = [{str(place): share for place, share in enumerate(own)} for own in panels]
    assert most_frequent(named, most) == [str(place) for place in expected]


def test_panels_of_other_names_draw_each_by_its_own() -> None:
    snow = record(None, (0.6, 0.4), 10, 8, ("snow", "others"))
    cup = record(None, (0.3, 0.5, 0.2), 10, 9, ("snow", "cup", "others"))
    both = shares(snow, cup)
    shown = [{row["label"]: row["value"] for row in both.rows if row["panel"] == own} for own in both.panels]
    assert shown == [{"snow": 0.6, "others": 0.4}, {"snow": 0.3, "cup": 0.5, "others": 0.2}]
    over_time = shares_over_time(Subject("saw", [snow, cup]))
    assert over_time is not None
    assert [(row["lane"], row["value"]) for row in over_time.rows] == [
        *(("cup", 0.5), ("others", 0.4), ("others", 0.2), ("snow", 0.6), ("snow", 0.3))
    ]

"""Which categories small panels draw: every panel shows its own most frequent ones, if there is room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ldpbeam.charts.figures import Figure
from ldpbeam.charts.names import MOST_NAMES_OF_PANELS, frequencies
from ldpbeam.charts.over_time import MOST_LINES, shares_over_time
from ldpbeam.charts.panels import most_frequent
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


def test_the_largest_category_of_every_panel_is_drawn_in_all() -> None:
    records = [record(name, shares, 100 - place) for place, (name, shares) in enumerate(AIRPORTS.items())]
    figure = frequencies(Subject("carrier", records), {})
    assert figure is not None
    # Three groups are in one chart, and each name has a dot of each.
    (panel,) = figure.panels
    drawn = list(dict.fromkeys(panel.data["main"]["label"]))
    assert len(drawn) == len(CARRIERS) and panel.data["main"]["estimate"][0] == "EWR"
    several = [replace(one, group=f"{one.group}{copy}") for one in records for copy in range(2)]
    figure = frequencies(Subject("carrier", several), {})
    assert figure is not None
    for panel, one in zip(figure.panels, several, strict=True):
        assert panel.title == one.group
        names = list(panel.data["main"]["label"])
        assert len(names) == MOST_NAMES_OF_PANELS and names == list(figure.panels[0].data["main"]["label"])
        shares = one.frequencies or ()
        assert CARRIERS[list(shares).index(max(shares))] in names
    assert "The 12 most frequent of 16." in figure.caption


def over_time(groups: int) -> Figure:
    figure = shares_over_time(
        Subject(
            "carrier",
            [
                record(f"{name}{copy}", shares, 100 - 10 * place - copy, hour)
                for place, (name, shares) in enumerate(AIRPORTS.items())
                for copy in range(groups // 3)
                for hour in (8, 9)
            ],
        )
    )
    assert figure is not None
    return figure


def test_few_groups_are_lines_of_a_panel_for_each_name() -> None:
    figure = over_time(3)
    assert [key.label for key in figure.keys] == ["EWR0", "JFK0", "LGA0"]
    titles = [panel.title for panel in figure.panels]
    assert len(titles) == MOST_LINES and {"carrier 0", "carrier 15"} <= {*titles}
    assert {*figure.panels[0].data["points"]["estimate"]} == {"EWR0", "JFK0", "LGA0"}


def test_many_groups_have_one_column_each_and_names_are_rows() -> None:
    figure = over_time(6)
    columns = ["EWR0", "EWR1", "JFK0", "JFK1", "LGA0", "LGA1"]
    for number, name in enumerate(("carrier 0", "carrier 1", "carrier 15")):
        row = figure.panels[6 * number : 6 * number + 6]
        assert [panel.title for panel in row] == columns
        assert {panel.row for panel in row} == {name}
        assert [set(panel.data["points"]["estimate"]) for panel in row] == [{group} for group in columns]
    assert [key.colour for key in figure.keys] == list(range(6))


def test_a_group_has_one_place_in_all_windows_whoever_has_most_reports_there() -> None:
    # In the first window the last group has the most reports, and one group has none.
    sent = {8: {"a": 10, "b": 20, "c": 90, "d": 5, "e": 4}, 9: {"a": 300, "b": 200, "d": 50, "e": 40}}
    records = [
        record(group, AIRPORTS["EWR"], reports, hour)
        for hour, own in sent.items()
        for group, reports in own.items()
    ]
    figure = frequencies(Subject("carrier", records), {})
    assert figure is not None
    assert [panel.title for panel in figure.panels] == 2 * ["a", "b", "c", "d", "e"]
    assert [panel.note for panel in figure.panels] == 7 * [""] + ["no estimate"] + 2 * [""]
    assert len({panel.row for panel in figure.panels}) == 2
    colours = {panel.title: {*panel.data["main"]["estimate"]} for panel in figure.panels if panel.data}
    assert all(own == {title} for title, own in colours.items())


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
    subject = Subject("saw", [snow, cup])
    both = frequencies(subject, {})
    assert both is not None
    shown = [panel.data["main"] for panel in both.panels]
    assert [dict(zip(data["label"], data["value"], strict=True)) for data in shown] == [
        {"snow": 0.6, "others": 0.4},
        {"snow": 0.3, "cup": 0.5, "others": 0.2},
    ]
    over_time = shares_over_time(subject)
    assert over_time is not None
    assert {key.label for key in over_time.keys} == {"snow", "cup", "others"}
    (data,) = (panel.data["points"] for panel in over_time.panels)
    assert sorted(zip(data["estimate"], data["value"], strict=True)) == [
        *(("cup", 0.5), ("others", 0.2), ("others", 0.4), ("snow", 0.3), ("snow", 0.6)),
    ]

"""Which categories small panels draw: every panel shows its own most frequent ones, if there is room."""

from __future__ import annotations

import pytest

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


def test_the_largest_category_of_every_panel_has_a_bar() -> None:
    records = [record(name, shares, 100 - place) for place, (name, shares) in enumerate(AIRPORTS.items())]
    figure = frequencies(Subject("carrier", records), {})
    assert figure is not None
    drawn = [list(panel.data["main"]["label"]) for panel in figure.panels]
    assert len(drawn[0]) == MOST_NAMES_OF_PANELS
    for panel, shares in zip(drawn, AIRPORTS.values(), strict=True):
        assert panel == drawn[0]
        assert CARRIERS[shares.index(max(shares))] in panel
    # Beside the chart: of the sentences in the summary the page folds away all but the first.
    assert figure.caption.endswith(
        " The 12 most frequent of 16 are drawn, those that are most frequent in any chart."
    )


def test_the_largest_category_of_every_group_has_a_line_over_time() -> None:
    records = [
        record(name, shares, 100 - place, hour)
        for place, (name, shares) in enumerate(AIRPORTS.items())
        for hour in (8, 9)
    ]
    figure = shares_over_time(Subject("carrier", records))
    assert figure is not None
    lines = [key.label for key in figure.keys]
    assert len(lines) == MOST_LINES
    assert {"carrier 0", "carrier 15"} <= {*lines}


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
    named = [{f"name {number}": share for number, share in enumerate(shares)} for shares in panels]
    assert most_frequent(named, most) == [f"name {number}" for number in expected]


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
    assert sorted(zip(data["line"], data["value"], strict=True)) == [
        *(("cup", 0.5), ("others", 0.2), ("others", 0.4), ("snow", 0.3), ("snow", 0.6)),
    ]

"""Windows as lines over time: means of a number, shares of categories and of the people who have keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Figure, Key, Panel, columns_of
from ldpbeam.charts.names import ends_of, values_of
from ldpbeam.charts.panels import TRUTH, colour, drawn, keys_of, most_frequent, reach, tips
from ldpbeam.charts.subject import MOST_PANELS, STATES, Subject, Subset, banded, level_of, mean_ends, state_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import rfc3339

#: This many categories or keys have a line, or panels of groups.
MOST_LINES, MOST_ROWS = 6, 3
#: How the time axis spells ticks of each unit.
_TIMES = {
    "seconds": "%H:%M:%S", "minutes": "%H:%M", "hours": "%H:%M", "day": "%-d %b", "date": "%-d %b",
    "week": "%-d %b", "month": "%b", "quarter": "%b", "year": "%Y",
}  # fmt: skip
_COLUMNS = ("estimate", "start", "value", "low", "high", "state", "window")
#: What a panel draws, by its row and title: the rows of its data sets.
_Panels = dict[tuple[str, str], list[dict[str, Any]]]


def means_over_time(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The means by window, of all estimates or the first of each group; None without several windows."""
    subject, panels, true = subject.over_time, _Panels(), _Panels()
    for subset, records in subject.subsets.items():
        of_mean = subject.drawn([record for record in records if record.mean is not None])
        place = "", subset.label if subject.by_group and not subject.together else ""
        for record in of_mean:
            ends = mean_ends(record) if record.name in banded(of_mean) else None
            row = _row(subject, record, subject.label(record), record.mean, ends, "mean")
            panels.setdefault(place, []).append(row)
        truth = truths.get(subset)
        if of_mean and truth is not None and truth.mean is not None:
            label = subject.label(of_mean[0]) if subject.by_group else TRUTH
            true.setdefault(place, []).append(_row(subject, of_mean[0], label, truth.mean, None))
    if len(subject.windows) < 2 or not panels:
        return None
    labels = {row["estimate"] for rows in panels.values() for row in rows}
    return _figure(
        subject,
        f"Mean {subject.name} over time",
        f"mean {subject.name}",
        dict(list(panels.items())[:MOST_PANELS]),
        true,
        keys_of(subject, labels, bool(true) and not subject.by_group),
        [f"With {level_of(subject.records)} intervals"] if level_of(subject.records) else [],
    )


def shares_over_time(subject: Subject) -> Figure | None:
    """The shares of the most frequent names by window; None without several windows, or without names.

    Lines are names. With groups they are groups: each name has a panel, or a row with a panel for each group.
    """
    subject = subject.over_time
    records = [record for record in subject.records if record.frequencies is not None]
    if len(subject.windows) < 2 or not records:
        return None
    records = [record for record in records if record.name == records[0].name]
    sums: dict[str, Counter[str]] = {}
    for record in records:
        sums.setdefault(Subset.of(record).label, Counter()).update(values_of(record, "frequencies"))
    apart = subject.by_group and not subject.together
    names = most_frequent(list(sums.values()), MOST_ROWS if apart else MOST_LINES)
    groups = subject.groups[:MOST_PANELS]
    panels: _Panels = {}
    if subject.by_group:
        panels = {
            place: [] for name in names for place in ([(name, g) for g in groups] if apart else [("", name)])
        }
    for record in records:
        ends, shares, group = (
            ends_of(record, "frequencies"),
            values_of(record, "frequencies"),
            Subset.of(record).label,
        )
        for name in names:
            place = (name, group) if apart else ("", name if subject.by_group else "")
            if name in shares and (place in panels or not subject.by_group):
                parts = "frequencies", f"frequencies {name}"
                line = group if subject.by_group else name
                row = _row(subject, record, line, shares[name], ends.get(name), *parts)
                panels.setdefault(place, []).append(row)
    keys = [Key(name, place) for place, name in enumerate(names)]
    title = f"Who has which key of {subject.name}," if records[0].keys else f"Shares of {subject.name}"
    every = len({name for shares in sums.values() for name in shares})
    return _figure(
        subject,
        f"{title} over time",
        "share of people",
        panels,
        {},
        keys_of(subject, groups, truth=False) if subject.by_group else keys,
        [
            *([f"The {len(names)} most frequent of {every:,}"] if len(names) < every else []),
            *([f"With {level_of(records)} intervals"] if level_of(records) else []),
        ],
        shares=True,
    )


def _row(
    subject: Subject,
    record: EstimateRecord,
    line: str,
    value: float | None,
    ends: tuple[float, float] | None,
    *parts: str,
) -> dict[str, Any]:
    """A window of a line; a complete one may be ``unusual``, or ``flagged`` as one of the parts is."""
    flags = record.intervals.flags if record.intervals is not None else {}
    state = state_of(record)
    if state == "complete" and record.alarm is not None and record.alarm.differs:
        state = "unusual"
    elif state == "complete" and any(part in flags for part in parts):
        state = "flagged"
    low, high = ends or (None, None)
    start = record.window_start
    if subject.clock is not None and record.window is not None:
        # Charts have axes of UTC, so they are given what clocks of the zone show as if it were UTC.
        start = rfc3339(int(subject.clock.shows(np.array(record.window))[0]))
    known = {"estimate": line, "start": start, "value": value, "low": low, "high": high}
    return known | {"state": STATES.get(state, "complete"), "window": Subset.of(record).window}


def _figure(
    subject: Subject,
    title: str,
    axis: str,
    panels: _Panels,
    true: _Panels,
    keys: Sequence[Key],
    caption: list[str],
    *,
    shares: bool = False,
) -> Figure:
    rows = [row for own in panels.values() for row in own]
    values = [row["value"] for own in (*panels.values(), *true.values()) for row in own]
    low = -reach([-value for value in values], [-row["low"] for row in rows if row["low"] is not None])
    high = reach(values, [row["high"] for row in rows if row["high"] is not None])
    room = 0.04 * (high - low) or 0.5
    domain = 0 if shares and low >= 0 else low - room, high + room
    states = [state for state in STATES.values() if any(row["state"] == state for row in rows)]
    if states:
        caption.append(f"Open marks are {words.listed([state.partition(':')[0] for state in states], 'or')}")
    if any(row["low"] is not None and (row["low"] < domain[0] or row["high"] > domain[1]) for row in rows):
        caption.append("A cross marks an interval that goes on")
    if subject.clock is not None:
        caption.append(f"Times are of {subject.clock.zone}")
    small = len(panels) > 1
    return Figure(
        title=title,
        chart=_chart(axis, keys, bool(states), domain, shares, small),
        panels=[
            Panel(
                place[1],
                _data(own, true.get(place, []), domain) if own else {},
                "" if own else "no estimate",
                place[0],
            )
            for place, own in panels.items()
        ],
        caption="".join(f"{sentence}. " for sentence in caption).strip(),
        keys=keys,
    )


def _data(
    rows: list[dict[str, Any]], true: list[dict[str, Any]], domain: tuple[float, float]
) -> dict[str, Any]:
    """The rows of lines, of their intervals and where these are cut, of complete windows, and of others."""
    banded_rows = [row for row in rows if row["low"] is not None]
    parts = {
        "bands": banded_rows,
        "cut": [
            row | {"value": 0.92 * end + 0.04 * sum(domain)}
            for row in banded_rows
            for end, beyond in zip(domain, (row["low"] < domain[0], row["high"] > domain[1]), strict=True)
            if beyond
        ],
        "points": rows,
        "complete": [row for row in rows if row["state"] == "complete"],
        "open": [row for row in rows if row["state"] != "complete"],
        "truth": true,
    }
    return {
        name: columns_of(sorted(own, key=lambda row: row["start"]), _COLUMNS) for name, own in parts.items()
    }


def _chart(
    title: str, keys: Sequence[Key], marked: bool, domain: tuple[float, float], shares: bool, small: bool
) -> dict[str, Any]:
    """Bands, lines, the truth, and a mark for each window, which is open if it needs care."""
    x = alt.X(
        "start:T",
        title=None,
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(grid=False, format=_TIMES, tickCount=3 if small else 6, labelOverlap=True),
    )
    y = alt.Y(
        "value:Q",
        title=None if small else title,
        scale=alt.Scale(domain=list(domain), nice=False, zero=False),
        axis=alt.Axis(format="~%" if shares else ",.5~g", tickCount=3 if small else 5),
    )
    tint, spelled = colour(keys), ".3~%" if shares else ",.4~g"
    shown = [
        "window:N",
        "estimate:N",
        *tips(spelled, ("value", "value"), ("low", "low"), ("high", "high")),
        "state:N",
    ]
    bands, cut, points, whole, open_, truth = (
        alt.Chart(alt.NamedData(name)) for name in ("bands", "cut", "points", "complete", "open", "truth")
    )
    shapes = alt.Scale(
        domain=list(STATES.values()),
        range=["triangle-up", "square", "triangle-down", "diamond", "triangle-right"],
    )
    layers = [
        bands.mark_area(opacity=0.16, clip=True).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=tint),
        points.mark_line(strokeWidth=1.75).encode(x=x, y=y, color=tint),
        truth.mark_line(strokeWidth=1.5, strokeDash=[2, 2]).encode(x=x, y=y, color=tint),
        cut.mark_point(shape="cross", filled=True, size=36, opacity=1).encode(x=x, y=y, color=tint),
        whole.mark_circle(size=12 if small else 44, opacity=1).encode(x=x, y=y, color=tint, tooltip=shown),
        open_.mark_point(
            filled=False, size=40 if small else 80, strokeWidth=1.5 if small else 2, opacity=1
        ).encode(x=x, y=y, color=tint, shape=alt.Shape("state:N", scale=shapes, legend=None), tooltip=shown),
    ]
    return drawn(layers if marked else layers[:-1], 120 if small else 300)

"""Windows as lines over time: means of a number, shares of categories and of the people who have keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import GOES_ON, Figure, colour, of, reach
from ldpbeam.charts.names import intervals_of, most_frequent, values_of
from ldpbeam.charts.subject import (
    MOST_PANELS,
    STATES,
    Subject,
    Subset,
    banded,
    flag_of,
    level_of,
    mean_ends,
    state_of,
)
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import rfc3339

#: This many categories or keys have a line, alone and in each of several panels.
MOST_LINES, MOST_LINES_OF_PANELS = 6, 4
#: This many windows have a tick below them, alone and in each of several panels.
_TICKS, _TICKS_OF_PANELS = 8, 3
#: How the time axis spells ticks of each unit.
_TIMES = {"seconds": "%H:%M:%S", "minutes": "%H:%M", "hours": "%H:%M"} | dict.fromkeys(
    ("day", "date", "week", "month", "quarter", "year"), "%-d %b"
)


def means_over_time(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The means by window; None without several windows."""
    subject, rows = subject.over_time, list[dict[str, Any]]()
    for subset, records in subject.subsets.items():
        own = [record for record in records if record.mean is not None]
        for record in own:
            ends = mean_ends(record) if record.name in banded(own) else None
            rows.append(_row(subject, record, subject.labels[record.name], record.mean, ends, "mean"))
        truth = truths.get(subset)
        if own and truth is not None and truth.mean is not None:
            rows.append(_row(subject, own[0], "", truth.mean, None, "mean") | {"part": "truth"})
    lines = [label for label in subject.labels.values() if any(row["estimate"] == label for row in rows)]
    return _figure(subject, f"Mean {subject.name} over time", rows, lines, [], f"mean {subject.name}")


def shares_over_time(subject: Subject) -> Figure | None:
    """The shares of the most frequent names by window; None without several windows, or without names."""
    subject = subject.over_time
    records = [record for record in subject.records if record.frequencies is not None]
    records = [record for record in records if record.name == records[0].name]
    sums: dict[str, Counter[str]] = {}
    for record in records:
        sums.setdefault(Subset.of(record).label, Counter()).update(values_of(record, "frequencies"))
    names = most_frequent(list(sums.values()), MOST_LINES_OF_PANELS if subject.by_group else MOST_LINES)
    rows = [
        _row(subject, record, name, shares[name], ends.get(name), "frequencies")
        for record in records
        for shares, ends in [(values_of(record, "frequencies"), intervals_of(record, "frequencies"))]
        for name in names
        if name in shares
    ]
    keys = any(record.keys for record in records)
    title = f"Who has which key of {subject.name}," if keys else f"Shares of {subject.name}"
    every = len({name for shares in sums.values() for name in shares})
    said = [f"The {len(names)} most frequent of {every:,}."] if len(names) < every else []
    return _figure(subject, f"{title} over time", rows, names, said, "share of people", shares=True)


def _row(
    subject: Subject,
    record: EstimateRecord,
    line: str,
    value: float | None,
    ends: tuple[float, float] | None,
    part: str,
) -> dict[str, Any]:
    """A window of a line; a complete one may be ``unusual``, or ``flagged`` as the part is."""
    state = state_of(record)
    if state == "complete" and record.alarm is not None and record.alarm.differs:
        state = "unusual"
    elif state == "complete" and flag_of(record, part):
        state = "flagged"
    low, high = ends or (None, None)
    start, end = record.window_start, record.window_end
    if record.window is not None:
        start, end = _shown(subject, *record.window)
    known = {"part": "window", "panel": subject.group_of(record), "estimate": line, "start": start}
    return known | {"end": end, "value": value, "low": low, "high": high, "state": state}


def _shown(subject: Subject, *times: int) -> list[str]:
    """Times as charts show them: their axes are of UTC, so a zone's are given as if they were UTC."""
    clock = subject.clock
    return list(map(rfc3339, times if clock is None else clock.shows(np.array(times)).tolist()))


def _with_gaps(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows by line and time, with one of no value where windows are missing, which breaks the line."""
    found: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: (row["part"], row["panel"], row["estimate"], row["start"])):
        before = found[-1] if found else row
        same = all(row[name] == before[name] for name in ("part", "panel", "estimate"))
        if same and row["start"] > before["end"]:
            nothing = dict.fromkeys(("value", "low", "high"))
            found.append({**before, **nothing, "start": before["end"], "state": "missing"})
        found.append(row)
    return found


def _figure(
    subject: Subject,
    title: str,
    rows: list[dict[str, Any]],
    lines: Sequence[str],
    said: Sequence[str],
    axis: str,
    *,
    shares: bool = False,
) -> Figure | None:
    panels = subject.groups[:MOST_PANELS] if subject.by_group else [""]
    rows = [row for row in rows if row["panel"] in panels]
    panels = [panel for panel in panels if any(row["panel"] == panel for row in rows)]
    if len(subject.windows) < 2 or not rows:
        return None
    values = [row["value"] for row in rows]
    ends = [(row["low"], row["high"]) for row in rows if row["low"] is not None]
    low = -reach([-value for value in values], [-end for end, _ in ends])
    high = reach(values, [end for _, end in ends])
    room = 0.04 * (high - low) or 0.5
    domain = [0 if shares and low >= 0 else low - room, high + room]
    starts = sorted({row["start"] for row in rows})
    times = zip(subject.events, _shown(subject, *subject.events.values()), strict=True)
    events = [
        {"part": "event", "panel": panel, "start": time, "name": name}
        for name, time in times
        if starts[0] <= time <= max(row["end"] for row in rows)
        for panel in panels
    ]
    marked = [state for state in STATES if any(row["state"] == state for row in rows)]
    caption = [
        *([f"With {level_of(subject.records)} intervals."] if ends else []),
        *(["Dashed: the truth."] if any(row["part"] == "truth" for row in rows) else []),
        *([f"Open marks are {words.listed(marked, 'or')}."] if marked else []),
        *([GOES_ON] if any(end[0] < domain[0] or end[1] > domain[1] for end in ends) else []),
        *([f"Times are of {subject.clock.zone}."] if subject.clock is not None else []),
        *said,
    ]
    if len(panels) < len(subject.groups) and subject.by_group:
        caption.append(f"The {len(panels)} largest of {len(subject.groups):,} groups.")
    ticks = _TICKS if len(panels) == 1 else _TICKS_OF_PANELS
    return Figure(
        title=title,
        layers=_layers(axis, lines, starts[:: -(-len(starts) // ticks)], domain, shares),
        rows=[*_with_gaps(rows), *events],
        panels=panels,
        height=260 if len(panels) == 1 else 110,
        caption=" ".join(caption),
    )


def _layers(
    title: str, lines: Sequence[str], ticks: Sequence[str], domain: list[float], shares: bool
) -> list[alt.Chart]:
    """Bands, lines, the truth, and a mark for each window, which is open if it needs care."""
    x = alt.X(
        "start:T",
        title=None,
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(grid=False, format=_TIMES, values=ticks, labelOverlap=True),
    )
    y = alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(format="~%" if shares else alt.Undefined, tickCount=4),
    )
    tint = colour(lines, lines)
    shapes = ["triangle-up", "square", "triangle-down", "diamond", "triangle-right"]
    shape = alt.Shape("state:N", scale=alt.Scale(domain=list(STATES), range=shapes), legend=None)
    marks = of("window").transform_filter("isValid(datum.value)")
    whole = marks.transform_filter("datum.state == 'complete'")
    return [
        of("window")
        .mark_area(opacity=0.16, clip=True)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=tint),
        of("window").mark_line(strokeWidth=1.75).encode(x=x, y=y, color=tint),
        of("truth").mark_line(strokeWidth=1.25, strokeDash=[2, 2], style="truth").encode(x=x, y=y),
        of("event").mark_rule(strokeDash=[6, 3], style="truth").encode(x=x),
        of("event")
        .mark_text(align="left", dx=4, baseline="top", style="truth", strokeWidth=0)
        .encode(x=x, y=alt.value(2), text="name:N"),
        whole.mark_circle(size=22, opacity=1).encode(x=x, y=y, color=tint),
        marks.transform_filter("datum.state != 'complete'")
        .mark_point(filled=False, size=60, strokeWidth=1.75, opacity=1)
        .encode(x=x, y=y, color=tint, shape=shape),
    ]

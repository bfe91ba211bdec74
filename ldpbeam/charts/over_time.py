"""Windows as lines over time: means of a number, shares of categories and of the people who have keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import GOES_ON, Figure, of, reach
from ldpbeam.charts.names import intervals_of, most_frequent, values_of
from ldpbeam.charts.subject import (
    MOST_PANELS,
    STATES,
    Subject,
    Subset,
    flag_of,
    level_of,
    noun_of,
    part_of,
    state_of,
    surest,
)
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import milliseconds, rfc3339

#: A figure of shares has at most this many lanes, one per category or key, and columns, one per group.
MOST_LANES, MOST_COLUMNS = 4, 6
#: The most ticks of the time axis, of a single panel and of each of several panels.
_TICKS, _TICKS_OF_PANELS = 8, 3


def means_over_time(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The means, or on a scale the medians, by window; None without several windows."""
    name, subject, rows = subject.centre, subject.over_time, []
    for record in subject.records:
        if number := part_of(record, name):
            part, value = "mean" if name == "mean" else "quantiles", float(number.values[0])
            rows.append(_row(subject, record, value, surest(number), part))
            if truth := truths.get(Subset.of(record)):
                rows.append(_row(subject, record, truth.centre(name), None, part) | {"part": "truth"})
    return _figure(subject, f"{noun_of(name).capitalize()} {subject.name} over time", rows, [])


def shares_over_time(subject: Subject) -> Figure | None:
    """The shares of the most frequent names by window; None without several windows, or without names."""
    subject = subject.over_time.only(lambda record: record.frequencies)
    records = subject.records
    sums: dict[str, Counter[str]] = {}
    for record in records:
        sums.setdefault(Subset.of(record).label, Counter()).update(values_of(record, "frequencies"))
    names = most_frequent(list(sums.values()), MOST_LANES)
    rows = [
        _row(subject, record, shares[name], ends.get(name), "frequencies") | {"lane": name}
        for name in names
        for record in records
        for shares, ends in [(values_of(record, "frequencies"), intervals_of(record, "frequencies"))]
        if name in shares
    ]
    keys = any(record.keys for record in records)
    title = f"Who has which key of {subject.name}," if keys else f"Shares of {subject.name}"
    total = len({name for shares in sums.values() for name in shares})
    caption = [f"The {len(names)} with the largest estimates, of {total:,}."] if len(names) < total else []
    return _figure(subject, f"{title} over time", rows, caption, names)


def _row(
    subject: Subject,
    record: EstimateRecord,
    value: float | None,
    ends: tuple[float, float] | None,
    part: str,
) -> dict[str, Any]:
    """One window's point on a line, as a row of the chart's data.

    Its state is that of the window, but a complete window is ``unusual`` if its alarm says so, else
    ``flagged`` if its numbers of this part are.
    """
    state = state_of(record)
    if state == "complete" and record.alarm is not None and record.alarm.differs:
        state = "unusual"
    elif state == "complete" and flag_of(record, part):
        state = "flagged"
    low, high = ends or (None, None)
    first, last = record.window or (0, 0)
    start, at, end = _shown(subject, first, (first + last) // 2, last)
    row = {"part": "window", "panel": subject.title_of(record), "start": start, "at": at, "end": end}
    return row | {"lane": "", "value": value, "low": low, "high": high, "state": state}


def _shown(subject: Subject, *times: int) -> list[str]:
    """Times for the charts' axes, which are in UTC: local times are written as if they were UTC."""
    clock = subject.clock
    return list(map(rfc3339, times if clock is None else clock.shows(np.array(times)).tolist()))


def _with_gaps(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows by line and time. Where windows are missing, a row without a value breaks the line."""
    filled: list[dict[str, Any]] = []
    line = ("part", "panel", "lane")
    for row in sorted(rows, key=lambda row: [row[name] for name in (*line, "start")]):
        before = filled[-1] if filled else row
        if all(row[name] == before[name] for name in line) and row["start"] > before["end"]:
            empty = dict.fromkeys(("value", "low", "high"))
            filled.append(
                {**before, **empty, "start": before["end"], "at": before["end"], "state": "missing"}
            )
        filled.append(row)
    return filled


def _figure(
    subject: Subject,
    title: str,
    rows: list[dict[str, Any]],
    first_in_caption: Sequence[str],
    lanes: Sequence[str] = (),
) -> Figure | None:
    most = MOST_COLUMNS if lanes else MOST_PANELS
    all_panels = [name for name in subject.titles if any(row["panel"] == name for row in rows)]
    panels = all_panels[:most]
    rows = [row for row in rows if row["panel"] in panels]
    if len(subject.windows) < 2 or not rows:
        return None
    values = [row["value"] for row in rows]
    ends = [(row["low"], row["high"]) for row in rows if row["low"] is not None]
    low = -reach([-value for value in values], [-end for end, _ in ends])
    high = reach(values, [end for _, end in ends])
    margin = 0.04 * (high - low) or 0.5
    domain = [0 if lanes and low >= 0 else low - margin, high + margin]
    starts, last = sorted({row["start"] for row in rows}), max(row["end"] for row in rows)
    half = sorted(row["at"] for row in rows)[len(rows) // 2]
    times = zip(subject.events, _shown(subject, *subject.events.values()), strict=True)
    inside = [(name, time) for name, time in times if starts[0] <= time <= last]
    events = [
        {
            "part": "event",
            "panel": panel,
            "lane": lane,
            "at": time,
            "name": name * (len(panels) == 1 and lane == (*lanes, "")[0]),
            "side": "right" if time > half else "left",
        }
        for name, time in inside
        for panel in panels
        for lane in lanes or [""]
    ]
    one_day = len({start[:10] for start in starts}) == 1
    marked = [state for state in STATES if any(row["state"] == state for row in rows)]
    caption = [
        *first_in_caption,
        *([f"Grey: {level_of(subject.records)} intervals."] if ends else []),
        f"Each mark stands in the middle of its window{f', on {words.day(starts[0])}' if one_day else ''}.",
        *([f"Vertical: {words.listed([name for name, _ in inside])}."] if inside else []),
        *(["Dashed: the truth."] if any(row["part"] == "truth" for row in rows) else []),
        *([f"Open marks are {words.listed(marked, 'or')}."] if marked else []),
        *([GOES_ON] if any(end[0] < domain[0] or end[1] > domain[1] for end in ends) else []),
    ]
    if len(panels) < len(all_panels):
        caption.append(f"The first {len(panels)} of {len(all_panels):,}.")
    ticks = _TICKS if len(panels) == 1 else _TICKS_OF_PANELS
    return Figure(
        title=title,
        layers=_layers(bool(lanes), starts[:: -(-len(starts) // ticks)], [starts[0], last], domain),
        rows=[*_with_gaps(rows), *events],
        panels=panels,
        height=64 if lanes else 200 if len(panels) == 1 else 100,
        lanes=lanes,
        caption=" ".join(caption),
        left=45,
    )


def _ticks(starts: Sequence[str]) -> alt.Axis:
    """An axis with a tick at each of these starts of windows, whose labels name each date once."""
    labels, dates = dict[str, str](), [words.day(start) for start in starts]
    whole_days = all(start[11:19] == "00:00:00" for start in starts)
    for start, date, before in zip(starts, dates, ["", *dates], strict=False):
        seconds = start[11:19].removesuffix(":00")
        new = date != before and len({*dates}) > 1
        labels[str(milliseconds(start))] = date if whole_days else f"{date} {seconds}" if new else seconds
    expression = f"({json.dumps(labels)})[toString(toNumber(datum.value))]"
    # A label begins where its window does, and does not reach the next panel.
    return alt.Axis(
        grid=False, values=[*starts], labelExpr=expression, labelAlign="left", labelFlush=False, labelBound=5
    )


def _layers(
    shares: bool, ticks: Sequence[str], span: Sequence[str], domain: Sequence[float]
) -> list[alt.Chart]:
    """Bands, lines, the truth, and a mark for each window: a disc, or an open shape if it needs care."""
    scale = alt.Scale(type="utc", domain=list(span), nice=False)
    x = alt.X("at:T", title=None, scale=scale, axis=_ticks(ticks))
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(domain=list(domain), nice=False, zero=False),
        axis=alt.Axis(format="~%" if shares else alt.Undefined, tickCount=2 if shares else 4),
    )
    shapes = ["triangle-up", "square", "triangle-down", "diamond", "triangle-right"]
    shape = alt.Shape("state:N", scale=alt.Scale(domain=list(STATES), range=shapes), legend=None)
    marks = of("window").transform_filter("isValid(datum.value)")
    discs = marks.transform_filter("datum.state == 'complete'")
    return [
        of("window")
        .mark_area(opacity=0.2, clip=True, style="certain")
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
        of("window").mark_line(strokeWidth=1.75).encode(x=x, y=y),
        of("truth").mark_line(strokeWidth=1.25, strokeDash=[2, 2], style="truth").encode(x=x, y=y),
        of("event").mark_rule(strokeDash=[6, 3], style="truth").encode(x=x),
        *(
            of("event")
            .transform_filter(f"datum.side == '{side}'")
            .mark_text(align=side, dx=dx, limit=110, baseline="top", style="truth", strokeWidth=0)
            .encode(x=x, y=alt.value(2), text="name:N")
            for side, dx in (("left", 4), ("right", -4))
        ),
        discs.mark_circle(size=22, opacity=1).encode(x=x, y=y),
        marks.transform_filter("datum.state != 'complete'")
        .mark_point(filled=False, size=60, strokeWidth=1.75, opacity=1)
        .encode(x=x, y=y, shape=shape),
    ]

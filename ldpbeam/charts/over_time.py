"""Windows as lines over time: means of a number, shares of categories and of the people who have keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Columns, Figure, Key, Panel, Table, columns_of
from ldpbeam.charts.panels import TRUTH, colour, drawn, has_legend, keys_of, most_frequent, tips
from ldpbeam.charts.subject import (
    STATES,
    Subject,
    Subset,
    banded,
    by_label,
    level_of,
    many,
    mean_ends,
    state_of,
)

#: This many categories or keys have a line.
MOST_LINES = 6
#: The table has this many windows, the latest.
TABLE_ROWS = 200
#: How the time axis spells ticks of each unit.
_TIMES = {
    "seconds": "%H:%M:%S", "minutes": "%H:%M", "hours": "%H:%M", "day": "%-d %b", "date": "%-d %b",
    "week": "%-d %b", "month": "%b", "quarter": "%b", "year": "%Y",
}  # fmt: skip
_COLUMNS = ("line", "start", "value", "low", "high", "state", "window")


class _Point(NamedTuple):
    """One window of one line."""

    line: str
    subset: Subset
    value: float
    ends: tuple[float, float] | None
    state: str


def means_over_time(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The means of all estimates by window; None without several windows, or without means."""
    subject = subject.over_time
    points = [
        _Point(
            subject.labels[record.name],
            subset,
            record.mean,
            mean_ends(record) if record.name in banded(records) else None,
            state_of(record),
        )
        for subset, records in subject.subsets.items()
        for record in records
        if record.mean is not None
    ]
    if len(subject.windows) < 2 or not points:
        return None
    points += [
        _Point(TRUTH, subset, truth.mean, None, "complete")
        for subset, truth in truths.items()
        if truth.mean is not None and subset in subject.subsets
    ]
    named = {record.name for record in subject.records if record.mean is not None}
    keys = keys_of(subject, named, any(point.line == TRUTH for point in points))
    caption = "The mean in each window, in the unit of the values."
    if any(point.ends for point in points):
        caption += f" The band is its {level_of(subject.records)} interval."
    name = f"mean {subject.name}"
    return _figure(
        f"Mean {subject.name} over time", name, points, keys, caption, subject.most_panels, shares=False
    )


def shares_over_time(subject: Subject) -> Figure | None:
    """The shares of the most frequent names by window; None without several windows, or without names."""
    subject = subject.over_time
    records = [record for record in subject.records if record.frequencies is not None]
    if len(subject.windows) < 2 or not records:
        return None
    first = records[0]
    chosen = [record for record in records if record.name == first.name]
    shares_of_groups: dict[tuple[str | None, int], dict[str, list[float]]] = {}
    for record in chosen:
        of_group = shares_of_groups.setdefault((record.group, record.other_groups), {})
        for label, share in by_label(record, "frequencies").items():
            of_group.setdefault(label, []).append(share)
    # A name that some windows do not have is drawn by its mean in the others.
    means = [{n: float(np.mean(s)) for n, s in of_group.items()} for of_group in shares_of_groups.values()]
    names, drawn = {label for of_group in means for label in of_group}, most_frequent(means, MOST_LINES)
    points = []
    for record in chosen:
        ends, shares = many(record, "frequencies"), by_label(record, "frequencies")
        index = {label: number for number, label in enumerate(shares)}
        for label in drawn:
            if label in shares:
                pair = (ends.low[index[label]], ends.high[index[label]]) if ends else None
                points.append(_Point(label, Subset.of(record), shares[label], pair, state_of(record)))
    keys = [Key(label, colour) for colour, label in enumerate(drawn)]
    title = f"Who has which key of {subject.name}," if first.keys else f"Shares of {subject.name}"
    caption = f"The share of people in each window, by {first.name}"
    caption += f", of the {len(drawn)} most frequent of {len(names):,}." if len(drawn) < len(names) else "."
    if many(first, "frequencies") is not None:
        caption += f" The bands are {level_of(records)} intervals."
    name = "share of people"
    return _figure(f"{title} over time", name, points, keys, caption, subject.most_panels, shares=True)


def _figure(
    title: str,
    axis: str,
    points: Sequence[_Point],
    keys: Sequence[Key],
    caption: str,
    most_panels: int,
    *,
    shares: bool,
) -> Figure:
    lines = [key.label for key in keys]
    reports = list(dict.fromkeys((point.subset.group, point.subset.other_groups) for point in points))
    groups = reports[:most_panels]
    alone = len(groups) == 1
    panels, summary = [], []
    for group in groups:
        of_group = [point for point in points if (point.subset.group, point.subset.other_groups) == group]
        panels.append(Panel("" if alone else of_group[0].subset.group_name, _data(of_group)))
        summary += _said(of_group, lines, shares, alone)
    if len(reports) > len(groups):
        caption += f" {len(groups)} of {len(reports):,} groups are drawn; the others are in the output."
    states = [state for state in STATES if any(point.state == state for point in points)]
    if states:
        caption += f" Open marks are windows that are {words.listed(states, 'or')}."
    ends = [end for point in points for end in (point.value, *(point.ends or ()))]
    return Figure(
        title=title,
        chart=_chart(axis, keys, states, (min(ends), max(ends)), shares, alone),
        panels=panels,
        summary=summary,
        table=_table(points, lines, shares, alone),
        caption=caption,
        keys=keys,
        legend=not has_legend(keys, alone),
    )


def _data(points: Sequence[_Point]) -> dict[str, Columns]:
    """The rows of lines, of their intervals, of complete windows, and of the others."""
    rows = [
        {
            "line": point.line,
            "start": point.subset.start,
            "value": point.value,
            "low": point.ends[0] if point.ends else None,
            "high": point.ends[1] if point.ends else None,
            "state": STATES.get(point.state, "complete"),
            "window": point.subset.window,
        }
        for point in sorted(points, key=lambda point: point.subset.start or "")
    ]
    parts = {
        "bands": [row for row in rows if row["low"] is not None],
        "points": rows,
        "complete": [row for row in rows if row["state"] == "complete"],
        "open": [row for row in rows if row["state"] != "complete"],
    }
    return {name: columns_of(rows_of_part, _COLUMNS) for name, rows_of_part in parts.items()}


def _chart(
    title: str,
    keys: Sequence[Key],
    states: Sequence[str],
    ends: tuple[float, float],
    shares: bool,
    alone: bool,
) -> dict[str, Any]:
    """Bands, lines and a mark for each window; open marks of windows that are early or incomplete."""
    x = alt.X(
        "start:T",
        title="start of the window, UTC",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(grid=False, format=_TIMES, tickCount=6 if alone else 3, labelOverlap=True),
    )
    room = 0.04 * (ends[1] - ends[0]) or 0.5
    y = alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(domain=[ends[0] - room, ends[1] + room], nice=True, zero=shares and ends[0] >= 0),
        axis=alt.Axis(format="~%" if shares else ",.5~g", tickCount=5 if alone else 3),
    )
    tint = colour(keys, has_legend(keys, alone), field="line")
    spelled = ".3~%" if shares else ",.4~g"
    shown = [
        "window:N",
        alt.Tooltip("line:N", title="estimate"),
        *tips(spelled, ("value", "value"), ("low", "low"), ("high", "high")),
        "state:N",
    ]
    bands, points, whole, open_ = (
        alt.Chart(alt.NamedData(name)) for name in ("bands", "points", "complete", "open")
    )
    layers = [
        bands.mark_area(opacity=0.16).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=tint),
        points.mark_line(strokeWidth=1.75).encode(x=x, y=y, color=tint),
        whole.mark_circle(size=44, opacity=1).encode(x=x, y=y, color=tint, tooltip=shown),
        open_.mark_point(filled=False, size=80, strokeWidth=2, opacity=1).encode(
            x=x,
            y=y,
            color=tint,
            shape=alt.Shape(
                "state:N",
                scale=alt.Scale(domain=list(STATES.values()), range=["triangle-up", "square", "diamond"]),
                legend=None,
            ),
            tooltip=shown,
        ),
    ]
    return drawn(layers[: 4 if states else 3], 300 if alone else 170)


def _said(points: Sequence[_Point], lines: Sequence[str], shares: bool, alone: bool) -> list[str]:
    """One sentence per line: its first and last window, its lowest and its highest."""
    spell = words.percent if shares else words.number
    where = "" if alone else f"{points[0].subset.group_name}, "
    sentences = []
    for line in lines:
        if line == TRUTH:
            continue
        of_line = sorted(
            (point for point in points if point.line == line), key=lambda p: p.subset.start or ""
        )
        if not of_line:
            continue
        whole = [point for point in of_line if point.state == "complete"] or of_line
        low, high = min(whole, key=lambda p: p.value), max(whole, key=lambda p: p.value)
        sentences.append(
            f"{where}{line}: between {spell(low.value)} ({low.subset.window}) and {spell(high.value)} "
            f"({high.subset.window}), and {spell(of_line[-1].value)} in the last window."
        )
    return sentences if alone else sentences[:1]


def _table(points: Sequence[_Point], lines: Sequence[str], shares: bool, alone: bool) -> Table:
    """One row per window and group, one column per line."""
    spell = words.percent if shares else words.number
    rows: dict[Subset, dict[str, _Point]] = {}
    for point in points:
        rows.setdefault(point.subset, {})[point.line] = point
    latest = sorted(rows, key=lambda subset: subset.start or "")[-TABLE_ROWS:]
    columns = ["window", *([] if alone else ["group"]), *lines, "state"]
    return Table(
        columns,
        [
            [
                subset.window,
                *([] if alone else [subset.group_name]),
                *(spell(rows[subset][line].value) if line in rows[subset] else "" for line in lines),
                next((point.state for point in rows[subset].values() if point.line != TRUTH), ""),
            ]
            for subset in latest
        ],
        frozenset(lines),
    )

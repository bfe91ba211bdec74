"""The distribution of a number: step areas of all estimates, their intervals, and their quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from ldpbeam.pipelines.pages import words
from ldpbeam.pipelines.pages.figures import Columns, Figure, Panel, Table, columns_of
from ldpbeam.pipelines.pages.panels import chosen_places, colour, labels_of
from ldpbeam.pipelines.pages.subject import Place, Record, Subject, ends, note_of

#: Neighbouring buckets are added up until at most so many are left; a screen shows no more.
MOST_STEPS = 256
#: The table adds buckets up to so many ranges.
TABLE_ROWS = 16
#: The quantiles that a strip below the distribution shows: the ends of its line, those of its bar, its mark.
_LINE, _BAR, _MARK = ("0.05", "0.95"), ("0.25", "0.75"), "0.5"


def distributions(subject: Subject) -> Figure | None:
    """The distributions of an attribute; None if no estimate has one."""
    if not any(subject.shaped("distribution")):
        return None
    places, left_out = chosen_places(subject, "distribution")
    panels, tops, most = [], [], 0
    for place in places:
        own = [record for record in subject.places[place] if record.get("distribution") is not None]
        steps = [row for record in own for row in _steps(record, subject)]
        tops.append(max(max(row["share"], row.get("share_high") or 0.0) for row in steps))
        most = max(most, len(own))
        panels.append((place, own, steps))
    top = max(tops)
    depth = 0.07 * top
    drawn = [
        Panel(
            str(place) if len(panels) > 1 else "",
            {
                "steps": columns_of(steps, ("estimate", "code", "low", "high", "share")),
                "bands": _bands(own, steps),
                "quantiles": _strips(own, subject, depth),
            },
            note_of(own[0]),
        )
        for place, own, steps in panels
    ]
    unit = steps_width(panels[0][1][0])
    return Figure(
        title=f"Distribution of {subject.name}",
        chart=_chart(subject, top, depth, most, unit, alone=len(drawn) == 1),
        panels=drawn,
        summary=[sentence for place, own, _ in panels for sentence in _said(place, own)] + left_out,
        table=_table(panels, subject),
        caption=_caption(panels[0][1]),
        legend=labels_of(subject) if len(drawn) > 1 else (),
    )


def steps_width(record: Record) -> float:
    """The width of a drawn step, in the attribute's unit."""
    edges = record["bucket_edges"]
    return float((edges[-1] - edges[0]) / -(-(len(edges) - 1) // _times(record)))


def _times(record: Record) -> int:
    """How many buckets a drawn step adds up."""
    return -(-len(record["distribution"]) // MOST_STEPS)


def _steps(record: Record, subject: Subject) -> list[dict[str, Any]]:
    """One row per step, and one more where the last step ends."""
    times = _times(record)
    starts = np.arange(0, len(record["distribution"]), times)
    shares = np.add.reduceat(np.asarray(record["distribution"]), starts)
    edges = [*np.asarray(record["bucket_edges"])[starts], record["bucket_edges"][-1]]
    name = subject.estimates[record["name"]]
    code = f"e{list(subject.estimates).index(record['name'])}"
    rows = [
        {"estimate": name, "code": code, "low": float(low), "high": float(high), "share": float(share)}
        for (low, high), share in zip(pairwise(edges), shares, strict=True)
    ]
    # Intervals of neighbours cannot be added up.
    if times == 1 and ends(record, "distribution", 0) is not None:
        for place, row in enumerate(rows):
            row["share_low"], row["share_high"] = ends(record, "distribution", place) or (None, None)
    return [*rows, {**rows[-1], "low": rows[-1]["high"]}]


def _bands(own: Sequence[Record], steps: Sequence[dict[str, Any]]) -> Columns:
    """The intervals of buckets: those of one estimate per set of services, as the others have the same."""
    first: dict[tuple[str, ...], str] = {}
    for record in own:
        first.setdefault(tuple(record["services"]), record["name"])
    names = {f"{name} (" for name in first.values()}
    rows = [
        row
        for row in steps
        if row.get("share_low") is not None and any(row["estimate"].startswith(name) for name in names)
    ]
    return columns_of(rows, ("estimate", "low", "share_low", "share_high"))


def _strips(own: Sequence[Record], subject: Subject, depth: float) -> Columns:
    """One row per estimate with quantiles; ``level`` is where its strip lies below the distribution."""
    rows = []
    for place, record in enumerate(own):
        quantiles = record.get("quantiles") or {}
        if all(level in quantiles for level in (*_LINE, *_BAR, _MARK)):
            rows.append(
                {
                    "estimate": subject.estimates[record["name"]],
                    "level": -(place + 1.1) * depth,
                    "q05": quantiles["0.05"],
                    "q25": quantiles["0.25"],
                    "q50": quantiles["0.5"],
                    "q75": quantiles["0.75"],
                    "q95": quantiles["0.95"],
                }
            )
    return columns_of(rows, ("estimate", "level", "q05", "q25", "q50", "q75", "q95"))


def _chart(subject: Subject, top: float, depth: float, most: int, unit: float, alone: bool) -> dict[str, Any]:
    """Layers from back to front: intervals, areas, zero, quantiles, and what the pointer finds."""
    bottom = -(most + 0.9) * depth
    x = alt.X("low:Q", title=subject.name, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    y = alt.Y(
        "share:Q",
        title=f"share of people per {words.number(unit)}" if alone else None,
        stack=None,
        scale=alt.Scale(domain=[bottom, 1.04 * top], nice=False),
        axis=alt.Axis(format="%" if top >= 0.1 else ".1%", values=_ticks(top, 5 if alone else 3)),
    )
    tint = colour(subject, legend=alone)
    steps, strips = alt.Chart(alt.NamedData("steps")), alt.Chart(alt.NamedData("quantiles"))
    level = alt.Y("level:Q")
    tips = [
        alt.Tooltip("low:Q", title="from", format=",.5~g"),
        alt.Tooltip("high:Q", title="to", format=",.5~g"),
        *(
            alt.Tooltip(f"e{place}:Q", title=label, format=".3~%")
            for place, label in enumerate(subject.estimates.values())
        ),
    ]
    drawn = alt.layer(
        alt.Chart(alt.NamedData("bands"))
        .mark_area(interpolate="step-after", opacity=0.22)
        .encode(x=x, y=alt.Y("share_low:Q"), y2="share_high:Q", color=tint),
        steps.mark_area(interpolate="step-after", fillOpacity=0.06, line={"strokeWidth": 1.75}).encode(
            x=x, y=y, color=tint
        ),
        alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(strokeWidth=1).encode(y=alt.datum(0)),
        strips.mark_rule(strokeWidth=1.5).encode(x="q05:Q", x2="q95:Q", y=level, color=tint),
        strips.mark_rule(strokeWidth=5, opacity=0.55).encode(x="q25:Q", x2="q75:Q", y=level, color=tint),
        strips.mark_tick(orient="vertical", thickness=2.5, size=12).encode(x="q50:Q", y=level, color=tint),
        steps.transform_filter("datum.low < datum.high")
        .transform_pivot("code", value="share", groupby=["low", "high"])
        .mark_rect(opacity=0)
        .encode(x="low:Q", x2="high:Q", tooltip=tips),
    )
    return dict(drawn.properties(width="container", height=300 if alone else 170).to_dict())


def _ticks(top: float, most: int) -> list[float]:
    """Round values from zero to the top, at most ``most`` and zero."""
    step = 10.0 ** np.floor(np.log10(top / most))
    wide = next(step * times for times in (1, 2, 5, 10, 20) if top / (step * times) <= most)
    return [float(f"{place * wide:.6g}") for place in range(int(top / wide) + 1)]


def _said(place: Place, own: Sequence[Record]) -> list[str]:
    """One sentence per estimate."""
    where = f"{place}: " if str(place) else ""
    return [f"{where}{_sentence(record)}" for record in own]


def _sentence(record: Record) -> str:
    quantiles, mean = record.get("quantiles") or {}, record.get("mean")
    parts = []
    if _MARK in quantiles:
        parts.append(f"half of the people are below {words.number(quantiles[_MARK])}")
    if all(level in quantiles for level in _LINE):
        low, high = (words.number(quantiles[level]) for level in _LINE)
        parts.append(f"nine in ten are between {low} and {high}")
    if mean is not None:
        found = ends(record, "mean")
        told = f" ({100 * record['intervals']['level']:g}% interval {words.interval(found)})" if found else ""
        parts.append(f"the mean is {words.number(mean)}{told}")
    return f"by {record['name']}, {words.listed(parts)}." if parts else f"{record['name']} has no quantiles."


def _caption(own: Sequence[Record]) -> str:
    banded = [record for record in own if ends(record, "distribution", 0) is not None]
    parts = []
    if banded:
        parts.append(
            f"The band around a line is the {100 * banded[0]['intervals']['level']:g}% interval of each "
            "share, for the people whose reports were used."
        )
    parts.append(
        "Below zero, each estimate has a strip: a mark at its median, a bar over the middle half of the "
        "people, and a line over the middle nine tenths."
    )
    return " ".join(parts)


def _table(panels: Sequence[tuple[Place, list[Record], Any]], subject: Subject) -> Table:
    """The shares of up to :data:`TABLE_ROWS` ranges, one column per estimate."""
    names = list(dict.fromkeys(record["name"] for _, own, _ in panels for record in own))
    where = len(panels) > 1
    columns = [*(["where"] if where else []), "from", "to", *names]
    rows = []
    for place, own, _ in panels:
        edges = np.asarray(own[0]["bucket_edges"])
        starts = np.unique(np.linspace(0, len(edges) - 1, TABLE_ROWS + 1).astype(int))[:-1]
        shares = {
            record["name"]: np.add.reduceat(np.asarray(record["distribution"]), starts) for record in own
        }
        bounds = [*edges[starts], edges[-1]]
        for index, (low, high) in enumerate(pairwise(bounds)):
            told = [words.percent(float(shares[name][index])) if name in shares else "" for name in names]
            rows.append([*([str(place)] if where else []), words.number(low), words.number(high), *told])
    return Table(columns, rows, frozenset(columns) - {"where"})

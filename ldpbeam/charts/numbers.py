"""The distribution of a number: step areas of all estimates, their intervals, and their quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Columns, Figure, Key, columns_of
from ldpbeam.charts.panels import (
    TRUTH,
    Place,
    colour,
    drawn,
    keys_of,
    places_of,
    reach,
    ticks,
    tips,
)
from ldpbeam.charts.subject import Subject, Subset, banded, level_of, many, pair, state_of
from ldpbeam.schemas.outputs.records import EstimateRecord, Numbers

#: Neighbouring buckets are added up until at most this many are left; a screen shows no more.
MOST_STEPS = 256
#: With several panels each is narrow, and this many are enough.
MOST_STEPS_OF_PANELS = 128
#: The quantiles of the strip below a distribution, by the column that has them.
_STRIP = {"q05": "0.05", "q25": "0.25", "q50": "0.5", "q75": "0.75", "q95": "0.95"}
_BANDS = ("estimate", "low", "share_low", "share_high", "flagged")
_NONE: Columns = {"low": ()}


def distributions(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The distributions of an attribute; None if no estimate has one."""
    places, left_out = places_of(subject, lambda record: record.distribution)
    if not places:
        return None
    alone = len(places) == 1
    steps = [_of_place(subject, place, MOST_STEPS if alone else MOST_STEPS_OF_PANELS) for place in places]
    true = [_truth(subject, place, truths, MOST_STEPS if alone else MOST_STEPS_OF_PANELS) for place in places]
    rows, records = (
        [row for own in steps for row in own],
        [record for place in places for record in place.records],
    )
    top = 1.04 * reach(
        [row["share"] for own in (*steps, *true) for row in own],
        [row["share_high"] for row in rows if "share_high" in row],
    )
    labels = {subject.label(record) for record in records}
    keys = keys_of(subject, labels, not subject.by_group and any(true))
    unit = rows[0]["high"] - rows[0]["low"]
    panels = [
        place.panel(
            {
                "steps": columns_of(own, ("estimate", "code", "low", "high", "share")),
                "truth": columns_of(of_truth, ("estimate", "low", "share")),
                "bands": columns_of([row for row in own if "share_high" in row], _BANDS),
                "cut": columns_of(
                    [
                        {**row, "low": (row["low"] + row["high"]) / 2, "share": top}
                        for row in own
                        if row["low"] < row["high"] and row.get("share_high", 0.0) > top
                    ],
                    ("estimate", "low", "share"),
                ),
                "zero": {"zero": [0]},
                "quantiles": _strips(subject, place, (0.07 if alone else 0.09) * top),
            },
            alone,
        )
        for place, own, of_truth in zip(places, steps, true, strict=True)
    ]
    whole = [place for place in places if all(state_of(r) == "complete" for r in place.records)] or places
    last = [record for place in whole if place.window == whole[-1].window for record in place.records]
    return Figure(
        title=f"Distribution of {subject.name}",
        chart=_chart(
            subject, keys, top, max(len(place.records) for place in places), unit, records[0].step, alone
        ),
        panels=panels,
        summary=[_sentence(subject, record) for record in last],
        caption=" ".join(
            [
                *_caption(records, unit, any(panel.data.get("cut", _NONE)["low"] for panel in panels)),
                *left_out,
            ]
        ),
        keys=keys,
    )


def _of_place(subject: Subject, place: Place, most: int) -> list[dict[str, Any]]:
    """The steps of the estimates of a panel, with the intervals of the first of those that share them."""
    rows = []
    for record in place.records:
        label, ends = subject.label(record), many(record, "distribution")
        code = f"e{keys_of(subject, {label}, truth=False)[0].colour}"
        ends = ends if record.name in banded(place.records) else None
        own = _steps(record.distribution, record.bucket_edges, label, most, ends)
        rows += [row | {"code": code, "flagged": bool(_flag(record))} for row in own]
    return rows


def _truth(subject: Subject, place: Place, truths: Mapping[Subset, Truth], most: int) -> list[dict[str, Any]]:
    rows = {}
    for record in place.records:
        truth = truths.get(Subset.of(record))
        if truth is not None:
            label = subject.label(record) if subject.by_group else TRUTH
            rows[label] = _steps(tuple(truth.shares), record.bucket_edges, label, most)
    return [row for own in rows.values() for row in own]


def _steps(
    distribution: Numbers | None,
    bucket_edges: Numbers | None,
    label: str,
    most: int,
    ends: Any = None,
) -> list[dict[str, Any]]:
    """One row per step, and one more where the last step ends."""
    assert distribution is not None and bucket_edges is not None
    times = -(-len(distribution) // most)
    starts = np.arange(0, len(distribution), times)
    shares = np.add.reduceat(np.asarray(distribution), starts)
    edges = [*np.asarray(bucket_edges)[starts], bucket_edges[-1]]
    rows = [
        {"estimate": label, "low": float(low), "high": float(high), "share": float(share)}
        for (low, high), share in zip(pairwise(edges), shares, strict=True)
    ]
    if ends is not None:
        # Neighbours of a smooth density rise and fall together, so that the ends of their intervals add up.
        lows = np.add.reduceat(np.asarray(ends.low), starts)
        highs = np.add.reduceat(np.asarray(ends.high), starts)
        for row, low, high in zip(rows, lows, highs, strict=True):
            row |= {"share_low": float(low), "share_high": float(high)}
    return [*rows, {**rows[-1], "low": rows[-1]["high"]}]


def _flag(record: EstimateRecord) -> str:
    """Why the intervals of an estimate's shares may be wrong; empty if nothing says so."""
    return record.intervals.flags.get("distribution", "") if record.intervals is not None else ""


def _strips(subject: Subject, place: Place, depth: float) -> Columns:
    """One row per estimate with quantiles; ``level`` is where its strip lies below the distribution."""
    rows = []
    for number, record in enumerate(place.records):
        quantiles = record.quantiles or {}
        if all(level in quantiles for level in _STRIP.values()):
            row = {"estimate": subject.label(record), "level": -(number + 1.1) * depth}
            rows.append(row | {name: quantiles[wanted] for name, wanted in _STRIP.items()})
    return columns_of(rows, ("estimate", "level", *_STRIP))


def _chart(
    subject: Subject,
    keys: Sequence[Key],
    top: float,
    strips: int,
    unit: float,
    step: float | None,
    alone: bool,
) -> dict[str, Any]:
    """Layers from back to front: intervals, areas, the truth, zero, quantiles, and what a pointer finds."""
    x = alt.X(
        "low:Q",
        title=subject.name,
        scale=alt.Scale(nice=False),
        axis=alt.Axis(grid=False, tickCount=6 if alone else 4),
    )
    y = alt.Y(
        "share:Q",
        title=f"share of people per {'value' if step == unit else words.number(unit)}"
        if alone
        else "share of people",
        stack=None,
        scale=alt.Scale(domain=[-(strips + 0.9) * (0.07 if alone else 0.09) * top, 1.02 * top], nice=False),
        axis=alt.Axis(format="~%", values=ticks(top, 5 if alone else 4)),
    )
    tint = colour(keys)
    pale = alt.condition("datum.flagged", alt.value(0.08), alt.value(0.22))
    cut = alt.Chart(alt.NamedData("cut")).mark_point(shape="triangle-up", filled=True, size=28, opacity=0.9)
    steps, quantiles = alt.Chart(alt.NamedData("steps")), alt.Chart(alt.NamedData("quantiles"))
    truth = alt.Chart(alt.NamedData("truth"))
    level = alt.Y("level:Q")
    columns = [(f"e{key.colour}", key.label) for key in keys if key.colour >= 0]
    named = [("first", "value")] if step == unit else [("first", "from"), ("last", "to")]
    shown = [*tips(",.5~g", *named), *tips(".3~%", *columns)]
    layers = [
        alt.Chart(alt.NamedData("bands"))
        .mark_area(interpolate="step-after", clip=True)
        .encode(x=x, y=alt.Y("share_low:Q"), y2="share_high:Q", color=tint, opacity=pale),
        steps.mark_area(interpolate="step-after", fillOpacity=0.05, line={"strokeWidth": 1.75}).encode(
            x=x, y=y, color=tint
        ),
        truth.mark_line(interpolate="step-after", strokeWidth=1.5, strokeDash=[2, 2]).encode(
            x=x, y=y, color=tint
        ),
        cut.encode(x=x, y=y, color=tint),
        alt.Chart(alt.NamedData("zero")).mark_rule(strokeWidth=1).encode(y="zero:Q"),
        quantiles.mark_rule(strokeWidth=1.5).encode(x="q05:Q", x2="q95:Q", y=level, color=tint),
        quantiles.mark_rule(strokeWidth=5, opacity=0.55).encode(x="q25:Q", x2="q75:Q", y=level, color=tint),
        quantiles.mark_tick(orient="vertical", thickness=2.5, size=12).encode(x="q50:Q", y=level, color=tint),
        steps.transform_filter("datum.low < datum.high")
        .transform_calculate(
            first=f"datum.low + {0.5 * (step or 0.0)}", last=f"datum.high - {0.5 * (step or 0.0)}"
        )
        .transform_pivot("code", value="share", groupby=["low", "high", "first", "last"])
        .mark_rect(opacity=0)
        .encode(x="low:Q", x2="high:Q", tooltip=shown),
    ]
    return drawn(layers, 320 if alone else 170)


def _sentence(subject: Subject, record: EstimateRecord) -> str:
    """Where half and nine in ten of the people are."""
    quantiles, parts = record.quantiles or {}, []
    # With a step, quantiles are values that people have, which need no digits of theirs.
    ends = (record.intervals.quantiles if record.intervals and record.step is None else None) or {}
    spelled = {level: words.rounded(value, pair(ends.get(level))) for level, value in quantiles.items()}
    if "0.5" in quantiles:
        parts.append(
            f"half of the people are {'below' if record.step is None else 'at most'} {spelled['0.5']}"
        )
    if "0.05" in quantiles and "0.95" in quantiles:
        parts.append(f"nine in ten are between {spelled['0.05']} and {spelled['0.95']}")
    where = subject.label(record) if subject.by_group or len(subject.labels) > 1 else ""
    if len(subject.windows) > 1:
        where = ", ".join(filter(None, (where, Subset.of(record).window)))
    return f"{words.opened(where, words.listed(parts) or 'there are no quantiles')}."


def _caption(records: Sequence[EstimateRecord], unit: float, cut: bool) -> Iterator[str]:
    """How to read the chart."""
    of_values = records[0].step == unit
    what = "with each value" if of_values else f"in each step of {words.number(unit)}"
    interval = ""
    if many(records[0], "distribution") is not None:
        rounded = ", but for round values" if of_values else ""
        interval = f", and its {level_of(records)} interval if people are spread smoothly{rounded}"
    yield f"The share of people {what}{interval}."
    if any(_flag(record) for record in records):
        yield "Pale bands are flagged."
    if cut:
        yield "A triangle marks an interval that goes on."
    if records[0].quantiles:
        yield "Below: the median, the middle half, and nine in ten people."

"""What is certain of a number: bounds of the share of people up to each value, and of quantiles."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.charts.figures import Columns, Figure, Panel, Table, columns_of
from ldpbeam.charts.panels import chosen_subsets, colour, drawn, keys_of
from ldpbeam.charts.subject import Subject, level_of
from ldpbeam.schemas.outputs.records import EstimateRecord, IntervalsRecord, StrictRecord

_COLUMNS = ("quantile", "estimate", "smooth", "whatever the density is")


def strict_bounds(subject: Subject) -> Figure | None:
    """The strict intervals of the first estimate of each panel; None if no estimate has them."""
    subsets, left_out = chosen_subsets(subject, "distribution")
    first = {subset: _first(subject.subsets[subset]) for subset in subsets}
    records = {subset: record for subset, record in first.items() if record is not None}
    if not records:
        return None
    one, alone = next(iter(records.values())), len(records) == 1
    caption = (
        "The band holds the share of people up to each value whatever the density is. Wide bars are "
        f"{level_of([one])} intervals of quantiles that hold likewise. "
        "Thin bars hold if the density is smooth."
    )
    keys = keys_of(subject, [record.name for record in records.values()], truth=False)
    return Figure(
        title=f"What is certain of {subject.name}",
        chart=drawn(_layers(subject.name, colour(keys, legend=False)), 240 if alone else 170),
        panels=[
            Panel("" if alone else str(of), _data(record, subject.labels[record.name]))
            for of, record in records.items()
        ],
        summary=[caption],
        table=Table(
            ("where", *_COLUMNS), [row for of, record in records.items() for row in _rows(str(of), record)]
        ),
        caption=" ".join(left_out),
        keys=keys,
        legend=len(keys) > 1,
    )


def _first(records: list[EstimateRecord]) -> EstimateRecord | None:
    return next((record for record in records if record.strict), None)


def _known(record: EstimateRecord) -> tuple[IntervalsRecord, StrictRecord]:
    assert record.intervals is not None and record.strict is not None
    return record.intervals, record.strict


def _data(record: EstimateRecord, label: str) -> dict[str, Columns]:
    intervals, strict = _known(record)
    assert record.distribution is not None
    edges, cdf = np.asarray(record.bucket_edges), strict.cdf
    # Between two places the share is at least that of the first one, and at most that of the second one.
    band = zip([*cdf.at, edges[-1]], [*cdf.low, 1.0], [*cdf.high[1:], 1.0, 1.0], strict=True)
    line = zip(edges, np.append(0.0, np.cumsum(record.distribution)), strict=True)
    bars = [
        {"share": float(level), "low": ends.low, "high": ends.high, "kind": kind, "estimate": label}
        for kind, of in (("strict", strict.quantiles), ("smooth", intervals.quantiles or {}))
        for level, ends in of.items()
    ]
    return {
        "cdf": columns_of(
            [{"at": at, "low": low, "high": high, "estimate": label} for at, low, high in band],
            ("at", "low", "high", "estimate"),
        ),
        "below": columns_of(
            [{"at": float(at), "share": float(share), "estimate": label} for at, share in line],
            ("at", "share", "estimate"),
        ),
        "bars": columns_of(bars, ("share", "low", "high", "kind", "estimate")),
    }


def _layers(name: str, tint: alt.Color) -> list[Any]:
    """From back to front: the band, the bars of both kinds, and the estimate."""
    x = alt.X("at:Q", title=name, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    y = alt.Y(
        "low:Q", title="share of people up to it", axis=alt.Axis(format="~%"), scale=alt.Scale(domain=[0, 1])
    )
    bars = alt.Chart(alt.NamedData("bars")).encode(x="low:Q", x2="high:Q", y="share:Q", color=tint)
    return [
        alt.Chart(alt.NamedData("cdf"))
        .mark_area(interpolate="step-after", opacity=0.2)
        .encode(x=x, y=y, y2="high:Q", color=tint),
        bars.transform_filter("datum.kind == 'strict'").mark_rule(strokeWidth=7, opacity=0.35),
        bars.transform_filter("datum.kind == 'smooth'").mark_rule(strokeWidth=3),
        alt.Chart(alt.NamedData("below"))
        .mark_line(strokeWidth=1.25)
        .encode(x="at:Q", y="share:Q", color=tint),
    ]


def _rows(where: str, record: EstimateRecord) -> list[list[str]]:
    intervals, strict = _known(record)
    smooth, quantiles = intervals.quantiles or {}, record.quantiles or {}
    return [
        [
            where,
            level,
            words.number(quantiles[level]) if level in quantiles else "",
            words.interval((smooth[level].low, smooth[level].high)) if level in smooth else "",
            words.interval((ends.low, ends.high)),
        ]
        for level, ends in strict.quantiles.items()
    ]

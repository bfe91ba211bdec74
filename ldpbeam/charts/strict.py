"""What is certain of a number: the share of people up to each value, quantiles, and shares of ranges.

Everything has two intervals of one colour: the dark one holds if the density is smooth, the light one
whatever the density is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.charts.figures import Columns, Figure, Panel, Table, columns_of
from ldpbeam.charts.panels import chosen_subsets, colour, drawn, keys_of
from ldpbeam.charts.subject import Subject, Subset, level_of
from ldpbeam.domains import as_text
from ldpbeam.schemas.outputs.records import (
    CumulativeShares,
    Ends,
    EstimateRecord,
    IntervalsRecord,
    StrictRecord,
)

_BAND = ("at", "low", "high", "kind", "estimate")
_BARS = ("name", "value", "low", "high", "kind", "estimate")
_KINDS = ("if smooth", "whatever it is")
#: How strong the colours of the light and of the dark intervals are, and how thick their bars.
_LIGHT, _DARK = {"opacity": 0.2}, {"opacity": 0.45}
_LIGHT_BAR, _DARK_BAR = {"opacity": 0.35, "strokeWidth": 9}, {"opacity": 1.0, "strokeWidth": 3}
_HOLDS = (
    "The light one is certain: it holds whatever the density is. The dark one holds if people are spread "
    "smoothly, without gaps, steps and favourite values."
)


def strict_bounds(subject: Subject) -> Figure | None:
    """The strict intervals of the first estimate of each panel; None if no estimate has them."""
    records, left_out = _records(subject)
    if not records:
        return None
    one, alone = next(iter(records.values())), len(records) == 1
    keys = keys_of(subject, [record.name for record in records.values()], truth=False)
    return Figure(
        title=f"Share of people up to each value of {subject.name}",
        chart=drawn(_below(subject.name, colour(keys, legend=False)), 280 if alone else 170),
        panels=[
            Panel("" if alone else str(of), _data(record, subject.labels[record.name]))
            for of, record in records.items()
        ],
        summary=[sentence for of, record in records.items() for sentence in _sentences(of, record)],
        table=_table(records, _quantiles),
        caption=" ".join(
            [
                f"Each quantile has two bars, and the curve two bands: {level_of([one])} intervals.",
                _HOLDS,
                *left_out,
            ]
        ),
        keys=keys,
        legend=len(keys) > 1,
    )


def range_bounds(subject: Subject) -> Figure | None:
    """The shares of ranges of the first estimate of each panel; None if none has strict intervals of any."""
    records, left_out = _records(subject)
    records = {of: record for of, record in records.items() if record.ranges and _known(record)[1].ranges}
    if not records:
        return None
    one, alone = next(iter(records.values())), len(records) == 1
    keys = keys_of(subject, [record.name for record in records.values()], truth=False)
    return Figure(
        title=f"Shares of ranges of {subject.name}",
        chart=drawn(_bars(colour(keys, legend=False)), 40 + 34 * len(one.ranges or ())),
        panels=[
            Panel(
                "" if alone else str(of),
                {"bars": columns_of(_rows(_ranges(record), subject.labels[record.name]), _BARS)},
            )
            for of, record in records.items()
        ],
        summary=[],
        table=_table(records, _ranges),
        caption=" ".join([f"Each share has two bars, {level_of([one])} intervals.", _HOLDS, *left_out]),
        keys=keys,
        legend=len(keys) > 1,
    )


#: A number: its name, the estimate, the interval that rests on a smooth density, and the strict one.
_Number = tuple[str, float, Ends | None, Ends]


def _records(subject: Subject) -> tuple[dict[Subset, EstimateRecord], list[str]]:
    """The first estimate with strict intervals of each panel, and a sentence on panels that are left out."""
    subsets, left_out = chosen_subsets(subject, "distribution")
    first = {of: next((r for r in subject.subsets[of] if r.strict), None) for of in subsets}
    return {of: record for of, record in first.items() if record is not None}, left_out


def _known(record: EstimateRecord) -> tuple[IntervalsRecord, StrictRecord]:
    assert record.intervals is not None and record.strict is not None
    return record.intervals, record.strict


def _quantiles(record: EstimateRecord) -> list[_Number]:
    intervals, strict = _known(record)
    smooth = intervals.quantiles or {}
    return [
        (level, value, smooth.get(level), strict.quantiles[level])
        for level, value in (record.quantiles or {}).items()
        if level in strict.quantiles
    ]


def _ranges(record: EstimateRecord) -> list[_Number]:
    intervals, strict = _known(record)
    smooth, certain = intervals.ranges, strict.ranges
    assert certain is not None
    return [
        (
            f"{as_text(part.low)} to {as_text(part.high)}",
            part.share,
            None if smooth is None else Ends(smooth.low[place], smooth.high[place]),
            Ends(certain.low[place], certain.high[place]),
        )
        for place, part in enumerate(record.ranges or ())
    ]


def _rows(numbers: Sequence[_Number], label: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "value": value, "low": ends.low, "high": ends.high, "kind": kind, "estimate": label}
        for name, value, smooth, strict in numbers
        for kind, ends in (("strict", strict), ("smooth", smooth))
        if ends is not None
    ]


def _data(record: EstimateRecord, label: str) -> dict[str, Columns]:
    intervals, strict = _known(record)
    assert record.distribution is not None
    edges = np.asarray(record.bucket_edges)
    line = zip(edges, np.append(0.0, np.cumsum(record.distribution)), strict=True)
    bars = [row | {"name": float(row["name"])} for row in _rows(_quantiles(record), label)]
    return {
        "cdf": columns_of(_steps(strict.cdf, edges[-1], label), _BAND),
        "smooth": columns_of(_curve(intervals.cdf, edges[-1], label), _BAND),
        "below": columns_of(
            [{"at": float(at), "share": float(share), "estimate": label} for at, share in line],
            ("at", "share", "estimate"),
        ),
        "bars": columns_of(bars, _BARS),
    }


def _steps(cdf: CumulativeShares, end: float, label: str) -> list[dict[str, Any]]:
    """Between two places the share is at least that of the first one, and at most that of the second one."""
    band = zip([*cdf.at, end], [*cdf.low, 1.0], [*cdf.high[1:], 1.0, 1.0], strict=True)
    return [{"at": float(at), "low": low, "high": high, "estimate": label} for at, low, high in band]


def _curve(cdf: CumulativeShares | None, end: float, label: str) -> list[dict[str, Any]]:
    """A smooth density has a curve that is nearly straight between two places."""
    if cdf is None:
        return []
    band = zip([*cdf.at, end], [*cdf.low, 1.0], [*cdf.high, 1.0], strict=True)
    return [{"at": float(at), "low": low, "high": high, "estimate": label} for at, low, high in band]


def _below(name: str, tint: alt.Color) -> list[Any]:
    """From back to front: the bands, the estimate, and the bars of quantiles."""
    x = alt.X("at:Q", title=name, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    y = alt.Y("low:Q", title="share of people", axis=alt.Axis(format="~%"), scale=alt.Scale(domain=[0, 1]))
    bars = alt.Chart(alt.NamedData("bars")).encode(x="low:Q", x2="high:Q", y="name:Q", color=tint)
    return [
        alt.Chart(alt.NamedData("cdf"))
        .mark_area(interpolate="step-after", **_LIGHT)
        .encode(x=x, y=y, y2="high:Q", color=tint),
        alt.Chart(alt.NamedData("smooth")).mark_area(**_DARK).encode(x=x, y=y, y2="high:Q", color=tint),
        alt.Chart(alt.NamedData("below"))
        .mark_line(strokeWidth=1.25)
        .encode(x="at:Q", y="share:Q", color=tint),
        bars.transform_filter("datum.kind == 'strict'").mark_rule(**_LIGHT_BAR),
        bars.transform_filter("datum.kind == 'smooth'").mark_rule(**_DARK_BAR),
    ]


def _bars(tint: alt.Color) -> list[Any]:
    """A row for each range: the light bar, the dark one, and the estimate."""
    x = alt.X("low:Q", title="share of people", axis=alt.Axis(format="~%"))
    y = alt.Y("name:N", title=None, sort=None)
    bars = alt.Chart(alt.NamedData("bars")).encode(x=x, x2="high:Q", y=y, color=tint)
    return [
        bars.transform_filter("datum.kind == 'strict'").mark_rule(**_LIGHT_BAR),
        bars.transform_filter("datum.kind == 'smooth'").mark_rule(**_DARK_BAR),
        alt.Chart(alt.NamedData("bars")).mark_tick(thickness=2, size=16).encode(x="value:Q", y=y, color=tint),
    ]


def _sentences(of: Subset, record: EstimateRecord) -> list[str]:
    """What is certain of the median, and what if the density is smooth."""
    median = {name: (smooth, strict) for name, _, smooth, strict in _quantiles(record)}.get("0.5")
    if median is None:
        return []
    smooth, strict = median
    if_smooth = f"; if people are spread smoothly, between {_between(smooth)}" if smooth else ""
    who = f"{words.opened(str(of), 'by')} {record.name}"
    return [f"{who}, the median is certainly between {_between(strict)}{if_smooth}."]


def _between(ends: Ends) -> str:
    return f"{words.number(ends.low)} and {words.number(ends.high)}"


def _table(records: Mapping[Subset, EstimateRecord], numbers_of: Any) -> Table:
    share = numbers_of is _ranges
    text = words.percent if share else words.number
    rows = [
        [
            str(of),
            name,
            text(value),
            *("" if ends is None else f"{text(ends.low)} to {text(ends.high)}" for ends in (smooth, strict)),
        ]
        for of, record in records.items()
        for name, value, smooth, strict in numbers_of(record)
    ]
    return Table(("where", "range" if share else "quantile", "estimate", *_KINDS), rows)

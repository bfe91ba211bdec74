"""What is certain of a number: the share of people up to each value, quantiles, and shares of ranges.

Everything has two intervals of one colour: the dark one holds if the density is smooth, the light one
whatever the density is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.named_numbers import Numbers, numbers_of
from ldpbeam.charts.figures import Columns, Figure, columns_of
from ldpbeam.charts.panels import Place, colour, drawn, keys_of, places_of
from ldpbeam.charts.subject import Subject, level_of
from ldpbeam.schemas.outputs.records import CumulativeShares, EstimateRecord

_BAND = ("at", "low", "high", "estimate")
_BARS = ("name", "value", "low", "high", "kind", "estimate")
#: How strong the colours of the light and of the dark intervals are, and how thick their bars.
_LIGHT, _DARK = {"opacity": 0.2}, {"opacity": 0.45}
_LIGHT_BAR, _DARK_BAR = {"opacity": 0.35, "strokeWidth": 9}, {"opacity": 1.0, "strokeWidth": 3}


def strict_bounds(subject: Subject) -> Figure | None:
    """The strict intervals of the first estimate of each panel; None if no estimate has them."""
    places = _places(subject, "quantile ")
    if not places:
        return None
    alone, tint = len(places) == 1, colour(_keys(subject, places))
    return Figure(
        title=f"Share of people up to each value of {subject.name}",
        chart=drawn(_below(subject.name, tint), 280 if alone else 170),
        panels=[
            place.panel(_curves(record, subject.label(record)) if (record := place.first) else {}, alone)
            for place in places
        ],
        summary=[_sentence(subject, record) for place in places if (record := place.first)],
        caption=_caption(places[0].records),
        keys=_keys(subject, places),
    )


def range_bounds(subject: Subject) -> Figure | None:
    """The shares of ranges of the first estimate of each panel; None if none has strict intervals of any."""
    places = _places(subject, "share from ")
    if not places:
        return None
    rows = [
        _bars(record, "share from ", subject.label(record)) if (record := place.first) else []
        for place in places
    ]
    return Figure(
        title=f"Shares of ranges of {subject.name}",
        chart=drawn(_rules(colour(_keys(subject, places))), 40 + 17 * max(map(len, rows))),
        panels=[
            place.panel({"bars": columns_of(own, _BARS)}, len(places) == 1)
            for place, own in zip(places, rows, strict=True)
        ],
        caption="Light is certain, dark holds if people are spread smoothly.",
        keys=_keys(subject, places),
    )


def _places(subject: Subject, names: str) -> list[Place]:
    """The panels of estimates with strict intervals of these numbers; of groups those of the last window."""
    places, _ = places_of(subject, lambda record: _numbers(record, names), apart=True)
    return [place for place in places if not subject.by_group or place.window == places[-1].window]


def _caption(records: Sequence[EstimateRecord]) -> str:
    """What holds; with a step, the dark intervals do also where round values have more people."""
    rests = "but for round values" if records[0].step else "without gaps, steps and favourite values"
    return (
        f"{level_of(records)} intervals. Light is certain: it holds whatever the density is. "
        f"Dark holds if people are spread smoothly, {rests}."
    )


def _keys(subject: Subject, places: Sequence[Place]) -> list[Any]:
    return keys_of(
        subject, {subject.label(record) for place in places if (record := place.first)}, truth=False
    )


def _numbers(record: EstimateRecord, names: str) -> Numbers | None:
    """The numbers of an estimate that have these names and strict intervals; None if there are none."""
    parts = numbers_of(record) if record.strict and record.distribution else ()
    return next(
        (
            p
            for p in parts
            if p.names[0].startswith(names) and p.strict is not None and not np.isnan(p.strict).all()
        ),
        None,
    )


def _bars(record: EstimateRecord, names: str, label: str) -> list[dict[str, Any]]:
    """Two rows for each number: of the strict interval, and of the one that rests on a smooth density."""
    part = _numbers(record, names)
    assert part is not None and part.strict is not None
    columns = part.names, part.values.tolist(), part.low.tolist(), part.high.tolist(), part.strict.tolist()
    return [
        {
            "name": name.removeprefix(names),
            "value": value,
            "low": ends[0],
            "high": ends[1],
            "kind": kind,
            "estimate": label,
        }
        for name, value, low, high, strict in zip(*columns, strict=True)
        for kind, ends in (("strict", strict), ("smooth", (low, high)))
        if not math.isnan(ends[0])
    ]


def _curves(record: EstimateRecord, label: str) -> dict[str, Columns]:
    assert record.distribution is not None and record.strict is not None and record.intervals is not None
    edges, strict, smooth = np.asarray(record.bucket_edges), record.strict.cdf, record.intervals.cdf
    line = zip(edges, np.append(0.0, np.cumsum(record.distribution)), strict=True)
    bars = [row | {"name": float(row["name"])} for row in _bars(record, "quantile ", label)]
    return {
        # Between two places the share is at least that of the first one, and at most that of the second one.
        "cdf": _band(strict, [*strict.high[1:], 1.0], edges[-1], label),
        # A smooth density has a curve that is nearly straight between two places.
        "smooth": columns_of([], _BAND) if smooth is None else _band(smooth, smooth.high, edges[-1], label),
        "below": columns_of(
            [{"at": float(at), "share": float(share), "estimate": label} for at, share in line],
            ("at", "share", "estimate"),
        ),
        "bars": columns_of(bars, _BARS),
    }


def _band(cdf: CumulativeShares, highs: Sequence[float], end: float, label: str) -> Columns:
    rows = zip([*cdf.at, end], [*cdf.low, 1.0], [*highs, 1.0], strict=True)
    return columns_of(
        [{"at": float(at), "low": low, "high": high, "estimate": label} for at, low, high in rows], _BAND
    )


def _below(name: str, tint: alt.Color) -> list[Any]:
    """From back to front: the bands, the estimate, and the bars of quantiles."""
    x = alt.X("at:Q", title=name, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    y = alt.Y("low:Q", title="share of people", axis=alt.Axis(format="~%"), scale=alt.Scale(domain=[0, 1]))
    bars = alt.Chart(alt.NamedData("bars")).encode(x="low:Q", x2="high:Q", y="name:Q", color=tint)
    cdf, smooth, below = (alt.Chart(alt.NamedData(name)) for name in ("cdf", "smooth", "below"))
    return [
        cdf.mark_area(interpolate="step-after", **_LIGHT).encode(x=x, y=y, y2="high:Q", color=tint),
        smooth.mark_area(**_DARK).encode(x=x, y=y, y2="high:Q", color=tint),
        below.mark_line(strokeWidth=1.25).encode(x="at:Q", y="share:Q", color=tint),
        bars.transform_filter("datum.kind == 'strict'").mark_rule(**_LIGHT_BAR),
        bars.transform_filter("datum.kind == 'smooth'").mark_rule(**_DARK_BAR),
    ]


def _rules(tint: alt.Color) -> list[Any]:
    """A row for each range: the light bar, the dark one, and the estimate."""
    x = alt.X("low:Q", title="share of people", axis=alt.Axis(format="~%", tickCount=6))
    data, y = alt.Chart(alt.NamedData("bars")), alt.Y("name:N", title=None, sort=None)
    bars = data.encode(x=x, x2="high:Q", y=y, color=tint)
    return [
        bars.transform_filter("datum.kind == 'strict'").mark_rule(**_LIGHT_BAR),
        bars.transform_filter("datum.kind == 'smooth'").mark_rule(**_DARK_BAR),
        data.mark_tick(thickness=2, size=16).encode(x="value:Q", y=y, color=tint),
    ]


def _sentence(subject: Subject, record: EstimateRecord) -> str:
    """What is certain of the median, and what if the density is smooth; empty without a median."""
    known = {
        row["kind"]: (row["low"], row["high"])
        for row in _bars(record, "quantile ", "")
        if row["name"] == "0.5"
    }
    digits = dict.fromkeys(known) if record.step else known
    said = [
        f"{how} between {words.listed([words.rounded(end, digits[kind]) for end in known[kind]])}"
        for kind, how in (("strict", "the median is certainly"), ("smooth", "if people are spread smoothly"))
        if kind in known
    ]
    where = subject.label(record) if subject.by_group or len(subject.labels) > 1 else ""
    return f"{words.opened(where, '; '.join(said))}." if said else ""

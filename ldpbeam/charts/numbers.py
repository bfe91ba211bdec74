"""The distribution of a number: its shape as far as reports show it, and what is certain of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.certainty import CERTAIN, IF_SMOOTH
from ldpbeam.charts.figures import Figure, of
from ldpbeam.charts.subject import MEDIAN, Subject, Subset, ends_of, flag_of, level_of, on_scale, part_of
from ldpbeam.schemas.outputs.records import EstimateRecord

#: About the fewest and the most bars of a shape.
LEAST_BARS, MOST_BARS = 4, 60
#: Bars are as wide as one of these, times a power of ten.
_ROUND = (1.0, 2.0, 5.0, 10.0)
#: The parts of the legend that tells intervals apart.
_HOW = ("certain, whatever people's values are", "if people are spread smoothly")


def distributions(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The shapes of an attribute, one below the other; None if no estimate has a distribution."""
    panels, said = subject.panels(lambda record: record.distribution)
    records = [panel.record for panel in panels if panel.record]
    if not records:
        return None
    width, one = bar_width(records), len(panels) == 1
    rows = [
        {"lane": panel.title, **row}
        for panel in panels
        if panel.record
        for row in _of_panel(panel.record, truths.get(Subset.of(panel.record)), width)
    ]
    top = max(row["share"] for row in rows if "share" in row)
    scale = alt.Scale(domain=[0, 1.3 * top], nice=False)
    x, high = _x("low", subject, records[0]), alt.Axis(format="~%", tickCount=4 if one else 2)
    y, level = alt.Y("share:Q", title=None, stack=None, scale=scale, axis=high), alt.datum(1.15 * top)
    stepped, median = {"interpolate": "step-after"}, of("median")
    marks = [
        of("step").mark_area(fillOpacity=0.25, line={"strokeWidth": 1.25}, **stepped).encode(x=x, y=y),
        of("truth").mark_line(strokeDash=[2, 2], style="truth", **stepped).encode(x=x, y=y),
        median.mark_rule(strokeWidth=1.5, style="certain").encode(x="least:Q", x2="most:Q", y=level),
        median.mark_rule(strokeWidth=5, style="smooth", opacity=0.6).encode(x="from:Q", x2="to:Q", y=level),
        median.mark_tick(orient="vertical", thickness=2.5, size=12).encode(x="value:Q", y=level),
    ]
    return Figure(
        title=f"Distribution of {subject.name}",
        layers=marks,
        rows=rows,
        lanes=[panel.title for panel in panels],
        height=230 if one else 54,
        caption=" ".join([*said, *_caption(records, width, any(row["part"] == "truth" for row in rows))]),
        left=50,
        half=True,
    )


def bar_width(records: Sequence[EstimateRecord]) -> float:
    """How wide bars are: about half of where the median of the least sure estimate may lie, and round.

    What is narrower is no more than a guess of the estimator, so it is spread. 0 on a scale without equal
    steps, where bars are some buckets wide.
    """
    edges = np.asarray(records[0].bucket_edges)
    across, buckets, step = float(edges[-1] - edges[0]), len(edges) - 1, records[0].step
    if on_scale(edges):
        return 0.0
    medians = filter(None, (part_of(record, MEDIAN) for record in records))
    unsure = [0.5 * (ends[1] - ends[0]) for median in medians if (ends := median.interval(IF_SMOOTH))]
    least = max([*unsure, across / MOST_BARS, across / buckets if step is None else step])
    power = 10.0 ** math.floor(math.log10(least))
    width = power * next(own for own in _ROUND if own * power >= least * (1 - 1e-9))
    if step is not None:
        width = step * max(1, round(width / step))
    return width if across / width >= LEAST_BARS else across / LEAST_BARS


def bars(record: EstimateRecord, shares: Sequence[float], width: float) -> list[tuple[float, float, float]]:
    """(low end, high end, share per bar width) of each bar of a distribution.

    Bars begin at round values. A narrower one stands where the reports show for certain that more people are
    there than the bar around it would have.
    """
    edges, cumulative = np.asarray(record.bucket_edges), np.append(0.0, np.cumsum(shares))
    if not width:
        ends = np.union1d(edges[:: -(-len(edges) // MOST_BARS)], edges[-1])
    else:
        half = 0.5 * (record.step or 0.0)
        inner = width * np.arange(math.ceil(edges[0] / width), edges[-1] / width + 1) - half
        inner = inner[(inner > edges[0] + 1e-9) & (inner < edges[-1] - 1e-9)]
        ends = np.array([edges[0], *inner, edges[-1]])
        spread = np.interp(ends, edges, cumulative)
        certain = [
            (low, high)
            for low, high, least in _certain_masses(record)
            if least > np.diff(np.interp([low, high], ends, spread))[0] + 1e-9
        ]
        ends = np.union1d(ends, np.ravel(certain))
    heights = np.diff(np.interp(ends, edges, cumulative))
    if width:
        heights = heights * width / np.diff(ends)
    return [*zip(ends[:-1].tolist(), ends[1:].tolist(), heights.tolist(), strict=True)]


def _certain_masses(record: EstimateRecord) -> Iterator[tuple[float, float, float]]:
    """(low end, high end, the least share of people in between) of narrow parts of the range."""
    cdf, masses = ends_of(record, "cdf", CERTAIN), ends_of(record, "distribution", CERTAIN)
    if record.intervals is None or flag_of(record, "cdf"):
        return
    half = 0.5 * (record.step or 0.0)
    if cdf is not None:
        at = [own + half for own in record.intervals.at]
        yield from zip(at, at[1:], (cdf[1:, 0] - cdf[:-1, 1]).tolist(), strict=False)
    if masses is not None:
        yield from zip(
            record.bucket_edges or (), (record.bucket_edges or ())[1:], masses[:, 0].tolist(), strict=False
        )


def _of_panel(record: EstimateRecord, truth: Truth | None, width: float) -> Iterator[dict[str, Any]]:
    """The bars of an estimate, the median above them, and the truth."""
    yield from _rows("step", bars(record, record.distribution or (), width))
    if median := part_of(record, MEDIAN):
        least, most = median.interval(CERTAIN) or (None, None)
        low, high = median.interval(IF_SMOOTH) or (None, None)
        row = {"part": "median", "value": float(median.values[0])}
        yield row | {"least": least, "most": most, "from": low, "to": high}
    if truth is not None:
        yield from _rows("truth", bars(record, truth.shares.tolist(), width))


def _rows(part: str, found: Sequence[tuple[float, float, float]]) -> Iterator[dict[str, Any]]:
    """One row per bar, and one more where the last one ends."""
    for low, high, share in [*found, (found[-1][1], *found[-1][1:])]:
        yield {"part": part, "low": low, "high": high, "share": share}


def _x(field: str, subject: Subject, record: EstimateRecord) -> alt.X:
    """The axis of values, on about the scale of the domain."""
    edges = np.asarray(record.bucket_edges)
    scale: dict[str, Any] = {"nice": False, "zero": False}
    if on_scale(edges):
        scale |= {"type": "log"} if edges[0] > 0.0 else {"type": "symlog", "constant": min(1.0, edges[1])}
    return alt.X(
        f"{field}:Q", title=subject.name, scale=alt.Scale(**scale), axis=alt.Axis(grid=False, tickCount=5)
    )


def _caption(records: Sequence[EstimateRecord], width: float, truth: bool) -> Iterator[str]:
    """How to read the chart."""
    if records[0].step == width:
        yield "Bars: the share of people with each value."
    else:
        yield f"Bars: the share of people, {f'{words.number(width)} wide' if width else 'in steps'}."
    if any(record.quantiles for record in records):
        yield "Above: the median and its intervals."
    if any(flag_of(record, "distribution") for record in records):
        yield "Some are flagged: see the careful column."
    if truth:
        yield "Dashed: the truth."


def certain_shares(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """What is certain of the share of people up to each value, of each estimate.

    None if no estimate has certain intervals.
    """
    panels, said = subject.panels(
        lambda record: record.distribution and ends_of(record, "cdf", CERTAIN) is not None
    )
    drawn = [(panel.title, panel.record) for panel in panels if panel.record]
    if not drawn:
        return None
    first, one = drawn[0][1], len(panels) == 1
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="~%", values=[0, 0.5, 1])
    x, y = _x("at", subject, first), alt.Y("low:Q", title=None, axis=axis, scale=scale)
    legend = alt.Legend(orient="top", direction="vertical", title=None, symbolOpacity=0.6)
    how = alt.Color("how:N", scale=alt.Scale(domain=list(_HOW), range="ordinal"), legend=legend)
    bands = {"x": x, "y": y, "y2": "high:Q", "color": how}
    return Figure(
        title=f"Share of people up to each value of {subject.name}",
        layers=[
            of("certain").mark_area(interpolate="step-after", opacity=0.3).encode(**bands),
            of("smooth").mark_area(opacity=0.65).encode(**bands),
            of("line").mark_line(strokeWidth=1.25).encode(x=x, y=y),
            of("truth").mark_line(strokeDash=[2, 2], style="truth").encode(x=x, y=y),
        ],
        rows=[
            {"lane": title, **row}
            for title, record in drawn
            for row in _cumulative(record, truths.get(Subset.of(record)))
        ],
        lanes=[panel.title for panel in panels],
        height=230 if one else 54,
        caption=" ".join(
            [
                *said,
                f"{level_of([first])} intervals. Line: the estimate.{' Dashed: the truth.' * bool(truths)}",
            ]
        ),
        left=50,
        half=True,
    )


def _cumulative(record: EstimateRecord, truth: Truth | None) -> list[dict[str, Any]]:
    assert record.intervals is not None and record.distribution is not None
    edges, at = np.asarray(record.bucket_edges).tolist(), [*record.intervals.at]
    parts = {}
    for part, shares in (("line", record.distribution), ("truth", truth.shares if truth else None)):
        if shares is not None:
            below = [0.0, *np.cumsum(shares).tolist()]
            parts[part] = zip(edges, below, below, strict=True)
    for part, condition in (("certain", CERTAIN), ("smooth", IF_SMOOTH)):
        low, high = np.asarray(ends_of(record, "cdf", condition)).T.tolist()
        # Between two places the share is at least that of the first one, and at most that of the second one.
        # A smooth density has a curve that is nearly straight between two places.
        highs = [*high[1:], 1.0] if part == "certain" else high
        parts[part] = zip([*at, edges[-1]], [*low, 1.0], [*highs, 1.0], strict=True)
    how = dict(zip(("certain", "smooth"), _HOW, strict=True))
    return [
        {"part": part, "how": how.get(part), "at": at, "low": low, "high": high}
        for part, columns in parts.items()
        for at, low, high in columns
    ]

"""The distribution of a number: step areas with their intervals and quantiles, and what is certain of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.certainty import CERTAIN, IF_SMOOTH
from ldpbeam.charts.figures import GOES_ON, Figure, colour, of, reach
from ldpbeam.charts.subject import Panel, Subject, Subset, banded, ends_of, flag_of, level_of, pair
from ldpbeam.schemas.outputs.records import EstimateRecord, Numbers

#: Neighbouring buckets are added up until at most this many are left, alone and in each of several panels.
MOST_STEPS, MOST_STEPS_OF_PANELS = 128, 64
#: A figure says this many sentences; the table of the attribute has all.
MOST_SENTENCES = 6
#: The quantiles of the strip above a distribution, by the column that has them.
_STRIP = {"q05": "0.05", "q25": "0.25", "q50": "0.5", "q75": "0.75", "q95": "0.95"}


def distributions(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The distributions of an attribute; None if no estimate has one."""
    panels, left_out = subject.panels(lambda record: record.distribution)
    if not panels:
        return None
    most = MOST_STEPS if len(panels) == 1 else MOST_STEPS_OF_PANELS
    rows = [
        {"panel": panel.title, **row} for panel in panels for row in _of_panel(subject, panel, truths, most)
    ]
    steps = [row for row in rows if row["part"] != "strip" and row["low"] < row["high"]]
    ends = [row["share_high"] for row in steps if row.get("share_high") is not None]
    top = reach([row["share"] for row in steps], ends)
    first = next(record for panel in panels for record in panel.records)
    # Where the domain has a scale, no step is as wide as the next.
    unit = None if _on_scale(first) else steps[0]["high"] - steps[0]["low"]
    tint = colour([*subject.labels.values()], {row.get("estimate", "") for row in rows})
    strips = max(len(panel.records) for panel in panels)
    for row in rows:
        if row["part"] == "strip":
            row["level"] = (1.12 + 0.08 * row["place"]) * top
        elif "share_high" in row:
            row["share_high"] = min(row["share_high"], 1.05 * top)
    return Figure(
        title=f"Distribution of {subject.name}",
        layers=_layers(_x("low", subject, first), tint, (1.12 + 0.08 * strips) * top, unit, first.step),
        rows=rows,
        panels=[panel.title for panel in panels],
        height=300 if len(panels) == 1 else 150,
        summary=_summary(subject, _last(panels), _quantiles),
        caption=" ".join(
            [*_caption(first, unit, any(row["part"] == "truth" for row in rows))]
            + ([GOES_ON] if max([*ends, 0.0]) > top else [])
            + left_out
        ),
    )


def _of_panel(
    subject: Subject, panel: Panel, truths: Mapping[Subset, Truth], most: int
) -> Iterator[dict[str, Any]]:
    """The steps of the estimates, with the intervals of the first of those that share them; and the truth."""
    for place, record in enumerate(panel.records):
        assert record.distribution is not None
        shared = {"estimate": subject.labels[record.name], "flagged": bool(flag_of(record, "distribution"))}
        ends = ends_of(record, "distribution") if record.name in banded(panel.records) else None
        shares: dict[str, Any] = {"share": record.distribution}
        # Neighbours of a smooth density rise and fall together, so that the ends of their intervals add up.
        if ends is not None:
            shares |= {"share_low": ends[:, 0], "share_high": ends[:, 1]}
        yield from ({"part": "step", **shared, **row} for row in _steps(record.bucket_edges, shares, most))
        quantiles = record.quantiles or {}
        if quantiles.keys() >= {*_STRIP.values()}:
            strip = {name: quantiles[level] for name, level in _STRIP.items()}
            yield {"part": "strip", "place": place, **shared, **strip}
    truth = truths.get(Subset.of(panel.records[0])) if panel.records else None
    if truth is not None:
        edges = panel.records[0].bucket_edges
        yield from ({"part": "truth", **row} for row in _steps(edges, {"share": tuple(truth.shares)}, most))


def _steps(
    bucket_edges: Numbers | None, shares: Mapping[str, Sequence[float]], most: int
) -> list[dict[str, Any]]:
    """One row per step, and one more where the last step ends."""
    assert bucket_edges is not None
    count = len(bucket_edges) - 1
    starts = np.arange(0, count, -(-count // most))
    edges = [*np.asarray(bucket_edges)[starts].tolist(), bucket_edges[-1]]
    columns = {name: np.add.reduceat(np.asarray(own), starts).tolist() for name, own in shares.items()}
    rows = [
        {"low": low, "high": high} | {name: own[at] for name, own in columns.items()}
        for at, (low, high) in enumerate(pairwise(edges))
    ]
    return [*rows, {**rows[-1], "low": rows[-1]["high"]}]


def _on_scale(record: EstimateRecord) -> bool:
    """Whether buckets differ in width, so that the domain has a scale."""
    widths = np.diff(np.asarray(record.bucket_edges))
    return bool(widths.max() > 1.01 * widths.min())


def _x(field: str, subject: Subject, record: EstimateRecord) -> alt.X:
    """The axis of values, on about the scale of the domain."""
    scale: dict[str, Any] = {"nice": False}
    if _on_scale(record):
        first, second, *_ = np.asarray(record.bucket_edges).tolist()
        scale |= {"type": "log"} if first > 0.0 else {"type": "symlog", "constant": min(1.0, second)}
    axis = alt.Axis(grid=False, tickCount=5)
    return alt.X(f"{field}:Q", title=subject.name, scale=alt.Scale(**scale), axis=axis)


def _layers(x: alt.X, tint: alt.Color, top: float, unit: float | None, step: float | None) -> list[alt.Chart]:
    """From back to front: intervals, areas, the truth, and above them quantiles."""
    per = "in each step" if unit is None else f"per {'value' if step == unit else words.number(unit)}"
    y = alt.Y(
        "share:Q",
        title=f"share of people {per}",
        stack=None,
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format="~%", tickCount=4),
    )
    pale = alt.condition("datum.flagged", alt.value(0.08), alt.value(0.22))
    bands = of("step").transform_filter("isValid(datum.share_low)")
    level = alt.Y("level:Q")
    return [
        bands.mark_area(interpolate="step-after", clip=True).encode(
            x=x, y=alt.Y("share_low:Q", stack=None), y2="share_high:Q", color=tint, opacity=pale
        ),
        of("step")
        .mark_area(interpolate="step-after", fillOpacity=0.05, line={"strokeWidth": 1.75})
        .encode(x=x, y=y, color=tint),
        of("truth")
        .mark_line(interpolate="step-after", strokeWidth=1.25, strokeDash=[2, 2], style="truth")
        .encode(x=x, y=y),
        of("strip").mark_rule(strokeWidth=1.5).encode(x="q05:Q", x2="q95:Q", y=level, color=tint),
        of("strip").mark_rule(strokeWidth=5, opacity=0.5).encode(x="q25:Q", x2="q75:Q", y=level, color=tint),
        of("strip")
        .mark_tick(orient="vertical", thickness=2.5, size=12)
        .encode(x="q50:Q", y=level, color=tint),
    ]


def _last(panels: Sequence[Panel]) -> list[Panel]:
    """The panels of the last complete window, or of the last one."""
    whole = [panel for panel in panels if panel.records and panel.records[0].complete] or panels
    return [panel for panel in whole if panel.window == whole[-1].window]


def _summary(
    subject: Subject, panels: Sequence[Panel], of_estimate: Callable[[EstimateRecord], str]
) -> list[str]:
    """A sentence for each estimate, with its group and name if there are several; none if there are many."""
    said = []
    for panel in panels:
        for record in panel.records:
            label = subject.labels[record.name] if len(subject.labels) > 1 else ""
            window = panel.window if len(subject.windows) > 1 else ""
            where = ", ".join(filter(None, (panel.group, window, label)))
            if sentence := of_estimate(record):
                said.append(f"{words.opened(where, sentence)}.")
    return said if len(said) <= MOST_SENTENCES else []


def _quantiles(record: EstimateRecord) -> str:
    """Where half and nine in ten of the people are."""
    quantiles, parts = record.quantiles or {}, []
    # With a step, quantiles are values that people have, which need no digits of theirs.
    ends = ends_of(record, "quantiles", CERTAIN) if record.step is None else None
    spelled = {
        level: words.rounded(value, pair(ends, place))
        for place, (level, value) in enumerate(quantiles.items())
    }
    if "0.5" in quantiles:
        parts.append(
            f"half of the people are {'below' if record.step is None else 'at most'} {spelled['0.5']}"
        )
    if "0.05" in quantiles and "0.95" in quantiles:
        parts.append(f"nine in ten are between {spelled['0.05']} and {spelled['0.95']}")
    return words.listed(parts) or "there are no quantiles"


def _caption(record: EstimateRecord, unit: float | None, truth: bool) -> Iterator[str]:
    """How to read the chart."""
    of_values = unit is not None and record.step == unit
    what = "in each step" if unit is None else f"in each step of {words.number(unit)}"
    what = "with each value" if of_values else what
    interval = ""
    if ends_of(record, "distribution") is not None:
        rounded = ", but for round values" if of_values else ""
        interval = f", and its {level_of([record])} interval if people are spread smoothly{rounded}"
    yield f"The share of people {what}{interval}."
    if flag_of(record, "distribution"):
        yield "Pale bands are flagged."
    if truth:
        yield "Dashed: the truth."
    if record.quantiles:
        yield "Above: the median, the middle half, and nine in ten people."


def certain_shares(subject: Subject) -> Figure | None:
    """What is certain of the share of people up to each value, of the first estimate of each panel.

    Dark is what holds if people are spread smoothly, and light what holds whatever their values are; None if
    no estimate has certain intervals.
    """
    panels, _ = subject.panels(
        lambda record: record.distribution and ends_of(record, "cdf", CERTAIN) is not None
    )
    if not panels:
        return None
    panels = [panel for panel in _last(panels) if panel.records]
    first = panels[0].records[0]
    rests = "but for round values" if first.step else "without gaps, steps and favourite values"
    x = _x("at", subject, first)
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="~%", tickCount=4)
    y = alt.Y("low:Q", title="share of people", axis=axis, scale=scale)
    tint = colour([*subject.labels.values()])
    return Figure(
        title=f"Share of people up to each value of {subject.name}",
        layers=[
            of("certain")
            .mark_area(interpolate="step-after", opacity=0.2)
            .encode(x=x, y=y, y2="high:Q", color=tint),
            of("smooth").mark_area(opacity=0.5).encode(x=x, y=y, y2="high:Q", color=tint),
            of("line").mark_line(strokeWidth=1.25).encode(x=x, y=y, color=tint),
        ],
        rows=[row for panel in panels for row in _cumulative(subject, panel)],
        panels=[panel.title for panel in panels],
        height=240 if len(panels) == 1 else 130,
        summary=_summary(subject, [panel._replace(records=panel.records[:1]) for panel in panels], _certain),
        caption=f"{level_of([first])} intervals. Light is certain: it holds whatever people's values are. "
        f"Dark holds if people are spread smoothly, {rests}.",
    )


def _cumulative(subject: Subject, panel: Panel) -> list[dict[str, Any]]:
    record = panel.records[0]
    assert record.intervals is not None and record.distribution is not None
    edges, at = np.asarray(record.bucket_edges).tolist(), [*record.intervals.at]
    below = [0.0, *np.cumsum(record.distribution).tolist()]
    parts = {"line": zip(edges, below, below, strict=True)}
    for part, condition in (("certain", CERTAIN), ("smooth", IF_SMOOTH)):
        low, high = np.asarray(ends_of(record, "cdf", condition)).T.tolist()
        # Between two places the share is at least that of the first one, and at most that of the second one.
        # A smooth density has a curve that is nearly straight between two places.
        highs = [*high[1:], 1.0] if part == "certain" else high
        parts[part] = zip([*at, edges[-1]], [*low, 1.0], [*highs, 1.0], strict=True)
    known = {"panel": panel.title, "estimate": subject.labels[record.name]}
    return [
        {**known, "part": part, "at": at, "low": low, "high": high}
        for part, columns in parts.items()
        for at, low, high in columns
    ]


def _certain(record: EstimateRecord) -> str:
    """What is certain of the median, and what if people are spread smoothly; empty without a median."""
    levels = [*(record.quantiles or {})]
    if "0.5" not in levels:
        return ""
    both = {
        how: pair(ends_of(record, "quantiles", condition), levels.index("0.5"))
        for how, condition in (
            ("the median is certainly", CERTAIN),
            ("if people are spread smoothly", IF_SMOOTH),
        )
    }
    said = [
        f"{how} between {words.listed([words.rounded(end, None if record.step else own) for end in own])}"
        for how, own in both.items()
        if own is not None
    ]
    return "; ".join(dict.fromkeys(said))

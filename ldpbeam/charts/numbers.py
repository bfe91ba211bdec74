"""The distribution of a number: step areas of all estimates, their intervals, and their quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Columns, Figure, Key, Panel, Table, columns_of
from ldpbeam.charts.panels import TRUTH, chosen_subsets, colour, drawn, has_legend, keys_of, ticks, tips
from ldpbeam.charts.subject import STATES, Subject, Subset, banded, level_of, many, mean_ends, state_of
from ldpbeam.schemas.outputs.records import EstimateRecord, Numbers

#: Neighbouring buckets are added up until at most this many are left; a screen shows no more.
MOST_STEPS = 256
#: With several panels each is narrow, and this many are enough.
MOST_STEPS_OF_PANELS = 128
#: The table adds buckets up to this many ranges.
TABLE_ROWS = 16
#: The quantiles of the strip below a distribution, by the column that has them.
_STRIP = {"q05": "0.05", "q25": "0.25", "q50": "0.5", "q75": "0.75", "q95": "0.95"}
_BANDS = ("estimate", "low", "share_low", "share_high")


@dataclass(frozen=True)
class _Drawn:
    """A panel: its subset, the estimates that have a distribution, and the rows of its data sets."""

    subset: Subset
    records: Sequence[EstimateRecord]
    steps: Sequence[dict[str, Any]]
    truth: Sequence[dict[str, Any]]

    @property
    def top(self) -> float:
        """The largest share that is drawn."""
        rows = (*self.steps, *self.truth)
        return float(max(max(row["share"], row.get("share_high", 0.0)) for row in rows))


def distributions(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The distributions of an attribute; None if no estimate has one."""
    subsets, left_out = chosen_subsets(subject, "distribution")
    if not subsets:
        return None
    alone = len(subsets) == 1
    most_steps = MOST_STEPS if alone else MOST_STEPS_OF_PANELS
    panels = [_drawn(subject, subset, truths.get(subset), most_steps) for subset in subsets]
    top = max(panel.top for panel in panels)
    names = list(dict.fromkeys(record.name for panel in panels for record in panel.records))
    keys = keys_of(subject, names, any(panel.truth for panel in panels))
    depth = (0.07 if alone else 0.09) * top
    first = panels[0].steps[0]
    unit, step = first["high"] - first["low"], panels[0].records[0].step
    made = [
        Panel(
            "" if alone else str(panel.subset),
            {
                "steps": columns_of(panel.steps, ("estimate", "code", "low", "high", "share")),
                "truth": columns_of(panel.truth, ("estimate", "code", "low", "high", "share")),
                "bands": _bands(panel, subject, joined=not alone, flagged=False),
                "flagged": _bands(panel, subject, joined=not alone, flagged=True),
                "zero": {"zero": [0]},
                "quantiles": _strips(panel, subject, names, depth),
            },
            STATES.get(state_of(panel.records[0]), ""),
        )
        for panel in panels
    ]
    return Figure(
        title=f"Distribution of {subject.name}",
        chart=_chart(subject, keys, top, depth, len(names), unit, step, alone),
        panels=made,
        summary=[_sentence(str(panel.subset), record) for panel in panels for record in panel.records],
        table=_table(panels, names),
        caption=" ".join([_caption(panels, unit), *left_out]),
        keys=keys,
        legend=not has_legend(keys, alone),
    )


def _drawn(subject: Subject, subset: Subset, truth: Truth | None, most_steps: int) -> _Drawn:
    records = [record for record in subject.subsets[subset] if record.distribution is not None]
    steps = []
    for record in records:
        ends = many(record, "distribution")
        code = f"e{list(subject.labels).index(record.name)}"
        label = subject.labels[record.name]
        steps += _steps(record.distribution, record.bucket_edges, label, code, most_steps, ends)
    true = []
    if truth is not None:
        true = _steps(tuple(truth.shares), records[0].bucket_edges, TRUTH, "truth", most_steps)
    return _Drawn(subset, records, steps, true)


def _steps(
    distribution: Numbers | None,
    bucket_edges: Numbers | None,
    label: str,
    code: str,
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
        {"estimate": label, "code": code, "low": float(low), "high": float(high), "share": float(share)}
        for (low, high), share in zip(pairwise(edges), shares, strict=True)
    ]
    if ends is not None:
        # Neighbours of a smooth density rise and fall together, so that the ends of their intervals add up.
        lows = np.add.reduceat(np.asarray(ends.low), starts)
        highs = np.add.reduceat(np.asarray(ends.high), starts)
        for row, low, high in zip(rows, lows, highs, strict=True):
            row |= {"share_low": float(low), "share_high": float(high)}
    return [*rows, {**rows[-1], "low": rows[-1]["high"]}]


def _bands(panel: _Drawn, subject: Subject, *, joined: bool, flagged: bool) -> Columns:
    """The intervals of steps, with a flag or without: of all estimates, or of small panels' first one."""
    wanted = [subject.labels[name] for name in subject.labels if name in banded(panel.records)]
    flags = {subject.labels[record.name]: bool(_flag(record)) for record in panel.records}
    chosen = [label for label in wanted[: 1 if joined else None] if flags[label] == flagged]
    return columns_of(
        [row for row in panel.steps if "share_low" in row and row["estimate"] in chosen], _BANDS
    )


def _flag(record: EstimateRecord) -> str:
    """Why the intervals of an estimate's shares may be wrong; empty if nothing says so."""
    return record.intervals.flags.get("distribution", "") if record.intervals is not None else ""


def _strips(panel: _Drawn, subject: Subject, names: Sequence[str], depth: float) -> Columns:
    """One row per estimate with quantiles; ``level`` is where its strip lies below the distribution."""
    rows = []
    for record in panel.records:
        quantiles = record.quantiles or {}
        if all(level in quantiles for level in _STRIP.values()):
            level = -(names.index(record.name) + 1.1) * depth
            row = {"estimate": subject.labels[record.name], "level": level}
            rows.append(row | {name: quantiles[wanted] for name, wanted in _STRIP.items()})
    return columns_of(rows, ("estimate", "level", *_STRIP))


def _chart(
    subject: Subject,
    keys: Sequence[Key],
    top: float,
    depth: float,
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
        scale=alt.Scale(domain=[-(strips + 0.9) * depth, 1.04 * top], nice=False),
        axis=alt.Axis(format="~%", values=ticks(top, 5 if alone else 4)),
    )
    tint = colour(keys, has_legend(keys, alone))
    steps, quantiles = alt.Chart(alt.NamedData("steps")), alt.Chart(alt.NamedData("quantiles"))
    truth = alt.Chart(alt.NamedData("truth"))
    level = alt.Y("level:Q")
    columns = [("truth" if key.colour < 0 else f"e{key.colour}", key.label) for key in keys]
    named = [("first", "value")] if step == unit else [("first", "from"), ("last", "to")]
    shown = [*tips(",.5~g", *named), *tips(".3~%", *columns)]
    flagged = alt.Chart(alt.NamedData("flagged")).mark_line(
        interpolate="step-after", strokeWidth=1, strokeDash=[4, 3], opacity=0.8
    )
    layers = [
        alt.Chart(alt.NamedData("bands"))
        .mark_area(interpolate="step-after", opacity=0.2)
        .encode(x=x, y=alt.Y("share_low:Q"), y2="share_high:Q", color=tint),
        *(flagged.encode(x=x, y=alt.Y(end), color=tint) for end in ("share_low:Q", "share_high:Q")),
        steps.mark_area(interpolate="step-after", fillOpacity=0.05, line={"strokeWidth": 1.75}).encode(
            x=x, y=y, color=tint
        ),
        truth.mark_line(interpolate="step-after", strokeWidth=1.5, strokeDash=[2, 2]).encode(
            x=x, y=y, color=tint
        ),
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


def _sentence(where: str, record: EstimateRecord) -> str:
    quantiles, parts = record.quantiles or {}, []
    if "0.5" in quantiles:
        half = words.number(quantiles["0.5"])
        below = f"below {half}" if record.step is None else f"at {half} or below"
        parts.append(f"half of the people are {below}")
    if "0.05" in quantiles and "0.95" in quantiles:
        low, high = words.number(quantiles["0.05"]), words.number(quantiles["0.95"])
        parts.append(f"nine in ten are between {low} and {high}")
    if record.mean is not None:
        ends = mean_ends(record)
        interval = f" ({level_of([record])} interval {words.interval(ends)})" if ends else ""
        parts.append(f"the mean is {words.number(record.mean)}{interval}")
    return f"{words.opened(where, 'by')} {record.name}, {words.listed(parts) or 'there are no quantiles'}."


def _caption(panels: Sequence[_Drawn], unit: float) -> str:
    """How to read the chart."""
    records = panels[0].records
    of_values = records[0].step == unit
    parts = [
        "Each bar is a value. Its height is the share of people who have it."
        if of_values
        else f"Each step is {words.number(unit)} wide, in the unit of the values. "
        "Its height is the share of people in it."
    ]
    if many(records[0], "distribution") is not None:
        of_first = "" if len(panels) == 1 else f" by {records[0].name}"
        parts.append(
            f"The band is the {level_of(records)} interval of each {'bar' if of_values else 'step'}'s share"
            f"{of_first}, for the people whose reports were used, if they are spread smoothly"
            + (
                ", but for round values."
                if of_values
                else ": it says nothing of single values, as whole numbers."
            )
        )
        flags = {_flag(record): None for panel in panels for record in panel.records if _flag(record)}
        if flags:
            why = "; ".join(flags)
            parts.append(f"Where it has no fill and dashed edges, it may not hold the truth: {why}.")
    if records[0].quantiles:
        parts.append(
            "The strips below zero mark each estimate's median, the middle half of the people and the middle "
            "nine tenths."
        )
    return " ".join(parts)


def _table(panels: Sequence[_Drawn], names: Sequence[str]) -> Table:
    """The shares of up to :data:`TABLE_ROWS` ranges, one column per estimate."""
    where = len(panels) > 1
    columns = [*(["where"] if where else []), "from", "to", *names]
    rows = []
    for panel in panels:
        lows, highs = map(np.asarray, panel.records[0].bucket_ends)
        starts = np.unique(np.linspace(0, len(lows), TABLE_ROWS + 1).astype(int))[:-1]
        parts = zip(lows[starts], highs[[*(starts[1:] - 1), -1]], strict=True)
        shares = {
            record.name: np.add.reduceat(np.asarray(record.distribution), starts) for record in panel.records
        }
        for index, (low, high) in enumerate(parts):
            cells = [words.percent(float(shares[name][index])) if name in shares else "" for name in names]
            rows.append(
                [*([str(panel.subset)] if where else []), words.number(low), words.number(high), *cells]
            )
    return Table(columns, rows, frozenset(columns) - {"where"})

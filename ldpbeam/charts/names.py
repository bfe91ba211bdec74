"""Rows of numbers with their intervals: the shares of categories or keys, means of keys, and other means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt

from ldpbeam.answers.named_numbers import numbers_of
from ldpbeam.answers.truth import Truth
from ldpbeam.certainty import CERTAIN, LARGEST
from ldpbeam.charts.figures import GOES_ON, Figure, colour, of, reach
from ldpbeam.charts.subject import Panel, Subject, Subset, banded, level_of, mean_ends
from ldpbeam.schemas.outputs.records import EstimateRecord

#: This many names are drawn, and this many in each of several panels.
MOST_NAMES, MOST_NAMES_OF_PANELS = 30, 12

Field = Literal["frequencies", "key_means"]


def frequencies(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The shares of categories, or of the people who have each key; None if no estimate has any."""
    of_keys = any(record.keys for record in subject.records)
    title = f"Who has which key of {subject.name}" if of_keys else f"Shares of {subject.name}"
    return _of_names(subject, truths, "frequencies", title)


def key_means(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The mean value of each key; None if no estimate has any."""
    return _of_names(subject, truths, "key_means", f"Mean {subject.name} of each key")


def means(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The means of all groups and estimates; None with several windows, and where there is only one mean."""
    records = [record for own in subject.subsets.values() for record in own if record.mean is not None][
        :MOST_NAMES
    ]
    if len(subject.windows) > 1 or len(records) < 2:
        return None
    rows, panel = [], Panel("", "", records)
    for record in records:
        label, truth = subject.group_of(record), truths.get(Subset.of(record))
        estimate = subject.labels[record.name]
        known = {"panel": panel.title, "estimate": estimate, "label": label or record.name}
        rows.append(_row("estimate", known, record.mean, mean_ends(record)))
        if truth is not None and truth.mean is not None:
            rows.append(_row("truth", known, truth.mean))
    title = f"Mean {subject.name}{' by group' * subject.by_group}"
    return _figure(subject, title, rows, [panel], [], shares=False)


def values_of(record: EstimateRecord, field: Field) -> dict[str, float]:
    """The number of each name."""
    return dict(zip(record.labels or (), getattr(record, field) or (), strict=True))


def intervals_of(
    record: EstimateRecord, field: Field, condition: str = CERTAIN
) -> dict[str, tuple[float, float]]:
    """The interval of each name under a condition; empty without intervals."""
    family = "shares" if field == "frequencies" else "means of keys"
    ends = next(part for part in numbers_of(record) if part.family == family).under(condition)
    pairs = zip(record.labels or (), ends.tolist(), strict=True)
    return {name: (low, high) for name, (low, high) in pairs if low == low}


def _of_names(subject: Subject, truths: Mapping[Subset, Truth], field: Field, title: str) -> Figure | None:
    panels, left_out = subject.panels(lambda record: getattr(record, field))
    if not panels:
        return None
    records = [record for panel in panels for record in panel.records]
    order = most_frequent(
        [values_of(record, "frequencies") for record in records],
        MOST_NAMES if len(panels) == 1 else MOST_NAMES_OF_PANELS,
    )
    rows = []
    for panel in panels:
        for record in panel.records:
            values, ends = values_of(record, field), intervals_of(record, field, LARGEST)
            banded_ends = ends if record.name in banded(panel.records) else {}
            known = {"panel": panel.title, "estimate": subject.labels[record.name]}
            rows += [
                _row("estimate", known | {"label": name}, values[name], banded_ends.get(name))
                for name in order
                if name in values
            ]
        for record in panel.records[:1]:
            truth = truths.get(Subset.of(record))
            true = None if truth is None else truth.shares if field == "frequencies" else truth.key_means
            known = {"panel": panel.title, "estimate": subject.labels[record.name]}
            pairs = () if true is None else zip(record.labels or (), true.tolist(), strict=False)
            # A key that nobody has has no mean.
            rows += [
                _row("truth", known | {"label": name}, value)
                for name, value in pairs
                if name in order and value == value
            ]
    every = len({name for record in records for name in record.labels or ()})
    if every > len(order):
        left_out = [f"The {len(order)} most frequent of {every:,}.", *left_out]
    return _figure(subject, title, rows, panels, left_out, shares=field == "frequencies")


def _row(
    part: str, known: Mapping[str, str], value: float | None, ends: tuple[float, float] | None = None
) -> dict[str, Any]:
    low, high = ends or (None, None)
    return {"part": part, **known, "value": value, "low": low, "high": high}


def _figure(
    subject: Subject,
    title: str,
    rows: Sequence[Mapping[str, Any]],
    panels: Sequence[Panel],
    left_out: Sequence[str],
    *,
    shares: bool,
) -> Figure:
    """A bar for each share, or a dot for each mean; lines of intervals, and ticks of the truth."""
    labels = list(dict.fromkeys(row["label"] for row in rows))
    estimates = [own for own in subject.labels.values() if any(row["estimate"] == own for row in rows)]
    values = [row["value"] for row in rows]
    lows, highs = ([row[end] for row in rows if row[end] is not None] for end in ("low", "high"))
    low, high = min([*values, *lows, *([0.0] * shares)]), reach(values, highs)
    room = 0.02 * (high - low) or 0.01
    x = alt.X(
        "value:Q",
        title="share of people" if shares else f"mean {subject.name}",
        axis=alt.Axis(format="~%" if shares else alt.Undefined, tickCount=4, grid=True),
        scale=alt.Scale(domain=[low - room * (low < 0 or not shares), high + room], nice=False, zero=shares),
    )
    axis = alt.Axis(grid=False, labelLimit=120, labelOverlap=False, domain=False, ticks=False)
    placed: dict[str, Any] = {"y": alt.Y("label:N", title=None, axis=axis, sort=labels)}
    beside = len({(row["label"], row["estimate"]) for row in rows}) > len(labels)
    if beside:
        placed["yOffset"] = alt.YOffset("estimate:N", sort=estimates)
    tint = colour([*subject.labels.values()], estimates if beside else ())
    marks = of("estimate")
    shown = (
        marks.mark_bar(height={"band": 0.7}, opacity=0.45)
        if shares
        else marks.mark_circle(size=50, opacity=1)
    )
    return Figure(
        title=title,
        layers=[
            shown.encode(x=x, color=tint, **placed),
            marks.mark_rule(strokeWidth=1.5, clip=True).encode(x="low:Q", x2="high:Q", color=tint, **placed),
            of("truth").mark_tick(thickness=2, size=12, style="truth").encode(x=x, **placed),
        ],
        rows=rows,
        panels=[panel.title for panel in panels],
        height=(11 * len(estimates) if beside else 20) * len(labels),
        caption=" ".join(
            ([f"With {level_of(subject.records) or '95%'} intervals."] if highs else [])
            + (["Black ticks: the truth."] if any(row["part"] == "truth" for row in rows) else [])
            + ([GOES_ON] if max([*highs, high]) > high else [])
            + [*left_out]
        ),
        left=30 + 7 * min(17, max(map(len, labels))),
    )


def most_frequent(panels: Sequence[Mapping[str, float]], most: int) -> list[str]:
    """The names that all panels draw, by their largest share in any panel.

    Every panel's most frequent name goes first, then every panel's second, and so on.

    Args:
        panels: the share of each name in each panel, in the order of the study, which breaks ties.
        most: the largest number of names.
    """
    best_rank: dict[str, int] = {}
    largest: dict[str, float] = {}
    for shares in panels:
        for rank, name in enumerate(sorted(shares, key=lambda name: -shares[name])):
            best_rank[name] = min(rank, best_rank.get(name, rank))
            largest[name] = max(shares[name], largest.get(name, shares[name]))
    place = {
        name: number for number, name in enumerate(dict.fromkeys(n for shares in panels for n in shares))
    }
    chosen = sorted(largest, key=lambda name: (best_rank[name], -largest[name], place[name]))[:most]
    return sorted(chosen, key=lambda name: (-largest[name], place[name]))

"""Rows of numbers with their intervals: the shares of categories or keys, means of keys, and other means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt

from ldpbeam.answers.named_numbers import numbers_of
from ldpbeam.answers.truth import Truth
from ldpbeam.certainty import LARGEST
from ldpbeam.charts.figures import GOES_ON, Figure, of, reach
from ldpbeam.charts.subject import Subject, Subset, noun_of, part_of, surest
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
    """The means, or on a scale the medians; None with several windows, and where there is only one."""
    name = subject.centre
    panels, said = subject.panels(lambda record: part_of(record, name))
    if len(subject.windows) > 1 or len(panels) < 2:
        return None
    rows = []
    for title, record in panels:
        if record and (number := part_of(record, name)):
            rows.append(row("estimate", "", title, float(number.values[0]), surest(number)))
            if truth := truths.get(Subset.of(record)):
                rows.append(row("truth", "", title, truth.centre(name)))
    title = f"{noun_of(name)} {subject.name}"
    heading = f"{title.capitalize()}{' by group' * subject.by_group}"
    return rows_figure(heading, title, rows, [""], said, shares=False)


def values_of(record: EstimateRecord, field: Field) -> dict[str, float]:
    """The number of each name."""
    return dict(zip(record.labels or (), getattr(record, field) or (), strict=True))


def intervals_of(record: EstimateRecord, field: Field) -> dict[str, tuple[float, float]]:
    """The interval of each name, of one of the largest that of the largest; empty without intervals."""
    family = "shares" if field == "frequencies" else "means of keys"
    ends = next(part for part in numbers_of(record) if part.family == family).under(LARGEST)
    pairs = zip(record.labels or (), ends.tolist(), strict=True)
    return {name: (low, high) for name, (low, high) in pairs if low == low}


def _of_names(subject: Subject, truths: Mapping[Subset, Truth], field: Field, title: str) -> Figure | None:
    panels, said = subject.panels(lambda record: getattr(record, field))
    records = [panel.record for panel in panels if panel.record]
    if not records:
        return None
    order = most_frequent(
        [values_of(record, "frequencies") for record in records],
        MOST_NAMES if len(panels) == 1 else MOST_NAMES_OF_PANELS,
    )
    rows = []
    for panel, record in panels:
        if record is None:
            continue
        values, ends = values_of(record, field), intervals_of(record, field)
        rows += [
            row("estimate", panel, name, values[name], ends.get(name)) for name in order if name in values
        ]
        truth = truths.get(Subset.of(record))
        true = None if truth is None else truth.shares if field == "frequencies" else truth.key_means
        # A key that nobody has has no mean.
        rows += [
            row("truth", panel, name, value)
            for name, value in zip(record.labels or (), () if true is None else true.tolist(), strict=False)
            if name in order and value == value
        ]
    every = len({name for record in records for name in record.labels or ()})
    if every > len(order):
        said = [*said, f"The {len(order)} with the largest estimates, of {every:,}."]
    axis, shown = f"mean {subject.name}", [panel.title for panel in panels]
    return rows_figure(title, axis, rows, shown, said, shares=field == "frequencies")


def row(
    part: str, panel: str, label: str, value: float | None, ends: tuple[float, ...] | None = None
) -> dict[str, Any]:
    """A row of :func:`rows_figure`: a number, with its interval if it has one."""
    low, high = ends or (None, None)
    return {"part": part, "panel": panel, "label": label, "value": value, "low": low, "high": high}


def rows_figure(
    title: str,
    axis: str,
    rows: Sequence[Mapping[str, Any]],
    panels: Sequence[str],
    said: Sequence[str],
    *,
    shares: bool,
) -> Figure:
    """A bar for each share, or a dot for each mean; lines of intervals, and ticks of the truth."""
    labels = list(dict.fromkeys(own["label"] for own in rows))
    values = [own["value"] for own in rows]
    lows, highs = ([own[end] for own in rows if own[end] is not None] for end in ("low", "high"))
    low, high = min([*values, *lows, *([0.0] * shares)]), reach(values, highs)
    room = 0.02 * (high - low) or 0.01
    x = alt.X(
        "value:Q",
        title=None if shares else axis,
        axis=alt.Axis(format="~%" if shares else alt.Undefined, tickCount=3 if shares else 4, grid=True),
        scale=alt.Scale(domain=[low - room * (low < 0 or not shares), high + room], nice=False, zero=shares),
    )
    of_labels = alt.Axis(grid=False, labelLimit=120, labelOverlap=False, domain=False, ticks=False)
    y = alt.Y("label:N", title=None, axis=of_labels, sort=labels)
    marks = of("estimate")
    bar = (
        marks.mark_bar(height={"band": 0.7}, opacity=0.45)
        if shares
        else marks.mark_circle(size=50, opacity=1)
    )
    return Figure(
        title=title,
        layers=[
            bar.encode(x=x, y=y),
            marks.mark_rule(strokeWidth=2, clip=True, style="certain").encode(x="low:Q", x2="high:Q", y=y),
            of("truth").mark_tick(thickness=2, size=12, style="truth").encode(x=x, y=y),
        ],
        rows=rows,
        panels=panels,
        height=20 * len(labels),
        caption=" ".join(
            [*said, *(["Bars: the share of people."] if shares else [])]
            + (["Grey: intervals."] if highs else [])
            + (["Black ticks: the truth."] if any(own["part"] == "truth" for own in rows) else [])
            + ([GOES_ON] if max([*highs, high]) > high else [])
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
    first_seen = {
        name: number for number, name in enumerate(dict.fromkeys(n for shares in panels for n in shares))
    }
    chosen = sorted(largest, key=lambda name: (best_rank[name], -largest[name], first_seen[name]))[:most]
    return sorted(chosen, key=lambda name: (-largest[name], first_seen[name]))

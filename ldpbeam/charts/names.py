"""Categories and keys: one row per name, sorted, with a bar or a dot for each estimate or group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt

from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Columns, Figure, Key, columns_of
from ldpbeam.charts.panels import TRUTH, Place, colour, drawn, keys_of, most_frequent, places_of, reach, tips
from ldpbeam.charts.subject import Subject, Subset, banded, level_of, many
from ldpbeam.schemas.outputs.records import EstimateRecord

#: This many names are drawn, and this many in each of several panels.
MOST_NAMES, MOST_NAMES_OF_PANELS = 30, 12

Field = Literal["frequencies", "key_means"]
_COLUMNS = ("estimate", "label", "value", "low", "high")


def frequencies(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The shares of categories, or of the people who have each key; None if no estimate has any."""
    return _figure(subject, "frequencies", truths)


def key_means(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The mean value of each key; None if no estimate has any."""
    return _figure(subject, "key_means", truths)


def values_of(record: EstimateRecord, field: Field) -> dict[str, float]:
    """The number of each name."""
    return dict(zip(record.labels or (), getattr(record, field) or (), strict=True))


def ends_of(record: EstimateRecord, field: Field) -> dict[str, tuple[float, float]]:
    """The interval of each name; empty without intervals."""
    ends = many(record, field)
    return (
        {}
        if ends is None
        else dict(zip(record.labels or (), zip(ends.low, ends.high, strict=True), strict=True))
    )


def _figure(subject: Subject, field: Field, truths: Mapping[Subset, Truth]) -> Figure | None:
    places, left_out = places_of(subject, lambda record: getattr(record, field))
    if not places:
        return None
    alone, shares = len(places) == 1, field == "frequencies"
    records = [record for place in places for record in place.records]
    order = most_frequent(
        [values_of(record, "frequencies") for record in records],
        MOST_NAMES if alone else MOST_NAMES_OF_PANELS,
    )
    panels = [
        (place, _rows(subject, place, order, field), _truth(subject, place, order, field, truths))
        for place in places
    ]
    of_keys = records[0].keys is not None
    every = len({name for record in records for name in record.labels or ()})
    labels = {subject.label(record) for record in records}
    keys = keys_of(subject, labels, not subject.by_group and any(truth for *_, truth in panels))
    extent = extent_of([row for _, rows, truth in panels for row in (*rows, *truth)], shares)
    together = max(len(place.records) for place in places) > 1
    title = f"Who has which key of {subject.name}" if of_keys else f"Shares of {subject.name}"
    return Figure(
        title=title if shares else f"Mean {subject.name} of each key",
        chart=row_chart(
            ("share of people who have it" if of_keys else "share of people")
            if shares
            else f"mean {subject.name}",
            keys,
            extent,
            (12 * len(keys) + 8 if together else 24 if alone else 19) * len(order),
            shares=shares,
            bars=not of_keys and not together,
            together=together,
        ),
        panels=[place.panel(row_data(rows, truth, extent), alone) for place, rows, truth in panels],
        caption=" ".join(
            [
                *([f"With {level_of(records)} intervals."] if many(records[0], field) is not None else []),
                *([f"The {len(order)} most frequent of {every:,}."] if every > len(order) else []),
                *left_out,
            ]
        ),
        keys=keys,
    )


def extent_of(rows: Sequence[Mapping[str, Any]], shares: bool) -> tuple[float, float]:
    """The ends of the axis, the same in all panels: all values, and most of the upper ends of intervals."""
    values = [row["value"] for row in rows]
    high = reach(values, [row["high"] for row in rows if row.get("high") is not None])
    low = min([*values, *(row["low"] for row in rows if row.get("low") is not None)])
    room = 0.02 * (high - low) or 0.01
    return (min(low - room, 0.0) if low < 0 else 0.0) if shares else low - room, high + room


def _rows(subject: Subject, place: Place, order: Sequence[str], field: Field) -> list[dict[str, Any]]:
    rows = []
    for record in place.records:
        ends = ends_of(record, field) if record.name in banded(place.records) else {}
        values, label = values_of(record, field), subject.label(record)
        rows += [
            {"estimate": label, "label": name, "value": values[name]}
            | dict(zip(("low", "high"), ends.get(name, (None, None)), strict=True))
            for name in order
            if name in values
        ]
    return rows


def _truth(
    subject: Subject, place: Place, order: Sequence[str], field: Field, truths: Mapping[Subset, Truth]
) -> list[dict[str, Any]]:
    rows = {}
    for record in place.records:
        truth = truths.get(Subset.of(record))
        true = None if truth is None else truth.shares if field == "frequencies" else truth.key_means
        label = subject.label(record) if subject.by_group else TRUTH
        for name, value in zip(record.labels or (), [] if true is None else true.tolist(), strict=False):
            # A key that nobody has has no mean.
            if name in order and value == value:
                rows[label, name] = {"estimate": label, "label": name, "value": value}
    return list(rows.values())


def row_data(
    rows: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, Any]], extent: tuple[float, float]
) -> dict[str, Columns]:
    """The data sets of :func:`row_chart`: ``estimate`` has the colour, and ``label`` names the row."""
    cut = [{**row, "value": extent[1]} for row in rows if (row["high"] or extent[1]) > extent[1]]
    named = {"main": rows, "truth": truth, "cut": cut}
    return {name: columns_of(own, _COLUMNS) for name, own in named.items()}


def row_chart(
    title: str,
    keys: Sequence[Key],
    extent: tuple[float, float],
    height: int,
    *,
    shares: bool,
    bars: bool = False,
    together: bool = False,
    named: bool = True,
) -> dict[str, Any]:
    """A bar or a dot in each row, or dots of estimates or groups; intervals, and ticks of the truth."""
    x = alt.X(
        "value:Q",
        title=title,
        axis=alt.Axis(format="~%" if shares else ",.5~g", tickCount=5, grid=True),
        scale=alt.Scale(domain=list(extent), nice=False, zero=shares),
    )
    axis = alt.Axis(grid=False, labelLimit=110, labelOverlap=False, domain=False, ticks=False)
    order = [key.label for key in keys]
    placed: dict[str, Any] = {"y": alt.Y("label:N", title=None, axis=axis if named else None, sort=None)}
    if together:
        placed["yOffset"] = alt.YOffset("estimate:N", sort=order)
    tint, spelled = colour(keys), ".3~%" if shares else ".4~g"
    shown = ["label:N", "estimate:N", *tips(spelled, ("value", "value"), ("low", "low"), ("high", "high"))]
    main, cut, truth = (alt.Chart(alt.NamedData(name)) for name in ("main", "cut", "truth"))
    mark = (
        main.mark_bar(height={"band": 0.62}, opacity=0.75) if bars else main.mark_circle(size=55, opacity=1)
    )
    # The line of an interval is seen on a bar of any colour.
    rule = {} if bars else {"color": tint}
    layers = [
        mark.encode(x=x, color=tint, tooltip=shown, **placed),
        main.mark_rule(strokeWidth=1.5, clip=True).encode(x="low:Q", x2="high:Q", **rule, **placed),
        cut.mark_point(shape="triangle-right", filled=True, size=28, opacity=1).encode(x=x, **rule, **placed),
        truth.mark_tick(thickness=2.5, size=17).encode(x=x, color=tint, tooltip=shown[:3], **placed),
    ]
    return drawn(layers, max(60, height))

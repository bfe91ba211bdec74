"""The figures of a pair: the table of both attributes, and what the people in each group of one have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import altair as alt
import numpy as np

from ldpbeam.answers.tables import dependence_of
from ldpbeam.charts.figures import Figure, of
from ldpbeam.charts.names import row, rows_figure
from ldpbeam.charts.subject import Subject
from ldpbeam.pair_answer import Axis, PairAnswer

#: The height of a table in pixels.
HEIGHT = 300


def table(subject: Subject) -> Figure | None:
    """The joint shares of a pair, by how often they are what independence would have; None of others."""
    pairs, said = _pairs(subject)
    if not pairs:
        return None
    first, second = pairs[0][1].axes
    tint = alt.Color(
        "ratio:Q",
        title="times independence",
        scale=alt.Scale(
            scheme="blueorange", type="log", domain=[0.1, 10], domainMid=1, clamp=True, reverse=True
        ),
        legend=alt.Legend(orient="top", direction="horizontal", tickCount=3),
    )
    placed = _placed("x", alt.X, alt.X2, first) | _placed("y", alt.Y, alt.Y2, second)
    pale = alt.Opacity("weight:Q", legend=None)
    return Figure(
        title=f"{first.attribute} and {second.attribute} of the same people",
        layers=[of("table").mark_rect().encode(color=tint, opacity=pale, **placed)],
        rows=[cell | {"part": "table", "panel": title} for title, pair in pairs for cell in _cells(pair)],
        panels=[title for title, _ in pairs],
        height=HEIGHT,
        caption=" ".join([*said, "Pale cells have few people."]),
        summary=[": ".join(filter(None, (title, dependence_of(pair)))) + "." for title, pair in pairs],
    )


def _pairs(subject: Subject) -> tuple[list[tuple[str, PairAnswer]], list[str]]:
    """The title and the answer of each panel of a pair, and sentences on what they show and leave out."""
    panels, said = subject.panels(lambda record: record.pair)
    return [(panel.title, panel.record.pair) for panel in panels if panel.record and panel.record.pair], said


def _placed(name: str, near: Any, far: Any, axis: Axis) -> dict[str, Any]:
    if axis.categories is not None:
        return {name: near(f"{name}:N", title=axis.attribute, sort=list(axis.categories))}
    assert axis.edges is not None
    scale = alt.Scale(domain=[axis.edges[0], axis.edges[-1]], nice=False, zero=False)
    return {name: near(f"{name}:Q", title=axis.attribute, scale=scale), f"{name}2": far(f"{name}_end:Q")}


def _cells(pair: PairAnswer) -> Iterator[dict[str, Any]]:
    first, second = pair.axes
    shares = np.reshape(pair.table, (len(first), len(second)))
    ratios = shares / np.outer(shares.sum(axis=1), shares.sum(axis=0))
    weights = np.sqrt(shares / shares.max())
    for (across, up), ratio in np.ndenumerate(ratios):
        places = _place("x", first, across) | _place("y", second, up)
        yield places | {"ratio": round(float(ratio), 4), "weight": round(float(weights[across, up]), 3)}


def _place(name: str, axis: Axis, group: int) -> dict[str, Any]:
    if axis.edges is None:
        return {name: axis[group]}
    return {name: axis.edges[group], f"{name}_end": axis.edges[group + 1]}


def given(subject: Subject) -> Figure | None:
    """What the people in each group of one attribute of a pair have of the other; None of others."""
    pairs, said = _pairs(subject)
    if not pairs:
        return None
    rows = []
    for title, pair in pairs:
        drawn = next((answer for answer in pair.given if answer.means), pair.given[0])
        numbers, labels = drawn.means or drawn.shares, [drawn.given[at] for at in range(len(drawn.given))]
        named = [title] if drawn.means else [f"{title} {drawn.of[at]}".strip() for at in range(len(drawn.of))]
        ends = zip(numbers.value, numbers.low or numbers.value, numbers.high or numbers.value, strict=True)
        for (label, panel), (value, *between) in zip(product(labels, named), ends, strict=True):
            rows.append(row("estimate", panel, label, value, tuple(between)))
    title, shares = f"{drawn.of.attribute} by {drawn.given.attribute}", drawn.means is None
    panels = list(dict.fromkeys(drawn_row["panel"] for drawn_row in rows))
    return rows_figure(title, f"mean {drawn.of.attribute}", rows, panels, said, shares=shares)

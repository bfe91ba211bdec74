"""The heat map of a pair of attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np

from ldpbeam.answers.tables import dependence_of
from ldpbeam.charts.figures import Figure, of
from ldpbeam.charts.subject import Subject
from ldpbeam.estimators.estimate import Axis, PairAnswer

#: The height of a panel in pixels.
HEIGHT = 300


def tables(subject: Subject) -> Figure | None:
    """The joint shares of a pair, by how often they are what independence would have; None of others."""
    panels, left_out = subject.panels(lambda record: record.pair)
    pairs = [(panel.title, record.pair) for panel in panels for record in panel.records if record.pair]
    if not pairs:
        return None
    rows = [row | {"part": "table", "panel": title} for title, pair in pairs for row in _cells(pair)]
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
    return Figure(
        title=f"{first.attribute} and {second.attribute} of the same people",
        layers=[
            of("table").mark_rect().encode(color=tint, opacity=alt.Opacity("weight:Q", legend=None), **placed)
        ],
        rows=rows,
        panels=[panel.title for panel in panels],
        height=HEIGHT,
        caption=" ".join(["Pale cells have few people.", *left_out]),
        summary=[": ".join(filter(None, (title, dependence_of(pair)))) + "." for title, pair in pairs],
    )


def _placed(name: str, near: Any, far: Any, axis: Axis) -> dict[str, Any]:
    if axis.categories is not None:
        return {name: near(f"{name}:N", title=axis.attribute, sort=list(axis.categories))}
    assert axis.edges is not None
    scale = alt.Scale(domain=[axis.edges[0], axis.edges[-1]], nice=False, zero=False)
    return {name: near(f"{name}:Q", title=axis.attribute, scale=scale), f"{name}2": far(f"{name}_end:Q")}


def _cells(pair: PairAnswer) -> Iterator[dict[str, Any]]:
    first, second = pair.axes
    table = np.reshape(pair.table, (len(first), len(second)))
    ratios = table / np.outer(table.sum(axis=1), table.sum(axis=0))
    weights = np.sqrt(table / table.max())
    for (row, column), ratio in np.ndenumerate(ratios):
        places = _place("x", first, row) | _place("y", second, column)
        yield places | {"ratio": round(float(ratio), 4), "weight": round(float(weights[row, column]), 3)}


def _place(name: str, axis: Axis, group: int) -> dict[str, Any]:
    if axis.edges is None:
        return {name: axis[group]}
    return {name: axis.edges[group], f"{name}_end": axis.edges[group + 1]}

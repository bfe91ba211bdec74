"""What a figure of the page is: one chart, or small multiples of it, with a summary and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: The rows of a data set, column by column.
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Panel:
    """One chart of a figure.

    Attributes:
        title: what the panel shows, such as its window and group; empty in a figure with one panel.
        data: the rows of each data set that the figure's chart names.
        note: what a reader must know about the panel, as that its window is incomplete.
    """

    title: str
    data: Mapping[str, Columns]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table of texts; ``numbers`` are the columns that stand at the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A chart with what says the same in words.

    Attributes:
        title: the heading.
        chart: the Vega-Lite specification, which names its data sets; every panel draws it.
        panels: the data of each panel.
        summary: sentences that say what the chart shows.
        table: the numbers of the chart.
        caption: how to read the chart.
        legend: the labels of the colours, in the order of the colours, where the chart has no legend.
    """

    title: str
    chart: Mapping[str, Any]
    panels: Sequence[Panel]
    summary: Sequence[str]
    table: Table
    caption: str = ""
    legend: Sequence[str] = ()


def columns_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Columns:
    """The rows as columns; numbers keep five digits, which is more than a screen shows."""
    return {name: [_short(row.get(name)) for row in rows] for name in names}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        short = float(f"{value:.5g}")
        return int(short) if short.is_integer() and abs(short) < 2**53 else short
    return value

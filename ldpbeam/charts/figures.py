"""What a figure of the page is: one chart, or small multiples of it, with a summary and a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldpbeam.charts.subject import Subset

#: The rows of a data set, column by column.
Columns = Mapping[str, Sequence[Any]]


class Key(NamedTuple):
    """A colour's label, and its place among the theme's colours; -1 is the colour of text."""

    label: str
    colour: int


@dataclass(frozen=True)
class Panel:
    """One chart of a figure.

    Attributes:
        title: what the panel shows, such as its window and group; empty in a figure with one panel.
        data: the rows of each data set that the figure's chart names.
        note: what a reader must know about the panel, as that its window is incomplete.
        row: the heading of the row that the panel stands in, as the window of the panels of all groups.
        subsets: the windows and groups that it shows.
    """

    title: str
    data: Mapping[str, Columns]
    note: str = ""
    row: str = ""
    subsets: Sequence[Subset] = ()


@dataclass(frozen=True)
class Table:
    """A table of texts; ``numbers`` are the columns that stand at the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()


def table_of(
    rows: Sequence[Mapping[str, str]], numbers: Collection[str] = (), optional: Collection[str] = ()
) -> Table:
    """A table of rows by column, without the optional columns that no row fills."""
    names = rows[0] if rows else ()
    columns = [name for name in names if name not in optional or any(row[name] for row in rows)]
    return Table(columns, [[row[name] for name in columns] for row in rows], frozenset(numbers))


@dataclass(frozen=True)
class Figure:
    """A chart with what says the same in words.

    Attributes:
        title: the heading.
        chart: the Vega-Lite specification, which names its data sets; every panel draws it.
        panels: the data of each panel.
        summary: sentences that say what the chart shows.
        caption: how to read the chart.
        keys: what the chart's colours stand for.
    """

    title: str
    chart: Mapping[str, Any]
    panels: Sequence[Panel]
    summary: Sequence[str] = ()
    caption: str = ""
    keys: Sequence[Key] = ()


def columns_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Columns:
    """The rows as columns; numbers keep five digits, which is more than a screen shows."""
    return {name: [_short(row.get(name)) for row in rows] for name in names}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        short = float(f"{value:.5g}")
        return int(short) if short.is_integer() and abs(short) < 2**53 else short
    return value

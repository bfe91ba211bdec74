"""Tables of measurements: printed as Markdown, and kept as the CSV files of docs/measured."""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?")
#: A mean, its standard error, and what stands in brackets beside them.
PARTS = re.compile(r"(\S+) ± (\S+?)(?: \((\S+)\))?")
SUFFIXES = ("", ", standard error", ", in brackets")
#: What ``--write`` takes.
HELP = "the folder of the CSV files: docs/measured"


def row(cells: Sequence[object]) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def header(names: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [row(names), row(["---"] * len(names))]


def split(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


@dataclass(frozen=True)
class Table:
    """A table that is kept as CSV.

    Attributes:
        name: of the CSV file, without its ending.
        lines: the Markdown of the table: names of columns, rule, rows.
    """

    name: str
    lines: tuple[str, ...]

    def text(self) -> str:
        """The CSV file."""
        names, _, *rows = map(split, self.lines)
        cells = [[values(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        pairs = list(zip(names, widths, strict=True))
        writer.writerow([name + suffix for name, width in pairs for suffix in SUFFIXES[:width]])
        for row in cells:
            padded = [cell + [""] * (width - len(cell)) for cell, width in zip(row, widths, strict=True)]
            writer.writerow([value for cell in padded for value in cell])
        return text.getvalue()


def table(name: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of rows of cells."""
    return Table(name, (*header(names), *map(row, rows)))


def values(cell: str) -> list[str]:
    """What a cell of Markdown is in a CSV file: numbers without commas, shares without %, nothing for "-"."""
    parts = PARTS.fullmatch(cell)
    return [_plain(part) for part in parts.groups() if part] if parts else [_plain(cell)]


def _plain(text: str) -> str:
    text = text.strip("*`")
    if text == "-":
        return ""
    if not NUMBER.fullmatch(text):
        return text
    text = text.replace(",", "")
    return f"{Decimal(text[:-1]).scaleb(-2):f}" if text.endswith("%") else text


def show(lines: Iterable[str | Table], folder: Path | None) -> None:
    """Print each line and table as soon as it is there, and write the tables into a folder, if given."""
    for line in lines:
        if isinstance(line, str):
            print(line, flush=True)
            continue
        print("", *line.lines, "", sep="\n", flush=True)
        if folder is not None:
            (folder / f"{line.name}.csv").write_text(line.text(), encoding="utf-8")


def show_series(tables: Callable[[int], Iterator[Table]], description: str | None) -> None:
    """Show the tables of as many series as the command line says, and write them where it says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--series", type=int, default=2_000)
    parser.add_argument("--write", type=Path, help=HELP)
    given = parser.parse_args()
    show(tables(given.series), given.write)

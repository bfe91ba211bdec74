"""Pages of measurements: shown line by line as they come, and kept where asked for, long tables as CSV."""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

#: The folder of the tables, beside the pages.
FOLDER = "measured"
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?")
#: A mean, its standard error, and what stands in brackets beside them.
PARTS = re.compile(r"(\S+) ± (\S+?)(?: \((\S+)\))?")
SUFFIXES = ("", ", standard error", ", in brackets")
HEADING = re.compile(r"^(?=##? )", re.MULTILINE)


def split(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def everything(row: Mapping[str, str]) -> bool:
    """A choice of all rows."""
    return True


@dataclass(frozen=True)
class Table:
    """A table of which all rows are kept as CSV, and some stand on the page.

    Attributes:
        name: of the CSV file, without its ending.
        lines: the Markdown of the whole table: names of columns, rule, rows.
        shown: whether a row stands on the page, from its cells by column.
        hidden: the columns that do not.
    """

    name: str
    lines: tuple[str, ...]
    shown: Callable[[Mapping[str, str]], bool]
    hidden: tuple[str, ...] = ()

    def excerpt(self) -> Iterator[str]:
        """The Markdown of the page."""
        names, _, *rows = map(split, self.lines)
        chosen = [row for row in rows if self.shown(dict(zip(names, row, strict=True)))]
        places = [place for place, name in enumerate(names) if name not in self.hidden]
        if chosen:
            for row in (names, ["---"] * len(names), *chosen):
                yield f"| {' | '.join(row[place] for place in places)} |"
            yield ""
        path = f"{FOLDER}/{self.name}.csv"
        shown = (
            f"{len(chosen)} of {len(rows)} rows; all rows and columns" if chosen else f"All {len(rows)} rows"
        )
        yield f"{shown} are in [{path}]({path})."

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


def values(cell: str) -> list[str]:
    """What a cell of a page is in a CSV file: numbers without commas, shares without %, nothing for "-"."""
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


def show(lines: Iterable[str | Table], path: Path | None) -> None:
    """Print each line as soon as it is there; write all of them to ``path``, where given, and the tables."""
    text = _shown(lines, path)
    if path is not None:
        path.write_text(text, encoding="utf-8")


def renew(lines: Iterable[str | Table], path: Path | None) -> None:
    """As ``show``, but the lines are parts of the page: each takes the place of the one with its heading.

    A part begins with a heading of the first or the second level. One with a new heading comes last.
    """
    text = _shown(lines, path)
    if path is not None:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        parts = {part.partition("\n")[0]: part for page in (before, text) for part in HEADING.split(page)}
        path.write_text(
            "\n".join(part.rstrip("\n") + "\n" for part in parts.values() if part), encoding="utf-8"
        )


def renew_from(page: Callable[[int], Iterable[str | Table]], description: str | None) -> None:
    """Print a part of a page, of as many series as the command line says, and write it where it says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--series", type=int, default=2_000)
    parser.add_argument("--write", type=Path, help="docs/coverage.md")
    given = parser.parse_args()
    renew(page(given.series), given.write)


def _shown(lines: Iterable[str | Table], path: Path | None) -> str:
    shown = []
    for line in lines:
        if isinstance(line, Table) and path is not None:
            (path.parent / FOLDER).mkdir(exist_ok=True)
            (path.parent / FOLDER / f"{line.name}.csv").write_text(line.text(), encoding="utf-8")
        for own in line.excerpt() if isinstance(line, Table) else [line]:
            print(own, flush=True)
            shown.append(own)
    return "\n".join(shown) + "\n"


def cells_of(page: Path, column: str, row: str) -> list[str]:
    """The cells of a column of a page's tables, in the rows that begin with a text.

    Raises:
        ValueError: if there is none.
    """
    cells: list[str] = []
    heads: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| "):
            heads = []
            continue
        found = split(line)
        heads = heads or found
        if found[0] == row and column in heads:
            cells.append(found[heads.index(column)])
    if not cells:
        raise ValueError(f"{page} has no row {row!r} with a column {column!r}: make it with --write")
    return cells

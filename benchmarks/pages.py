"""A page of measurements: shown line by line as they come, and kept where asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def show(lines: Iterable[str], path: Path | None) -> None:
    """Print each line as soon as it is there; write all of them to ``path``, where given."""
    shown = []
    for line in lines:
        print(line, flush=True)
        shown.append(line)
    if path is not None:
        path.write_text("\n".join(shown) + "\n", encoding="utf-8")


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
        found = [cell.strip() for cell in line.strip("|").split("|")]
        heads = heads or found
        if found[0] == row and column in heads:
            cells.append(found[heads.index(column)])
    if not cells:
        raise ValueError(f"{page} has no row {row!r} with a column {column!r}: make it with --write")
    return cells

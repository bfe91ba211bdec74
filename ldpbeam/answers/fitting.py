"""Tables that fit the terminal: one that is too wide becomes several below each other, and no text is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ldpbeam.untrusted import shown

#: Between two columns.
_GAP = 2
#: The width of output that is not a terminal: wider than any table.
_ENDLESS = 10_000


def table_of(names: Sequence[str], rows: Sequence[Mapping[str, str]], left: Sequence[str] = ()) -> Table:
    """A table with these columns.

    Args:
        names: the columns, in their order.
        rows: the texts of each row by column; those of columns that are not named are left out.
        left: the columns of words; the others are numbers, and stand to the right.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        # Text, since names from reports and studies may look like markup.
        table.add_row(*(Text(shown(row.get(name, ""))) for name in names))
    return table


def print_fitting(
    console: Console,
    names: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    *,
    keys: Sequence[str],
    left: Sequence[str] = (),
) -> None:
    """Print a table; if the console is a terminal that is too narrow, as several below each other.

    Then a key that is the same in all rows stands once, above the tables, and each table repeats the others.

    Args:
        console: where to print.
        names: the columns, in their order.
        rows: the texts of each row by column.
        keys: the columns that tell the rows apart.
        left: the columns of words besides the keys.
    """
    width = console.width if console.is_terminal else _ENDLESS
    out = Console(file=console.file, width=width, force_terminal=console.is_terminal)
    words = {*keys, *left}
    widths = {
        name: max([cell_len(name), *(cell_len(shown(row.get(name, ""))) for row in rows)]) for name in names
    }
    if _wide(names, widths) <= width:
        out.print(table_of(names, rows, list(words)))
        return
    present = [name for name in names if name in keys]
    same = [name for name in present if len({row.get(name, "") for row in rows}) == 1]
    if len(same) == len(present):
        same = same[:-1]
    if same:
        out.print(Text(", ".join(f"{name} {shown(rows[0].get(name, ''))}" for name in same)))
    kept = [name for name in present if name not in same]
    others = [name for name in names if name not in keys]
    for number, part in enumerate(_parts(others, kept, widths, width)):
        if number:
            out.print()
        filled = [row for row in rows if any(row.get(name) for name in part)]
        out.print(table_of([*kept, *part], filled, list(words)))


def _wide(names: Sequence[str], widths: Mapping[str, int]) -> int:
    return sum(widths[name] for name in names) + _GAP * (len(names) - 1)


def _parts(
    names: Sequence[str], keys: Sequence[str], widths: Mapping[str, int], width: int
) -> list[list[str]]:
    """The columns of each table: as many as fit beside the keys, and at least one."""
    parts: list[list[str]] = [[]]
    for name in names:
        if parts[-1] and _wide([*keys, *parts[-1], name], widths) > width:
            parts.append([])
        parts[-1].append(name)
    return parts

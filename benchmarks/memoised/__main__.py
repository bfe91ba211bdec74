"""Clients that remember their noise, beside released code, and a day of hours with and without joined users.

    python -m benchmarks.memoised [--runs 400] [--minutes 30] [--again CELL] [--write docs/memoised.md]

Rows are kept in build/memoised.jsonl and build/memoised-joined.jsonl, and a second call goes on where one
stopped. The other sections of the page stay as they are.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Iterator
from pathlib import Path

from benchmarks.memoised import day, joined, released
from benchmarks.pages import Table, renew


def page(runs: int, minutes: float, again: Collection[str]) -> Iterator[str | Table]:
    """The page, line by line."""
    yield "# Clients that remember their noise, measured"
    yield ""
    yield "[Over time](over_time.md) explains the words. `python -m benchmarks.memoised --write"
    yield "docs/memoised.md` writes the first four sections; each of the others names its own command. A"
    yield "file has the columns of the table above its name."
    yield ""
    yield from released.section()
    yield ""
    yield from day.section(runs, minutes)
    yield ""
    yield from joined.section(runs, minutes, again)


def main() -> None:
    """Print the page, and write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=400, help="runs per cell")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after about so long")
    parser.add_argument(
        "--again", action="append", default=[], metavar="CELL", help="2,000 fresh runs of a joined cell count"
    )
    parser.add_argument("--write", type=Path, help="where the page is written")
    given = parser.parse_args()
    renew(page(given.runs, given.minutes, given.again), given.write)


if __name__ == "__main__":
    main()

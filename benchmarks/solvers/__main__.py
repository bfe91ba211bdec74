"""Write docs/benchmarks.md: what solves cost, as ratios of two things measured in one run.

    python -m benchmarks.solvers [--only SECTION ...] [--write docs/benchmarks.md]

With ``--only``, the other sections stay as they stand in the page.

A section is a module here with a ``TITLE`` and a function ``section`` that returns lines.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.pages import Table, renew
from benchmarks.solvers.sections import measured

#: The sections, in the order of the page: modules of this package.
SECTIONS = ["products", "fixed_points", "intervals", "windows", "processes", "olh", "services", "large"]
INTRODUCTION = """\
# Benchmarks

`make bench-solvers` writes this page; `make bench-solvers ONLY=products` renews one section. A time is
CPU time, a ratio is the median of five pairs measured one right after the other, and seeds are fixed.
Each section runs in a process of its own.
"""


def page(chosen: list[str]) -> Iterator[str | Table]:
    """The introduction and the chosen sections, as they are measured."""
    yield from INTRODUCTION.splitlines()
    yield ""
    for name in chosen:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
            yield from alone.submit(measured, name).result()


def main() -> None:
    """Print the sections, and write the page where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    options = parser.parse_args()
    renew(page(options.only), options.write)


if __name__ == "__main__":
    main()

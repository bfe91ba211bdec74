"""Accuracy at the published settings, beside the numbers of the papers and of their released code.

    python -m benchmarks.accuracy [--write docs/accuracy.md] [--only services ...]

Every row is the mean over seeds, with its standard error; all estimators of a table see the same reports.
Released code's numbers were measured on the same populations with its own draws, so a difference within
about two standard errors (of both) is none.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy import (
    categories,
    hierarchies,
    key_values,
    means,
    merging,
    reduction,
    services,
    several_keys,
)
from benchmarks.pages import show

SECTIONS = {
    "services": services.tables,
    "means": means.tables,
    "hierarchies": hierarchies.tables,
    "categories": categories.tables,
    "merging": merging.tables,
    "reduction": reduction.tables,
    "key_values": key_values.tables,
    "several_keys": several_keys.tables,
}


def page(chosen: list[str]) -> Iterator[str]:
    """The page, line by line."""
    yield "# Accuracy"
    yield ""
    yield "Made by `python -m benchmarks.accuracy --write docs/accuracy.md`. " + " ".join(
        (__doc__ or "").split("\n\n")[2].split()
    )
    for name in chosen:
        yield ""
        yield from SECTIONS[name]()


def main() -> None:
    """Print the page, and write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    show(page(options.only), options.write)


if __name__ == "__main__":
    main()

"""Accuracy at the published settings, beside the numbers of the papers and of their released code.

    python -m benchmarks.accuracy [--write docs/accuracy.md] [--only services ...]

With ``--only``, the page has these sections alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
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
from benchmarks.pages import Table, show

SECTIONS: dict[str, Callable[[], Iterator[str | Table]]] = {
    "services": services.tables,
    "means": means.tables,
    "hierarchies": hierarchies.tables,
    "categories": categories.tables,
    "merging": merging.tables,
    "reduction": reduction.tables,
    "key_values": key_values.tables,
    "several_keys": several_keys.tables,
}


INTRODUCTION = """\
`python -m benchmarks.accuracy --write docs/accuracy.md` writes this page. Every row is the mean over
seeds, with its standard error. All estimators of a table see the same reports. The numbers of papers and
of released code stand beside: theirs are of the same populations with other draws, so a difference within
about two standard errors (of both) is none. W1 is the Wasserstein distance, KS that of Kolmogorov and
Smirnov, MAE the mean absolute error, and MSE the mean squared error.

A file has the columns of the table above its name. A column "X, standard error" is that of X, and "X, in
brackets" what the page has in brackets."""


def page(chosen: list[str]) -> Iterator[str | Table]:
    """The page, line by line."""
    yield "# Accuracy"
    yield ""
    yield from INTRODUCTION.splitlines()
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

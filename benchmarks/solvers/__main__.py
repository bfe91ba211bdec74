"""Write docs/benchmarks.md: what solves cost, as ratios of two things measured in one run.

    python -m benchmarks.solvers [--only SECTION ...] [--write docs/benchmarks.md]

With ``--only``, the other sections stay as they stand in the page.

A section is a module here with a ``TITLE`` and a function ``section`` that returns Markdown.
"""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.solvers.sections import measured, titled

#: The sections, in the order of the page: modules of this package.
SECTIONS = ["products", "fixed_points", "intervals", "processes", "olh", "services", "large"]
HEADING = "\n## "
INTRODUCTION = """\
# Benchmarks

Made by `make bench-solvers`; `make bench-solvers ONLY=products` renews one section. A time is CPU time, a
ratio is the median of five pairs measured one right after the other, and seeds are fixed. Each section runs
in a process of its own.
"""


def page(chosen: list[str], before: str) -> str:
    """The page: the chosen sections are measured, the others are those of the page before, if it has them."""
    kept = {part.partition("\n")[0]: part for part in before.split(HEADING)[1:]}
    parts = [INTRODUCTION]
    for name in SECTIONS:
        if name in chosen:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
                print(f"{name} ...", flush=True)
                parts.append(alone.submit(measured, name).result())
                print(parts[-1], flush=True)
        elif (old := kept.get(titled(name))) is not None:
            parts.append(old.rstrip("\n") + "\n")
    return HEADING.join(parts)


def main() -> None:
    """Print the sections, and write the page where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    options = parser.parse_args()
    target: Path | None = options.write
    before = target.read_text(encoding="utf-8") if target is not None and target.exists() else ""
    text = page(options.only, before)
    if target is not None:
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

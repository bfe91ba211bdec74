"""The grid: `auto` beside every fixed method on the same reports.

    python -m benchmarks.grid [--half reporting] [--mechanism SW ..] [--n 1000 ..] [--population skewed ..]
        [--seeds 8] [--method auto ..] [--processes 2] [--results build/grid.jsonl] [--write docs/grid.md]

Results are appended to a file as they come; what is there already is not computed again. Those of `auto`
are of one version of the estimators' code.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from benchmarks.grid.cells import PEOPLE, SEEDS, Cell, Result, cells, methods, results, version
from benchmarks.grid.compare import Compared, compared
from benchmarks.grid.methods import AUTO, MECHANISMS, Method
from benchmarks.grid.page import both_halves, page
from benchmarks.grid.populations import CATEGORIES, HALVES, NUMBERS, is_here
from benchmarks.pages import Table, show

#: Losses of numbers besides W1: their names in tables, and in results.
OTHERS = {"KS": "ks", "5% and 95% quantile": "tails", "squared error of buckets": "squares"}

INTRODUCTION = """\
# The grid

`make grid` writes this page; `python -m benchmarks.grid --help` names the parts that can be left out. The
grid compares `auto` with every fixed method on the same reports. Released code is among the fixed
methods.

A *cell* is a mechanism, a population, an epsilon and a number of people. Losses are against the people
who were drawn:

- for numbers, W1 on a domain of width 1 with 1,024 buckets. One table has three more: KS, the mean
  absolute error of the 5% and the 95% quantile, and the mean squared error of the shares of 256 buckets.
- for categories, the mean absolute error of shares.

A loss is relative to the best fixed method of the cell, which is chosen with the truth, by the mean loss
over seeds. With one seed, the best of many methods is partly luck, which no method can have beforehand.
`auto` was tuned on one half of the populations, and the page is about the other
(`benchmarks/grid/populations.py`). "Beyond noise" counts the cells that are above 1.20 by more than two
standard errors. `threshold` returns shares that need not add up to one: where reports say nearly nothing
it returns zeros, and on a long tail no distribution has so small a mean absolute error ([decision
34](decisions/README.md)).
"""

Task = tuple[Cell, int, tuple[Method, ...]]


def read(path: Path) -> list[Result]:
    """The results of a file; none if there is no file. A line that was cut off is left out."""
    found = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            found.append(Result(**json.loads(line)))
        except json.JSONDecodeError:
            print(f"left out a line that was cut off: {line[:60]}")
    return found


def left(chosen: list[Cell], seeds: int, names: list[str] | None, known: list[Result]) -> list[Task]:
    """The cells and seeds that lack results, with the methods that they lack."""
    have = {(result.cell, result.seed, result.method, result.version) for result in known}
    tasks = []
    for cell in chosen:
        asked = [method for method in methods(cell.mechanism) if names is None or method.name in names]
        for seed in range(min(seeds, cell.seeds)):
            lacking = tuple(m for m in asked if (cell, seed, m.name, version(m)) not in have)
            if lacking:
                tasks.append((cell, seed, lacking))
    return tasks


def run(tasks: list[Task], processes: int, path: Path) -> Iterator[list[Result]]:
    """Compute tasks in several processes, and append their results to a file as they come."""
    path.parent.mkdir(parents=True, exist_ok=True)
    start, ended = time.monotonic(), 0
    with (
        path.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool,
    ):
        waiting: list[Future[list[Result]]] = [pool.submit(results, *task) for task in tasks]
        try:
            for future in as_completed(waiting):
                found = future.result()
                file.writelines(f"{json.dumps(asdict(result))}\n" for result in found)
                file.flush()
                ended += 1
                took = time.monotonic() - start
                if ended % 20 == 0 or ended == len(tasks):
                    ahead = took / ended * (len(tasks) - ended)
                    print(
                        f"{ended:,} of {len(tasks):,} in {_told(took)}, about {_told(ahead)} left", flush=True
                    )
                yield found
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _told(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds > 90 else f"{seconds:.0f} s"


def main() -> None:
    """Compute what is missing, and print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", nargs="+", choices=HALVES, default=["reporting"])
    parser.add_argument("--mechanism", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--n", nargs="+", type=int, choices=PEOPLE, default=list(PEOPLE))
    parser.add_argument("--population", nargs="+", default=[""], help="only those whose names begin so")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="at most so many; 5 for 1,000,000 people")
    parser.add_argument("--method", nargs="+", help="compute these only; the page needs all")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--results", type=Path, default=Path("build/grid.jsonl"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    # Processes that start from here have one thread of BLAS each.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

    missing = sorted({p.file for p in (*NUMBERS, *CATEGORIES) if not is_here(p)})
    asked = [
        cell
        for cell in cells(HALVES, options.mechanism, options.n)
        if cell.population.startswith(tuple(options.population))
    ]
    chosen = [cell for cell in asked if cell.drawn_from.half in options.half]
    known = read(options.results)
    tasks = left(chosen, options.seeds, options.method, known)
    # All cells of a seed before the next seed, so that what is there when a run is stopped is of all cells.
    # Cells in a random order: then the part of them that is left takes its part of the time.
    random.Random(0).shuffle(tasks)
    tasks.sort(key=lambda task: task[1])
    for found in run(tasks, options.processes, options.results):
        known += found

    every = _compared(asked, known)
    here = set(chosen)
    of_auto = [
        one for one in known if one.cell in here and one.method == AUTO.name and one.version == version(AUTO)
    ]
    others = {
        name: [one for one in _compared(asked, known, by) if one.cell in here] for name, by in OTHERS.items()
    }
    lines = page([one for one in every if one.cell in here], of_auto, others)
    if len({one.cell.drawn_from.half for one in every}) > len(set(options.half)):
        lines = chain(lines, both_halves(every))
    show(_titled(lines, options, missing), options.write)


def _compared(chosen: list[Cell], known: list[Result], by: str = "loss") -> list[Compared]:
    """The cells that have results of the present versions of all their methods."""
    now = {cell: methods(cell.mechanism) for cell in chosen}
    current = {(cell, m.name, version(m)) for cell, own in now.items() for m in own}
    named = {cell: tuple(m.name for m in own) for cell, own in now.items()}
    return compared((one for one in known if (one.cell, one.method, one.version) in current), named, by)


def _titled(
    lines: Iterable[str | Table], options: argparse.Namespace, missing: list[str]
) -> Iterator[str | Table]:
    yield from INTRODUCTION.splitlines()
    yield ""
    people = ", ".join(f"{n:,}" for n in options.n)
    yield f"Half: {', '.join(options.half)}. Mechanisms: {', '.join(options.mechanism)}. People: {people}."
    if missing:
        yield f"Without the populations of {', '.join(missing)}, which are not beside the project."
    yield ""
    yield from lines


if __name__ == "__main__":
    main()

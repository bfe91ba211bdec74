"""The grid: `auto` beside every fixed method on the same reports.

    python -m benchmarks.grid [--half reporting] [--mechanism SW ..] [--n 1000 ..] [--population skewed ..]
        [--seeds 10] [--method auto ..] [--processes 2] [--results build/grid.jsonl] [--write docs/measured]

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
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.grid import held_out
from benchmarks.grid.cells import MANY, SEEDS, SEEDS_OF_MANY, Cell, Result, cells, methods, results, version
from benchmarks.grid.compare import Compared, compared
from benchmarks.grid.methods import AUTO, MECHANISMS, Method
from benchmarks.grid.populations import CATEGORIES, HALVES, NUMBERS, is_here
from benchmarks.grid.tables import tables
from benchmarks.pages import HELP, show

#: Losses besides W1 and MAE: their names in tables, and in results.
OTHERS = {"KS": "ks", "5% and 95% quantile": "tails", "squared error of shares": "squares"}

#: The tables of what is held out that are kept, and their names.
KEPT_OF_HELD_OUT = {
    "grid_auto": "held_out",
    "grid_fixed": "held_out_fixed",
    "grid_other_losses": "held_out_other_losses",
}

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
    """Compute what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", nargs="+", choices=HALVES, default=["reporting"])
    parser.add_argument("--mechanism", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--n", nargs="+", type=int, help="how many people")
    parser.add_argument("--population", nargs="+", default=[""], help="only those whose names begin so")
    parser.add_argument(
        "--seeds",
        type=int,
        default=held_out.SEEDS,
        help=f"at most so many; {SEEDS} of what is not held out, {SEEDS_OF_MANY} for {MANY:,} people",
    )
    parser.add_argument("--method", nargs="+", help="compute these only; the tables need all")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--results", type=Path, default=Path("build/grid.jsonl"))
    parser.add_argument("--write", type=Path, help=HELP)
    options = parser.parse_args()
    # Processes that start from here have one thread of BLAS each.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

    missing = sorted({p.file for p in (*NUMBERS, *CATEGORIES) if not is_here(p)})
    chosen = [
        cell
        for cell in cells(options.half, options.mechanism, options.n)
        if cell.population.startswith(tuple(options.population))
    ]
    known = read(options.results)
    tasks = left(chosen, options.seeds, options.method, known)
    # All cells of a seed before the next seed, so that what is there when a run is stopped is of all cells.
    # Cells in a random order: then the part of them that is left takes its part of the time.
    random.Random(0).shuffle(tasks)
    tasks.sort(key=lambda task: task[1])
    for found in run(tasks, options.processes, options.results):
        known += found

    of_auto = [
        one
        for one in known
        if one.cell in set(chosen) and one.method == AUTO.name and one.version == version(AUTO)
    ]
    others = {name: _compared(chosen, known, by) for name, by in OTHERS.items()}
    if missing:
        print(f"Without the populations of {', '.join(missing)}, which are not beside the project.")
    made = list(tables(_compared(chosen, known), of_auto, others))
    if options.half == ["held out"]:
        made = [replace(one, name=KEPT_OF_HELD_OUT[one.name]) for one in made if one.name in KEPT_OF_HELD_OUT]
    show(made, options.write)


def _compared(chosen: list[Cell], known: list[Result], by: str = "loss") -> list[Compared]:
    """The cells that have results of the present versions of all their methods."""
    now = {cell: methods(cell.mechanism) for cell in chosen}
    current = {(cell, m.name, version(m)) for cell, own in now.items() for m in own}
    named = {cell: tuple(m.name for m in own) for cell, own in now.items()}
    return compared((one for one in known if (one.cell, one.method, one.version) in current), named, by)


if __name__ == "__main__":
    main()

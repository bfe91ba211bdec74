"""The speed of a whole run, from files to the statistic, beside peers.

    python -m benchmarks.throughput [--users 1000000] [--only TEXT] [--rounds 5] [--write docs/measured]

Every contender runs in a process of its own, over the same reports of people at three services, of whom one
in a hundred reports twice. It runs over a hundredth of them, too, and times are those of all reports less
those of the hundredth, so that starts cancel. A ratio is the median of the rounds, in each of which the runs
follow each other. ldpbeam checks every report, keeps the first of a user and service, and says what became of
the others. DuckDB reads the same files. Its plain query checks the range of payloads and joins, and counts a
report that a user repeats again. Its equal query keeps the first report as ldpbeam does, and counts what it
dropped; it must count the same cells. Neither checks ids, times and text, nor writes what it refused. The
loop over fastavro's blocks checks nothing, and holds all reports in memory.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.contenders import ALONE, CONTENDERS, Input, write_inputs
from benchmarks.pages import HELP, Table, show, table
from benchmarks.scale.measuring.meter import forget_peak, resident

#: Times of so many times fewer reports are subtracted.
FEWER = 100
#: What Python compiles is kept, as pip keeps what it installs.
COMPILED = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
_PLAIN, _EQUAL, _LOOP = "DuckDB, plain query", "DuckDB, equal query", "loop over fastavro's blocks"
#: They count a report that a user repeats again, so their cells differ.
REPEATING = frozenset({_PLAIN})


class Run(NamedTuple):
    """What was measured of one contender: seconds by the clock and of processors, peak memory, the cells."""

    seconds: float
    processor: float
    peak_mb: float
    cells: str


class Wanted(NamedTuple):
    """How many times the time of a peer a contender may take."""

    name: str
    peer: str
    times: float


class Contest(NamedTuple):
    """Contenders over the same reports."""

    what: str
    given: Input
    wanted: tuple[Wanted, ...]


def contests(users: int) -> Iterator[Contest]:
    """All comparisons."""
    plain, equal = Wanted("ldpbeam", _PLAIN, 1.5), Wanted("ldpbeam", _EQUAL, 1.15)
    loop = Wanted("ldpbeam", _LOOP, 1.1)
    yield Contest("Parquet, ids of 16 bytes", Input(users), (plain, equal))
    yield Contest("Parquet, UUIDs as text", Input(users, "uuid"), (plain, equal))
    yield Contest("Parquet, ids like e-mail addresses", Input(users, "e-mail"), (plain, equal))
    yield Contest("Avro, ids of 16 bytes", Input(users, kind="avro"), (loop,))
    yield Contest("Avro, UUIDs as text", Input(users, "uuid", "avro"), (loop,))
    yield Contest("Parquet, ids of 16 bytes", Input(10 * users), (plain,))
    alone = Wanted("ldpbeam", "DuckDB, one service", 1.0)
    yield Contest("Parquet, one service, not joined", Input(30 * users, study=ALONE), (alone,))


def contend(name: str, folder: Path, given: Input) -> None:
    """Run one contender in this process; print what was measured as JSON."""
    # Imports are not what is measured; the garbage collector leaves them out, as in every command.
    gc.freeze()
    logging.getLogger().setLevel(logging.ERROR)
    # The peak that a process begins with is that of its parent, which has made the reports.
    forget_peak()
    started, used = time.perf_counter(), time.process_time()
    cells = CONTENDERS[name](folder, given)
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor += workers.ru_utime + workers.ru_stime
    print(json.dumps([seconds, processor, resident(peak=True) / 2**20, cells]))


def run(name: str, folder: Path, given: Input) -> Run:
    """A run of a contender in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.throughput", "--contend", name]
    command += ["--folder", str(folder), "--given", json.dumps(given)]
    process = psutil.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=COMPILED
    )
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            workers = process.children(recursive=True)
            if workers:
                peak = max(peak, sum(each.memory_info().rss for each in (process, *workers)))
        time.sleep(0.05)
    said = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)}")
    one = Run(*json.loads(said.splitlines()[-1]))
    return one._replace(peak_mb=max(one.peak_mb, peak / 2**20))


class Comparison:
    """Contenders over the same reports, run in turn, each over a hundredth of them, too."""

    def __init__(self, contest: Contest, folder: Path, rounds: int) -> None:
        self.contest, given = contest, contest.given
        few = given._replace(users=given.users // FEWER)
        for name, part in (("all", given), ("few", few)):
            write_inputs(folder / name, part)
        names = dict.fromkeys(name for wanted in contest.wanted for name in (wanted.name, wanted.peer))
        self.runs: dict[str, list[Run]] = {name: [] for name in names}
        for _ in range(rounds):
            for name, runs in self.runs.items():
                start, whole = run(name, folder / "few", few), run(name, folder / "all", given)
                times = whole.seconds - start.seconds, whole.processor - start.processor
                runs.append(Run(*times, whole.peak_mb, whole.cells))
        shutil.rmtree(folder)
        equal = {runs[0].cells for name, runs in self.runs.items() if name not in REPEATING}
        if len(equal) != 1:
            raise SystemExit(f"{contest.what}: the cells of {', '.join(self.runs)} differ")

    def times(self, wanted: Wanted, what: str) -> float:
        """How many times that of its peer something of a contender is."""
        pairs = zip(self.runs[wanted.name], self.runs[wanted.peer], strict=True)
        return float(statistics.median(getattr(own, what) / getattr(other, what) for own, other in pairs))

    def rows(self) -> Iterator[list[str]]:
        """The rows of what was wanted: how many times that of its peer each thing of a contender is."""
        about = f"{self.contest.given.reports:,} reports, {self.contest.what}"
        for wanted in self.contest.wanted:
            name = "" if wanted.name == "ldpbeam" else f"; {wanted.name}"
            reached = [f"{self.times(wanted, what):.2f}" for what in Run._fields[:3]]
            yield [about + name, wanted.peer, f"{wanted.times:g}", *reached]

    def median(self, name: str, what: str) -> float:
        """The median of something of a contender."""
        return float(statistics.median(getattr(one, what) for one in self.runs[name]))

    def lines(self) -> Iterator[list[str]]:
        """A row for each contender."""
        for name, runs in self.runs.items():
            seconds, processor, memory = (self.median(name, what) for what in Run._fields[:3])
            numbers = [
                f"{self.contest.given.reports:,}",
                f"{seconds:.2f}",
                f"{processor:.2f}",
                f"{memory:,.0f}",
            ]
            yield [f"{self.contest.what}: {name}", *numbers, runs[0].cells]


def tables(users: int, only: str, rounds: int, folder: Path) -> Iterator[str | Table]:
    """What was wanted and reached, and the runs, after everything is measured."""
    rows, runs = list[list[str]](), list[list[str]]()
    for number, contest in enumerate(contests(users)):
        if only in f"{contest.given.reports:,} reports, {contest.what}":
            comparison = Comparison(contest, folder / str(number), rounds)
            rows += comparison.rows()
            runs += comparison.lines()
            yield f"{contest.what}: measured"
    yield table("speed", ["what", "beside", "wanted", "clock", "processors", "memory"], rows)
    yield table("speed_runs", ["contender", "reports", "seconds", "processor seconds", "MB", "cells"], runs)


def main() -> None:
    """Measure, or be measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="the comparisons with this text in their names")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help=HELP)
    parser.add_argument("--contend", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--given", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contend:
        contend(options.contend, options.folder, Input(*options.given))
        return
    with tempfile.TemporaryDirectory() as folder:
        show(tables(options.users, options.only, options.rounds, Path(folder)), options.write)


if __name__ == "__main__":
    main()

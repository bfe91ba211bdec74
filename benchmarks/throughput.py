"""The speed of a whole run, from files to the statistic, beside peers.

    python -m benchmarks.throughput [--users 1000000] [--only TEXT] [--rounds 5] [--write docs/speed.md]

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

import duckdb
import psutil
from apache_beam.utils.interactive_utils import is_in_ipython

from benchmarks import columns
from benchmarks.contenders import ALONE, CONTENDERS, EQUAL, Input, sql, write_inputs
from benchmarks.pages import cells_of, renew
from benchmarks.scale.computing.batch_run import batch_run
from benchmarks.scale.measured import Measured, measured_in
from benchmarks.scale.measuring.meter import forget_peak, resident

SPEED = Path(__file__).parents[1] / "docs" / "speed.md"
#: Times of so many times fewer reports are subtracted.
FEWER = 100
BEFORE = "55e6fb8"
PAGE = """\
# Speed

`make benchmarks` writes this page, but for the sections on streams, which name their commands. {about}

What falls short stands first. "Before" is commit `{before}`.

| what | beside | before | to reach | reached |
| --- | --- | --- | --- | --- |
{rows}

Rows of many windows and streams are from sections below, those of solves from [a page](benchmarks.md).

## A whole run, beside peers
Medians of {rounds} rounds, with DuckDB {duckdb}. Seconds are those of all reports less those of a \
hundredth; memory is the most that all processes of a run hold, what they share counted in each.

| contender | reports | seconds | processor seconds | MB | cells |
| --- | --- | --- | --- | --- | --- |
{runs}

The equal query, with the folder `reports`:
```sql
{sql}
```

## What a report costs from bytes to a histogram
Processor time beside that of a bare loop over the same {reports:,} reports in the same process, as \
`python -m benchmarks.columns` measures it. [The decision](decisions/README.md) says why some fall short.

{columns}
"""
#: The reports of that section.
REPORTS = 200_000
_PLAIN, _EQUAL, _LOOP = "DuckDB, plain query", "DuckDB, equal query", "loop over fastavro's blocks"
#: They count a report that a user repeats again, so their cells differ.
REPEATING = frozenset({_PLAIN, "DuckDB, plain query, two threads"})
_TWO, _THREADS = "ldpbeam, two workers", "DuckDB, plain query, two threads"


class Run(NamedTuple):
    """What was measured of one contender: seconds by the clock and of processors, peak memory, the cells."""

    seconds: float
    processor: float
    peak_mb: float
    cells: str


class Row(NamedTuple):
    """A row of the page; one that falls short is not ``met``."""

    what: str
    beside: str
    before: str
    wanted: str
    reached: str
    met: bool


class Wanted(NamedTuple):
    """How many times the time of a peer a contender may take, and how many times its memory."""

    name: str
    peer: str
    before: str
    times: float
    memory: float | None = None


class Contest(NamedTuple):
    """Contenders over the same reports."""

    what: str
    given: Input
    wanted: tuple[Wanted, ...]


def contests(users: int) -> Iterator[Contest]:
    """All comparisons of the page."""
    plain, two = Wanted("ldpbeam", _PLAIN, "2.31", 1.5, 1.0), Wanted(_TWO, _THREADS, "2.19", 1.5)
    equal, loop = Wanted("ldpbeam", _EQUAL, "1.22", 1.15), Wanted("ldpbeam", _LOOP, "0.62", 0.7)
    uuids = plain._replace(before="2.97", memory=None), equal._replace(before="1.67")
    mails = plain._replace(before="2.93", memory=None), equal._replace(before="1.84")
    yield Contest("Parquet, ids of 16 bytes", Input(users), (plain, equal, two))
    yield Contest("Parquet, UUIDs as text", Input(users, "uuid"), uuids)
    yield Contest("Parquet, ids like e-mail addresses", Input(users, "e-mail"), mails)
    yield Contest("Avro, ids of 16 bytes", Input(users, kind="avro"), (loop,))
    yield Contest("Avro, UUIDs as text", Input(users, "uuid", "avro"), (loop._replace(before="1.01"),))
    many = plain._replace(before="", memory=1.5)
    yield Contest("Parquet, ids of 16 bytes", Input(10 * users), (many, two._replace(before="")))
    alone = Wanted("ldpbeam", "DuckDB, one service", "", 1.0)
    yield Contest("Parquet, one service, not joined", Input(30 * users, study=ALONE), (alone,))


def contend(name: str, folder: Path, given: Input) -> None:
    """Run one contender in this process; print what was measured as JSON."""
    # Imports are not what is measured. Beam asks for IPython when it makes a pipeline; the garbage collector
    # leaves out what is imported, as in every command.
    is_in_ipython()
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
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=columns.COMPILED
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

    def rows(self) -> Iterator[Row]:
        """The rows of what was wanted."""
        about = f"{self.contest.given.reports:,} reports, {self.contest.what}"
        for wanted in self.contest.wanted:
            name = "" if wanted.name == "ldpbeam" else f"; {wanted.name}"
            processor, seconds = (self.times(wanted, what) for what in ("processor", "seconds"))
            reached = f"{processor:.2f} times of processors; {seconds:.2f} by the clock"
            before = wanted.before and f"{wanted.before} times"
            yield Row(
                about + name,
                wanted.peer,
                before,
                f"{wanted.times:g} times",
                reached,
                processor <= wanted.times,
            )
            if wanted.memory:
                memory = self.times(wanted, "peak_mb")
                reached = f"{memory:.2f} times: {self.median(wanted.name, 'peak_mb'):,.0f} MB"
                most = f"{wanted.memory:g} times"
                yield Row(f"memory, {about}{name}", wanted.peer, "", most, reached, memory <= wanted.memory)

    def median(self, name: str, what: str) -> float:
        """The median of something of a contender."""
        return float(statistics.median(getattr(one, what) for one in self.runs[name]))

    def lines(self) -> Iterator[str]:
        """A line of a table for each contender."""
        for name, runs in self.runs.items():
            seconds, processor, memory = (self.median(name, what) for what in Run._fields[:3])
            numbers = f"{self.contest.given.reports:,} | {seconds:.2f} | {processor:.2f} | {memory:,.0f}"
            yield f"| {self.contest.what}: {name} | {numbers} | {runs[0].cells} |"


def many_windows(measured: Measured) -> Row:
    """A row computed on the section on scale."""
    one, hours = (batch_run(measured, 1e9, windows=windows).core_hours for windows in (1, 24))
    what = "24 windows in each file, 10^9 users a day (computed)"
    reached = f"{hours / one:.2f} times: {hours:.2f} core-hours"
    return Row(what, "one window", "14.7 times", "2 times", reached, hours <= 2 * one)


def stream(measured: Measured) -> Row:
    """A row of the section on Kafka: the most that a stream takes up, beside the decoder alone."""
    rate = rate_of("stream, Arrow")
    times = rate * measured.taken / 1e6
    what = "stream of Kafka, 1,000 reports in a message, at most"
    reached = f"{times:.2f} times: {rate:,.0f} reports a second"
    return Row(what, "rate of the decoder", "not known", "0.5 times", reached, times >= 0.5)


def rate_of(label: str) -> float:
    """The reports a second in a section on what waits in a topic or subscription."""
    return float(cells_of(SPEED, "reports a second", label)[0].replace(",", ""))


def one_by_one() -> Iterator[Row]:
    """Rows of the sections on streams with one report in a message."""
    for contents in ("JSON", "Avro"):
        rate, used = (
            cells_of(SPEED, column, f"stream, {contents}")[0]
            for column in ("reports a second", "microseconds of processors a report")
        )
        what = f"stream of Kafka, one report in a message, {contents}"
        reached = f"{rate} a second, {used} us of processors a report"
        met = float(rate.replace(",", "")) >= 50_000 and float(used) <= 16
        yield Row(what, "two cores with the broker", "25,000 to 33,000; 27 us", "50,000; 16 us", reached, met)
    for contents in ("JSON", "Arrow"):
        times = rate_of(f"stream, {contents} of Pub/Sub") / rate_of(f"bare client, {contents} of Pub/Sub")
        what = f"stream of Pub/Sub, {contents}"
        peer = "a client that pulls and acknowledges"
        yield Row(what, peer, "not known", "0.7 times", f"{times:.2f} times", times >= 0.7)


def solves() -> Row:
    """A row of the page of solvers: a window's estimate by ``auto`` with its intervals."""
    page = SPEED.with_name("benchmarks.md")
    took, floor = (
        float(cells_of(page, column, "`square_wave`")[0])
        for column in ("ms with intervals", "ms of products")
    )
    what = "one of many windows of 1,500 people, `auto` with intervals"
    reached = f"{took / floor:.1f} times: {took:.0f} ms of CPU"
    # A quarter of before, which is less than the products.
    return Row(what, "products of its Newton steps", "3.6 times", "0.9 times", reached, took <= 0.9 * floor)


def page(users: int, only: str, rounds: int, folder: Path) -> Iterator[str]:
    """The page, after everything is measured."""
    measured = measured_in(SPEED.read_text(encoding="utf-8"))
    rows = [
        many_windows(measured),
        stream(measured),
        *one_by_one(),
        solves(),
    ]
    lines: list[str] = []
    for number, contest in enumerate(contests(users)):
        if only in f"{contest.given.reports:,} reports, {contest.what}":
            comparison = Comparison(contest, folder / str(number), rounds)
            rows += comparison.rows()
            lines += comparison.lines()
            print(*lines[-len(comparison.runs) :], *comparison.rows(), sep="\n", file=sys.stderr, flush=True)
    rows.sort(key=lambda row: row.met)
    yield PAGE.format(
        about=" ".join((__doc__ or "").split("\n\n")[2].split()),
        before=BEFORE,
        rounds=rounds,
        duckdb=duckdb.__version__,
        reports=REPORTS,
        sql=sql(EQUAL, Path("reports"), Input(1).attribute),
        rows="\n".join(f"| {' | '.join(row[:-1])} |" for row in rows),
        runs="\n".join(lines),
        columns="\n".join(columns.page(REPORTS)),
    ).rstrip()


def main() -> None:
    """Measure, or be measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="the comparisons with this text in their names")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="write the page here too")
    parser.add_argument("--contend", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--given", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contend:
        contend(options.contend, options.folder, Input(*options.given))
        return
    with tempfile.TemporaryDirectory() as folder:
        renew(page(options.users, options.only, options.rounds, Path(folder)), options.write)


if __name__ == "__main__":
    main()

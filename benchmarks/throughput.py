"""The speed of a whole run, from fixed-width Avro to the joint statistic, beside peers.

    python -m benchmarks.throughput [--users 1000000] [--sample 50000] [--large] [--write docs/speed.md]

The peers do the same work. A per-record pipeline has one element a record: it validates, stamps, windows and
groups by user (CoGroupByKey), over a sample of the same reports, as it is slow. "No windows" is this pipeline
without validation and windows. A bare script reads blocks and joins by sorting, without Beam. Every contender
runs in a process of its own, and its times start after the imports. A ratio is the median of five pairs,
whose runs follow each other. Every contender must count the same cells as its peer.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from apache_beam.utils.interactive_utils import is_in_ipython

from benchmarks import columns
from benchmarks.contenders import CONTENDERS, write_inputs
from benchmarks.pages import cells_of, renew
from benchmarks.scale.computing.batch_run import batch_run
from benchmarks.scale.measured import Measured, measured_in
from benchmarks.scale.measuring.meter import forget_peak, resident

ROUNDS = 5
SPEED = Path(__file__).parents[1] / "docs" / "speed.md"
PAGE = """\
# Speed

`make benchmarks` writes this page, but for the sections on streams, which name their commands. {about}

What falls short stands first. "Before" is commit `e305054`.

| what | beside | before | to reach | reached |
| --- | --- | --- | --- | --- |
{rows}

Rows of many windows, Flink and streams are from sections below, those of solves from [a page](benchmarks.md).

## A whole run, beside peers
Medians of {rounds} runs, and the most memory of any. Processor seconds include the worker processes, and a \
peak is of the largest process.

| contender | reports | seconds | processor seconds | reports a second | peak MB | cells |
| --- | --- | --- | --- | --- | --- | --- |
{runs}

## What a report costs from bytes to a histogram
Processor time beside that of a bare loop over the same {reports:,} reports in the same process, as \
`python -m benchmarks.columns` measures it. [The decision](decisions/65-columns.md) says why some fall short.

{columns}
"""
#: The reports of that section.
REPORTS = 200_000


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


def contend(name: str, folder: Path) -> None:
    """Run one contender in this process; print what was measured as JSON."""
    # Imports are not what is measured. Beam asks for IPython when it makes a pipeline; the garbage collector
    # leaves out what is imported, as in every command.
    is_in_ipython()
    gc.freeze()
    logging.getLogger().setLevel(logging.ERROR)
    # The peak that a process begins with is that of its parent, which has made the reports.
    forget_peak()
    started, used = time.perf_counter(), time.process_time()
    cells = CONTENDERS[name](folder)
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor += workers.ru_utime + workers.ru_stime
    peak = max(resident(peak=True), 1024 * workers.ru_maxrss) / 2**20
    print(json.dumps([seconds, processor, peak, cells]))


def run(name: str, folder: Path) -> Run:
    """A run of a contender in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.throughput", "--contend", name, "--folder", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=columns.COMPILED)
    return Run(*json.loads(done.stdout.splitlines()[-1]))


class Comparison:
    """Contenders over the same reports, run in turn."""

    def __init__(self, names: tuple[str, ...], users: int, folder: Path, rounds: int) -> None:
        write_inputs(folder, users)
        self.reports = 3 * users
        self.runs: dict[str, list[Run]] = {name: [] for name in names}
        for _ in range(rounds):
            for name, runs in self.runs.items():
                runs.append(run(name, folder))
        if len({one.cells for runs in self.runs.values() for one in runs}) != 1:
            raise SystemExit(f"{', '.join(names)}: their cells differ")

    def times(self, name: str, peer: str, what: str = "seconds") -> float:
        """How many times the seconds of its peer a contender takes, by the clock or of processors."""
        pairs = zip(self.runs[name], self.runs[peer], strict=True)
        return float(statistics.median(getattr(own, what) / getattr(other, what) for own, other in pairs))

    def peak(self, name: str) -> float:
        """The most MB of a contender."""
        return max(one.peak_mb for one in self.runs[name])

    def median(self, name: str, what: str) -> float:
        """The median of the seconds of a contender."""
        return float(statistics.median(getattr(one, what) for one in self.runs[name]))

    def lines(self) -> Iterator[str]:
        """A line of a table for each contender."""
        for name, runs in self.runs.items():
            seconds, processor = self.median(name, "seconds"), self.median(name, "processor")
            numbers = f"{self.reports:,} | {seconds:.2f} | {processor:.2f} | {self.reports / seconds:,.0f}"
            yield f"| {name} | {numbers} | {self.peak(name):,.0f} | {runs[0].cells} |"


def whole_jobs(whole: Comparison, before: str, wanted: float, name: str) -> Row:
    """A row of the time of a whole run beside the bare script."""
    times, processor = (whole.times(name, "bare script", what) for what in ("seconds", "processor"))
    reached = f"{times:.2f} times; of processors {processor:.2f}"
    what = f"whole run, {whole.reports:,} reports of 3 services, {name}"
    return Row(what, "bare script", before, f"at most {wanted:g} times", reached, times <= wanted)


def per_record(sample: Comparison, whole: Comparison, name: str, before: str, wanted: int) -> Row:
    """A row of a per-record pipeline: its time for the same reports, and its rate beside that for many."""
    times = sample.times(name, "ldpbeam")
    rate = sample.median(name, "seconds") / sample.reports * whole.reports
    rate /= whole.median("ldpbeam", "seconds")
    reached = f"{times:.1f} times; by rate at {whole.reports:,} reports {rate:.0f} times"
    what = f"{name}, the same {sample.reports:,} reports, start included"
    return Row(what, "ldpbeam", before, f"{wanted} times", reached, times >= wanted)


def memory(whole: Comparison, before: str) -> Row:
    """A row of the most memory of a run."""
    peak = whole.peak("ldpbeam")
    what = f"memory, {whole.reports:,} reports of 3 services"
    return Row(what, "", before, "below 1,200 MB", f"{peak:,.0f} MB", peak < 1200)


def many_windows(measured: Measured) -> Row:
    """A row computed on the section on scale."""
    one, hours = (batch_run(measured, 1e9, windows=windows).core_hours for windows in (1, 24))
    what = "24 windows in each file, 10^9 users a day (computed)"
    reached = f"{hours / one:.2f} times: {hours:.2f} core-hours"
    return Row(what, "one window", "14.7 times", "within 2 times", reached, hours <= 2 * one)


def flink(parallelism: int, before: str) -> Row:
    """A row of the section on Flink."""
    times = cells_of(SPEED, "beside local", f"Flink, parallelism {parallelism}")[0]
    what = f"Flink, parallelism {parallelism}, two cores"
    return Row(what, "rate of a local run", before, "0.8 times", f"{times} times", float(times) >= 0.8)


def stream(measured: Measured) -> Row:
    """A row of the section on Kafka: the most that a stream takes up, beside the decoder alone."""
    rate = float(cells_of(SPEED, "reports a second", "prism")[-1].replace(",", ""))
    times = rate * measured.taken / 1e6
    what = "stream of Kafka on Prism, 1,000 reports in a message, at most"
    reached = f"{times:.2f} times: {rate:,.0f} reports a second"
    return Row(what, "rate of the decoder", "not known", "0.5 times", reached, times >= 0.5)


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


def page(users: int, sample: int, large: int, folder: Path) -> Iterator[str]:
    """The page, after everything is measured."""
    peers = "per record", "per record, no windows"
    measured = measured_in(SPEED.read_text(encoding="utf-8"))
    whole = Comparison(("ldpbeam", "bare script"), users, folder / "whole", ROUNDS)
    few = Comparison(("ldpbeam", *peers), sample, folder / "sample", ROUNDS)
    rows = [
        whole_jobs(whole, "1.27 to 1.87 times", 1.1, "ldpbeam"),
        memory(whole, "875 MB"),
        per_record(few, whole, peers[0], "27 times", 40),
        per_record(few, whole, peers[1], "5.5 times", 8),
        many_windows(measured),
        flink(1, "0.51 times"),
        flink(2, "0.47 times"),
        stream(measured),
        solves(),
    ]
    comparisons = [whole, few]
    if large:
        names = "ldpbeam", "ldpbeam, two workers", "bare script"
        many = Comparison(names, large, folder / "large", ROUNDS)
        rows += [whole_jobs(many, "", 0.7, name) for name in names[:2]]
        rows.append(memory(many, "5,416 MB"))
        comparisons.append(many)
    rows.sort(key=lambda row: row.met)
    yield PAGE.format(
        about=" ".join((__doc__ or "").split("\n\n")[2].split()),
        rounds=ROUNDS,
        reports=REPORTS,
        rows="\n".join(f"| {' | '.join(row[:-1])} |" for row in rows),
        runs="\n".join(line for comparison in comparisons for line in comparison.lines()),
        columns="\n".join(columns.page(REPORTS)),
    ).rstrip()


def main() -> None:
    """Measure, or be measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=50_000)
    parser.add_argument("--large", action="store_true", help="10,000,000 users too")
    parser.add_argument("--write", type=Path, help="write the page here too")
    parser.add_argument("--contend", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contend:
        contend(options.contend, options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        large = 10_000_000 if options.large else 0
        renew(page(options.users, options.sample, large, Path(folder)), options.write)


if __name__ == "__main__":
    main()

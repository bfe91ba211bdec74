"""A run of two windows, 100 groups and 3 estimates: computed by one process, and by one per core.

The whole of `compute_all` is timed: the estimates that the first process computes before the others start,
their start, and the statistics and estimates that are sent. Beside it stand processes that exchange nothing,
each with the same estimates: about what the machine can give.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier

import numpy as np

from benchmarks.solvers.measure import REPEATS, table
from ldpbeam import tally
from ldpbeam.answers.solve import solve
from ldpbeam.pipelines.estimates.processes import compute_all
from ldpbeam.processes import cores
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers

WINDOWS, GROUPS = 2, 100
TITLE = f"Processes: {WINDOWS} windows x {GROUPS} groups x 3 estimates"
#: The users of each window and group, all at both services.
USERS = 200
HOUR = 3_600_000
STUDY = parse_study("""\
study: processes
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 256
    services: {a: {mechanism: piecewise, epsilon: 1.0}, b: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {both: {estimator: ule}, stacked: {estimator: ems}, one: {estimator: ems, services: [a]}}
windows: {size: 1h}
groups: {field: region, at_most: 100}
""")


def snapshots() -> Iterator[Snapshot]:
    """The statistics of all windows and groups."""
    attribute, rng = STUDY.attribute("x"), np.random.default_rng(1)
    for window in range(WINDOWS):
        for group in range(GROUPS):
            values = rng.beta(2 + group % 5, 5, USERS)
            answers = [
                Answers(place, np.arange(USERS), version.mechanism.perturb(values, rng))
                for place, version in enumerate(attribute.versions)
            ]
            statistic = tally(attribute, USERS, answers)
            yield Snapshot("x", (window * HOUR, (window + 1) * HOUR), str(group), 0, statistic)


def timed(given: list[Snapshot], processes: int) -> tuple[float, float, list[EstimateRecord]]:
    """Seconds, seconds of CPU of this process and those it started, and the estimates."""
    start, before = time.monotonic(), _cpu()
    found = compute_all(STUDY, given, lambda: 3 * len(given), processes)
    return time.monotonic() - start, _cpu() - before, found


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


#: The snapshots that processes solve which exchange nothing.
ALONE = 25

_together: Barrier


def _wait_for(barrier: Barrier) -> None:
    global _together
    _together = barrier


def _alone(_: int) -> float:
    given = list(itertools.islice(snapshots(), ALONE))
    _together.wait()
    start = time.monotonic()
    for snapshot in given:
        solve(STUDY, snapshot)
    return time.monotonic() - start


def seconds_alone(processes: int) -> float:
    """The seconds of the slowest of some processes that each solve the same snapshots at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    with ProcessPoolExecutor(processes, context, _wait_for, (barrier,)) as pool:
        return max(pool.map(_alone, range(processes)))


def section() -> list[str]:
    """Seconds and seconds of CPU of both, and the medians of their ratios over pairs."""
    given, many = list(snapshots()), cores()
    rows, ratios, costs, most, equal = [], [], [], [], True
    for pair in range(REPEATS):
        one, one_cpu, here = timed(given, 1)
        other, other_cpu, there = timed(given, many)
        equal &= here == there
        ratios.append(one / other)
        costs.append(other_cpu / one_cpu)
        most.append(many * seconds_alone(1) / seconds_alone(many))
        row = [pair + 1, f"{one:.1f}", f"{one_cpu:.1f}", f"{other:.1f}", f"{other_cpu:.1f}"]
        rows.append([*row, f"{ratios[-1]:.2f}", f"{most[-1]:.2f}", f"{os.getloadavg()[0]:.1f}"])
    header = ["pair", "one: s", "CPU s", f"{many}: s", "CPU s", "times faster", "alone", "load"]
    notes = [
        f"{WINDOWS} windows of {GROUPS} groups, {USERS:,} users at two joined services, 256 buckets: `ule`,",
        "`ems` of both services and `ems` of one. The target on two cores is 1.8 times; here it is",
        f"{statistics.median(ratios):.2f} times with {many} processes, which use",
        f"{statistics.median(costs):.2f} times the CPU of one. The estimates are",
        "the same to the last bit." if equal else "NOT THE SAME.",
        f"{many} processes that exchange nothing, each with the estimates of {ALONE} groups, do",
        f"{statistics.median(most):.2f} times the work of one in the same time.",
        "Times are of the clock, so this section needs a machine that does nothing else; the load is that of",
        "the last minute.",
        "",
    ]
    return [*notes, *table(header, rows)]

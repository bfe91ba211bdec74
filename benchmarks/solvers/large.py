"""ULE of one and of ten million users: time and memory to the fixed point."""

from __future__ import annotations

import multiprocessing
import re
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.solvers.measure import REPEATS, pairs, table
from ldpbeam.estimators import estimate
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, Statistic, merge, tally

TITLE = "ULE of one and of ten million users"
MILLION = 1_000_000
ATTRIBUTE = parse_study("""\
study: large
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 1024
    services:
      a: {mechanism: stochastic_rounding, epsilon: 0.3}
      b: {mechanism: piecewise, epsilon: 0.3}
      c: {mechanism: square_wave, epsilon: 0.3}
    estimates: {joined: {estimator: ule}}
""").attribute("x")


def told(seed: int) -> Statistic:
    """The statistic of a million users of Beta(2, 5) who told three services."""
    rng = np.random.default_rng(seed)
    values = rng.beta(2, 5, MILLION)
    answers = [
        Answers(i, np.arange(MILLION), version.mechanism.perturb(values, rng))
        for i, version in enumerate(ATTRIBUTE.versions)
    ]
    return tally(ATTRIBUTE, MILLION, answers)


def solve(statistic: Statistic) -> tuple[int, bool]:
    """To the fixed point; gives the number of evaluations and whether it was reached."""
    found = estimate("ule", ATTRIBUTE, statistic, options={"accelerated": True})
    return len(found.log_likelihoods), found.converged


def _most_memory() -> float:
    """The most memory that this process has held, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def memory(statistic: Statistic) -> tuple[float, float]:
    """The most memory of this process after a solve, and before it, in MB."""
    before = _most_memory()
    solve(statistic)
    return _most_memory(), before


def memory_of_a_process(statistic: Statistic) -> tuple[float, float]:
    """As :func:`memory`, of a new process that does nothing else."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
        return alone.submit(memory, statistic).result()


def section() -> list[str]:
    """Seconds, evaluations and memory of both, and the ratio of the seconds."""
    parts = [told(seed) for seed in range(10)]
    small, large = parts[0], merge(parts)
    measured = pairs(lambda: solve(large), lambda: solve(small))
    rows = []
    for users, statistic, took in [
        (MILLION, small, [pair[1] for pair in measured]),
        (10 * MILLION, large, [pair[0] for pair in measured]),
    ]:
        evaluations, converged = solve(statistic)
        most, before = memory_of_a_process(statistic)
        rows.append(
            [
                f"{users:,}",
                evaluations,
                converged,
                f"{statistics.median(took):.2f}",
                f"{most:.0f}",
                f"{before:.0f}",
            ]
        )
    header = ["users", "evaluations", "converged", "CPU s", "MB at most", "MB before the solve"]
    ratio = statistics.median(ten / one for ten, one in measured)
    resolution = " x ".join(str(ATTRIBUTE.joint_resolution(index)) for index in range(3))
    notes = [
        "SR, PM and SW at epsilon 0.3, 1,024 value buckets, Beta(2, 5), the default joint histogram of",
        f"{resolution} report buckets. CPU seconds of all threads, the median of {REPEATS}; memory is of a",
        "process that only solves. The targets are 2 s for a million users, 1.5 times as much for ten",
        "millions, and 500 MB.",
        "",
    ]
    return [*notes, *table(header, rows), "", f"Ten millions take {ratio:.2f} times the CPU time of one."]

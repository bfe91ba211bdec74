"""Windows that differ from those before: how often one is said to and none does, and how soon one is seen.

    python -m benchmarks.alarms [--series 2000] [--write docs/measured]

A series is of hours with a season of hours and weekdays of many standard errors, and standard errors of their
own at night. Means are drawn as normal, and judged by the functions that judge records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from benchmarks.pages import Table, show_series, table
from ldpbeam.answers.alarms import FEWEST, LIMITS, SETTLED, WEEKS, added, scale_of, spread_after
from ldpbeam.domains import Integers

WEEK, YEAR, CHUNK = 168, 8_760, 250
#: How much people vary from week to week beyond the noise of their reports, in standard errors.
BEYOND = (0.0, 0.7)
JUMPS = (1.0, 2.0, 4.0)
COLUMNS = ("people vary", "clean series with an alarm", "jump", "median delay, hours", "90% within, hours")


def first_alarms(series: int, hours: int, beyond: float, jump: float, at: int, seed: int) -> Integers:
    """The first hour of each series that is said to differ; -1 for none."""
    rng = np.random.default_rng(seed)
    hour = np.arange(hours)
    season = 30.0 * np.sin(hour % 24 / 24 * 2.0 * math.pi) + 20.0 * (hour % WEEK // 24 >= 5)
    errors = rng.uniform(0.7, 1.4, (series, 1)) * np.where(hour % 24 < 6, 2.0, 1.0)
    moved = math.sqrt(1.0 + beyond**2) * rng.standard_normal((series, hours)) + jump * (hour >= at)
    values = season + errors * moved
    sums, spread, first = np.zeros((series, 2, 2)), np.ones(series), np.full(series, -1)
    for windows, now in enumerate(range(FEWEST * WEEK, hours)):
        past = [now - k * WEEK for k in range(1, WEEKS + 1) if now >= k * WEEK]
        of_median = math.pi / 2 / len(past) * (errors[:, past] ** 2).mean(axis=1)
        apart = values[:, now] - np.median(values[:, past], axis=1)
        distances = apart / np.sqrt(errors[:, now] ** 2 + of_median)
        if windows >= SETTLED:
            sums = added(sums, distances / scale_of(spread, windows), LIMITS)
            first[(first < 0) & (sums > LIMITS).any(axis=(1, 2))] = now
        spread = spread_after(spread, windows, distances[:, None])
    return first


def tables(series: int) -> Iterator[Table]:
    """The table."""
    rows = list[list[str]]()
    at = 12 * WEEK + 40
    for beyond in BEYOND:
        starts = range(0, series, CHUNK)
        clean = [first_alarms(CHUNK, FEWEST * WEEK + YEAR, beyond, 0.0, 0, seed) for seed in starts]
        false = float((np.concatenate(clean) >= 0).mean())
        for jump in JUMPS:
            first = first_alarms(series // 4, at + 500, beyond, jump, at, 9)
            delays = np.where(first < 0, 500, first - at + 1)[(first < 0) | (first >= at)]
            median, most = np.quantile(delays, (0.5, 0.9))
            rows.append([f"{beyond:g}", f"{false:.2%}", f"{jump:g}", f"{median:.0f}", f"{most:.0f}"])
    yield table("alarms", COLUMNS, rows)


if __name__ == "__main__":
    show_series(tables, __doc__)

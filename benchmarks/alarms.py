"""Windows that differ from those before: how often one is said to and none does, and how soon one is seen.

    python -m benchmarks.alarms [--series 500] [--write docs/measured]

A series is a year of hours with a season of hours and weekdays by the clocks of Berlin, which change twice.
Its standard errors are greater at night. Its means are judged by the functions that judge records.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from benchmarks.pages import Table, show_series, table
from ldpbeam.answers.alarms import (
    CUT,
    FEWEST,
    HOUR,
    LIMITS,
    SETTLED,
    WEEKS,
    added,
    averaged,
    scale_of,
    season_before,
    spread_after,
)
from ldpbeam.cells import MONDAY, clock_of
from ldpbeam.domains import Floats, Integers
from ldpbeam.times import milliseconds

WEEK, YEAR, START = 168, 8_760, milliseconds("2026-01-05T00:00:00Z")
CLOCK = clock_of("Europe/Berlin")
#: How people vary beyond the noise of their reports: the standard deviations of a day, of a single hour, and
#: of what stays from hour to hour with a correlation, all in standard errors; the freedom of Student's t; and
#: a trend of so many standard errors a week.
PEOPLE: dict[str, dict[str, float]] = {
    "not beyond noise": {},
    "hours, 0.7": {"hour": 0.7},
    "days, 0.3": {"day": 0.3},
    "days, 0.7": {"day": 0.7},
    "correlation 0.3": {"correlation": 0.3, "lasting": 4 / 3},
    "correlation 0.7": {"correlation": 0.7, "lasting": 4 / 3},
    "t of 5 degrees": {"freedom": 5},
    "trend, 0.1 a week": {"trend": 0.1},
}
JUMPS = (1.0, 2.0, 3.0)
#: A jump that is not seen in so many hours is not seen.
PATIENCE = 500
COLUMNS = ("people vary", "clean years with an alarm", "jump", "median delay, hours", "90% within, hours")


def moves(
    rng: np.random.Generator,
    shape: tuple[int, int],
    *,
    hour: float = 0.0,
    day: float = 0.0,
    correlation: float = 0.0,
    lasting: float = 0.0,
    freedom: float = 0.0,
    trend: float = 0.0,
) -> Floats:
    """How far each mean is from its season, in standard errors, shape (series, hours)."""
    series, hours = shape
    noise = rng.standard_t(freedom, shape) if freedom else rng.standard_normal(shape)
    moved = np.hypot(1.0, hour) * noise + trend * np.arange(hours) / WEEK
    moved += np.repeat(day * rng.standard_normal((series, hours // 24 + 1)), 24, axis=1)[:, :hours]
    stays = rng.standard_normal(series)
    for now in range(hours if lasting else 0):
        stays = correlation * stays + math.sqrt(1.0 - correlation**2) * rng.standard_normal(series)
        moved[:, now] += lasting * stays
    return np.asarray(moved)


@functools.cache
def same_hours(now: int) -> list[int]:
    """The same hour of earlier weeks, as the number of the hour."""
    seasons = (k * WEEK * HOUR for k in range(1, WEEKS + 1))
    earlier = (season_before(START + now * HOUR, season, HOUR, CLOCK) for season in seasons)
    return [(start - START) // HOUR for start in earlier if start >= START]


def first_alarms(series: int, hours: int, people: dict[str, float], jump: float, at: int) -> Integers:
    """The first hour of each series that is said to differ; -1 for none."""
    rng = np.random.default_rng(9)
    starts = START + HOUR * np.arange(hours)
    hour = (CLOCK.shows(starts) - MONDAY) // HOUR
    season = 30.0 * np.sin(hour % 24 / 24 * 2.0 * math.pi) + 20.0 * (hour % WEEK // 24 >= 5)
    errors = rng.uniform(0.7, 1.4, (series, 1)) * np.where(hour % 24 < 6, 2.0, 1.0)
    values = season + errors * (moves(rng, (series, hours), **people) + jump * (np.arange(hours) >= at))
    sums, spread, first = np.zeros((series, 2, 2)), np.ones(series), np.full(series, -1)
    averages = np.zeros(series)
    for windows, now in enumerate(range(FEWEST * WEEK + 1, hours)):
        past = same_hours(now)
        of_median = math.pi / 2 / len(past) * (errors[:, past] ** 2).mean(axis=1)
        apart = values[:, now] - np.median(values[:, past], axis=1)
        scale = scale_of(spread, windows)
        cut = np.clip(apart / np.sqrt(errors[:, now] ** 2 + of_median) / scale, -CUT, CUT)
        if windows >= SETTLED:
            sums = added(sums, cut, LIMITS)
            first[(first < 0) & (sums > LIMITS).any(axis=(1, 2))] = now
        averages = averaged(averages, scale * cut)
        spread = spread_after(spread, windows, averages[:, None])
    return first


def tables(series: int) -> Iterator[Table]:
    """The table."""
    rows = list[list[str]]()
    at = 12 * WEEK + 40
    for name, people in PEOPLE.items():
        clean = float((first_alarms(series, FEWEST * WEEK + YEAR, people, 0.0, 0) >= 0).mean())
        for jump in JUMPS:
            first = first_alarms(series // 2, at + PATIENCE, people, jump, at)
            delays = np.where(first < 0, math.inf, first - at + 1.0)[(first < 0) | (first >= at)]
            late = f"over {PATIENCE}"
            median, most = (
                f"{delay:.0f}" if math.isfinite(delay) else late
                for delay in np.quantile(delays, (0.5, 0.9), method="higher").tolist()
            )
            rows.append([name, f"{clean:.2%}", f"{jump:g}", median, most])
    yield table("alarms", COLUMNS, rows)


if __name__ == "__main__":
    show_series(tables, __doc__)

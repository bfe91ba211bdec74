"""Whether a window differs from those before it: the same hour or weekday of earlier weeks, and all since.

A number of a window is compared with the median of the same window in up to eight earlier weeks, so patterns
of hours and weekdays are no difference. The distance, in standard errors of both, is added up over windows in
cumulative sums (Page, Biometrika 41, 1954): one for small changes that last, and one for large ones. A window
differs while a sum is above its limit. The limits are such that of a hundred series of hours whose people
stay alike, at most two have any such window in a year (``docs/measured.md#alarms``).

Hours of one day may have more in common than their weekday: weather, a holiday. Sums of such distances vary
more than sums of independent ones, so all are divided by how much their averages over a day or so did vary.

The sums stand in the record of each window, so a process that starts again reads them there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.answers.named_numbers import numbers_of
from ldpbeam.cells import Clock
from ldpbeam.domains import Floats
from ldpbeam.schemas.outputs.records import AlarmRecord, EstimateRecord

HOUR = 3_600_000
DAY, WEEK = 24 * HOUR, 7 * 24 * HOUR
#: A window is compared with up to WEEKS earlier weeks, and with at least FEWEST.
WEEKS, FEWEST = 8, 3
#: What is subtracted from a distance before it is added to a sum, and the limits of the sums.
SLACK, LIMITS = np.array([0.3, 1.25]), np.array([21.0, 6.4])
#: The weight of a window in the average of distances. The spread is the mean square of the averages of the
#: last REMEMBERED windows; each counts up to FAR times its root, so that a change does not hide itself. A
#: distance counts up to CUT, so that a single one is no change. Until SETTLED windows were seen, none
#: differs.
WEIGHT, REMEMBERED, FAR, CUT, SETTLED = 1 / 18, 1_500, 3.0, 4.0, 60
#: How many windows back the previous one is searched.
BACK = 24
#: Records with more shares are not judged, because each has sums of its own.
MOST = 32
#: The estimate with the same attribute, name and group whose window starts at a time; None if there is none.
Before = Callable[[EstimateRecord, int], EstimateRecord | None]


def judged(record: EstimateRecord, before: Before, clock: Clock | None) -> EstimateRecord:
    """The estimate of a closed window with its alarm; without one if too few weeks are known.

    Args:
        record: the estimate.
        before: earlier estimates that are judged.
        clock: whose hours and weekdays have seasons; None for UTC.
    """
    numbers = _numbers(record)
    if numbers is None or record.window is None or record.pane_timing == "early":
        return record
    names, values, errors = numbers
    start, end = record.window
    size = end - start if end - start < DAY - HOUR else DAY * round((end - start) / DAY)
    season = math.lcm(size, WEEK)
    past = [
        _numbers(_near(record, before, season_before(start, k * season, size, clock), size))
        for k in range(1, WEEKS + 1)
    ]
    alike = [(value, error) for known in past if known and known[0] == names for value, error in [known[1:]]]
    if len(alike) < FEWEST:
        return record
    expected = np.median([value for value, _ in alike], axis=0)
    # The median of n normal numbers has at most pi/2 times the variance of their mean.
    of_median = math.pi / 2 / len(alike) * np.mean([error**2 for _, error in alike], axis=0)
    distances = (values - expected) / np.sqrt(errors**2 + of_median)
    last = next(
        (
            known.alarm
            for k in range(1, BACK + 1)
            if (known := _near(record, before, start - k * size, size)) is not None and known.alarm
        ),
        None,
    )
    if last is None or len(last.sums) != 5 * len(names):
        last = AlarmRecord(False, "", 0.0, 0, 1.0, (0.0,) * (5 * len(names)))
    return replace(record, alarm=_alarm(names, distances, expected, last))


def _alarm(names: Sequence[str], distances: Floats, expected: Floats, last: AlarmRecord) -> AlarmRecord:
    state = np.asarray(last.sums).reshape(len(names), 5)
    sums, limits = state[:, :4].reshape(-1, 2, 2), LIMITS + math.log(len(names)) / (2.0 * SLACK)
    scale = scale_of(last.spread, last.windows)
    cut = np.clip(distances / scale, -CUT, CUT)
    if last.windows >= SETTLED:
        sums = added(sums, cut, limits)
    averages = averaged(state[:, 4], scale * cut)
    above = (sums / limits).max(axis=(1, 2))
    worst = int(above.argmax())
    return AlarmRecord(
        bool(above[worst] > 1.0),
        names[worst],
        float(expected[worst]),
        last.windows + 1,
        float(spread_after(last.spread, last.windows, averages)),
        tuple(np.column_stack((sums.reshape(-1, 4), averages)).ravel().tolist()),
    )


def added(sums: Floats, distances: Floats, limits: Floats) -> Floats:
    """The sums after one more window; they stop at twice their limits, so that a change can end.

    Args:
        sums: shape (..., 2, 2): upwards and downwards, for small and for large changes.
        distances: of the window from those before, in standard errors, shape (...).
        limits: shape (2,).
    """
    both = np.stack((distances, -distances), axis=-1)[..., None]
    return np.asarray(np.clip(sums + both - SLACK, 0.0, 2.0 * limits))


def scale_of(spread: ArrayLike, windows: int) -> Floats:
    """What distances are divided by: 1 for noise alone, and else with room for the error of the spread."""
    room = 1.0 + 1.5 * math.sqrt(2.0 / (WEIGHT * max(1, min(windows, REMEMBERED))))
    return np.sqrt(np.maximum(1.0, np.asarray(spread) * room))


def averaged(averages: Floats, distances: Floats) -> Floats:
    """The average of the distances of each number after one more window, which weighs less with each."""
    return averages + WEIGHT * (distances - averages)


def spread_after(spread: ArrayLike, windows: int, averages: Floats) -> Floats:
    """The mean square of averages, shape (..., numbers), after one more window; 1 is that of noise alone."""
    spreads = np.asarray(spread)
    far = FAR**2 * np.maximum(spreads, 1.0)
    squares = averages**2 * ((2.0 - WEIGHT) / WEIGHT)
    square = np.minimum(squares, far[..., None]).mean(axis=-1)
    return np.asarray(spreads + (square - spreads) / min(windows + 1, REMEMBERED))


def in_order(
    records: Iterable[EstimateRecord],
    *,
    slides: bool,
    earlier: Before | None = None,
    clock: Clock | None = None,
) -> list[EstimateRecord]:
    """Estimates with their alarms, in the order in which they are given.

    Args:
        records: the estimates of a run.
        slides: whether windows overlap; these have noise in common, and are not judged.
        earlier: further estimates, of earlier runs.
        clock: whose hours and weekdays have seasons; None for UTC.
    """
    given = list(records)
    if slides:
        return given
    judged_records: dict[tuple[tuple[object, ...], int], EstimateRecord] = {}

    def before(record: EstimateRecord, start: int) -> EstimateRecord | None:
        return judged_records.get((series_of(record), start)) or (earlier and earlier(record, start))

    order = sorted(range(len(given)), key=lambda index: given[index].window or (0, 0))
    for index in order:
        record = judged(given[index], before, clock)
        given[index] = record
        if record.window is not None:
            judged_records[series_of(record), record.window[0]] = record
    return given


def series_of(record: EstimateRecord) -> tuple[object, ...]:
    """What the estimates have in common that are compared with each other, one for each window."""
    return record.attribute, record.name, record.group, record.other_groups > 0, record.joined


def season_before(start: int, season: int, size: int, clock: Clock | None) -> int:
    """The start of the window that is a season earlier by a clock, in whole windows."""
    plain = start - season
    if clock is None:
        return plain
    meant = clock.first(clock.shows(np.array([start])) - season)
    return plain + round((int(meant[0]) - plain) / size) * size


def _near(record: EstimateRecord, before: Before, start: int, size: int) -> EstimateRecord | None:
    """The closed window from a time on; local days and weeks start up to an hour earlier or later."""
    for shift in (0, HOUR, -HOUR) if size >= DAY else (0,):
        earlier = before(record, start + shift)
        if earlier is not None and earlier.pane_timing != "early":
            return earlier
    return None


def _numbers(record: EstimateRecord | None) -> tuple[tuple[str, ...], Floats, Floats] | None:
    """The names, values and standard errors of the numbers that are judged; None if there are none."""
    parts = (
        [] if record is None else [part for part in numbers_of(record) if part.family in ("means", "shares")]
    )
    names = tuple(name for part in parts for name in part.names)
    errors = np.concatenate([part.errors for part in parts]) if parts else np.zeros(0)
    if not 0 < len(names) <= MOST or not (np.isfinite(errors) & (errors > 0.0)).all():
        return None
    return names, np.concatenate([part.values for part in parts]), errors

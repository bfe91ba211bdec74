"""A caller's times as epoch milliseconds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.cells import Clock, moment
from ldpbeam.clients.arrays import array_of
from ldpbeam.schemas.reports import event_times
from ldpbeam.schemas.reports.casts import cast_column
from ldpbeam.windows import FAR

#: The allowed forms of times, and how to add a zone to others.
WRITE = (
    "give times with a zone (in pandas .dt.tz_localize('UTC'), in polars .dt.replace_time_zone('UTC'), if "
    "they are in UTC), RFC 3339 text such as 2026-11-20T10:00:00Z, or milliseconds since 1970"
)


def milliseconds_of(time: datetime | str | int, name: str) -> int:
    """The epoch milliseconds of one time.

    Raises:
        ValueError: if it has no zone, or is no plausible time; the message calls it ``name``.
    """
    try:
        given: Any = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        given = None
    if isinstance(given, datetime | np.datetime64) and getattr(given, "tzinfo", None) is None:
        raise ValueError(f"{name}={time!r} has no zone: {WRITE}")
    if isinstance(given, datetime):
        given = (given - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    # In Python a truth value is an integer, and NaN compares as False with every bound.
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer) or not -FAR < given < FAR:
        raise ValueError(f"{name}={time!r} is no time: {WRITE}")
    milliseconds = int(given // 1)
    problem = int(event_times.problems(np.array([milliseconds]))[0])
    if problem > event_times.BEFORE_1990:
        raise ValueError(f"{name}={time!r}: {event_times.PROBLEMS[problem - 1][1]}")
    return milliseconds


def window_time(time: datetime | str | int, name: str, clock: Clock | None) -> int:
    """The epoch milliseconds of a time at which windows begin or end; a text may be a date, or a clock's.

    Raises:
        ValueError: as :func:`milliseconds_of`.
    """
    if isinstance(time, str):
        with contextlib.suppress(ValueError):
            time = moment(time, clock)
    return milliseconds_of(time, name)


def event_times_of(times: Any, rows: int) -> NDArray[np.int64]:
    """Event times in epoch milliseconds, shape (rows,); one time stands for all rows.

    Args:
        times: one time, or an array, a series or a list of times: with a zone, RFC 3339 text, or
            milliseconds.
        rows: the required number of times.

    Raises:
        ValueError: if there are not this many, or one is no plausible time.
    """
    if isinstance(times, datetime | str) or not isinstance(times, Iterable):
        return np.repeat(_checked(np.array([milliseconds_of(times, "event_time")]), [times]), rows)
    given = array_of(times)
    if given is None:
        raise ValueError(f"event_times are not times of one type: {WRITE}")
    column = cast_column("event_time", given)
    if len(column) != rows:
        raise ValueError(f"{len(column):,} event times for {rows:,} values: give one each, or one for all")
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ValueError(f"event time {row} is {_shown(times, row)}: {WRITE}")
    return _checked(column.to_numpy(), times)


def _checked(milliseconds: NDArray[np.int64], times: Iterable[Any]) -> NDArray[np.int64]:
    """The epoch milliseconds of some times, all plausible.

    Raises:
        ValueError: for the first that is not.
    """
    problems = event_times.problems(milliseconds)
    if problems.any():
        row = int(np.argmax(problems > 0))
        problem = event_times.PROBLEMS[problems[row] - 1][1]
        raise ValueError(f"event time {row} is {_shown(times, row)}: {problem}")
    return milliseconds


def _shown(times: Iterable[Any], row: int) -> str:
    return repr(next(islice(times, row, None)))

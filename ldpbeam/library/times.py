"""Times that a caller gives, as epoch milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.reports import event_times
from ldpbeam.schemas.reports.casts import cast_column

#: What times may be, and how others get a zone.
WRITE = (
    "give times with a zone (in pandas .dt.tz_localize('UTC'), in polars .dt.replace_time_zone('UTC'), if "
    "they are in UTC), RFC 3339 text such as 2026-11-20T10:00:00Z, or milliseconds since 1970"
)


def milliseconds_of(time: datetime | str | int, name: str) -> int:
    """The epoch milliseconds of one time.

    Raises:
        ValueError: if it has no zone, or is no time; ``name`` is what the message calls it.
    """
    given = datetime.fromisoformat(time) if isinstance(time, str) else time
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError(f"{name}={time!r} has no zone: {WRITE}")
        return (given - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return int(given)


def event_times_of(times: Any, rows: int) -> NDArray[np.int64]:
    """Event times in epoch milliseconds, shape (rows,); one time stands for all rows.

    Args:
        times: one time, or an array, a series or a list of times: with a zone, RFC 3339 text, or
            milliseconds.
        rows: how many there must be.

    Raises:
        ValueError: if there are not this many, or one is no plausible time.
    """
    if isinstance(times, datetime | str | int):
        return np.full(rows, milliseconds_of(times, "event_time"), dtype=np.int64)
    given = pa.array(times) if not isinstance(times, pa.Array | pa.ChunkedArray) else times
    column = cast_column("event_time", given)
    if len(column) != rows:
        raise ValueError(f"{len(column):,} event times for {rows:,} values: give one each, or one for all")
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ValueError(f"event time {row} is {_shown(times, row)}: {WRITE}")
    milliseconds: NDArray[np.int64] = column.to_numpy()
    problems = event_times.problems(milliseconds)
    if problems.any():
        row = int(np.argmax(problems > 0))
        problem = event_times.PROBLEMS[problems[row] - 1][1]
        raise ValueError(f"event time {row} is {_shown(times, row)}: {problem}")
    return milliseconds


def _shown(times: Sequence[Any], row: int) -> str:
    return repr(times[row])

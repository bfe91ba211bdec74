"""Conversion of times and durations between epoch milliseconds and text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

#: The milliseconds of each unit of a duration.
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
#: The milliseconds of the mean month. A length that is a multiple of it means months of the calendar.
MONTH = 2_629_746_000
#: The named lengths of the calendar.
CALENDAR = {"month": MONTH, "quarter": 3 * MONTH, "year": 12 * MONTH}


def months_in(length: int) -> int:
    """The number of calendar months of a length; 0 if it is a length in milliseconds or days."""
    return 0 if length % MONTH else length // MONTH


def format_duration(milliseconds: int) -> str:
    """A duration in milliseconds as text for study files, in the largest unit that divides it."""
    if milliseconds == 0:
        return "0s"
    for name, length in CALENDAR.items():
        if milliseconds == length:
            return name
    for unit, size in sorted(UNITS.items(), key=lambda pair: -pair[1]):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    raise AssertionError("every whole number of milliseconds has a unit")


def rfc3339(time: int) -> str:
    """A time in epoch milliseconds as RFC 3339 text in UTC, with milliseconds only if they are not zero."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)
    timespec = "milliseconds" if time % 1000 else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def window_fields(window: tuple[int, int] | None) -> dict[str, Any]:
    """A window in epoch milliseconds as the fields ``window_start`` and ``window_end``, in RFC 3339."""
    start, end = (None, None) if window is None else map(rfc3339, window)
    return {"window_start": start, "window_end": end}


def milliseconds(text: str) -> int:
    """The epoch milliseconds of a time with a zone; the inverse of :func:`rfc3339`.

    Raises:
        ValueError: if the text is not an ISO 8601 time.
    """
    elapsed = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return elapsed // timedelta(milliseconds=1)

"""Times and durations as people write them, and as epoch milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WRITE_DURATION = "write a whole number and a unit: ms, s, m, h, d or w, as in 90s or 1h"
_LONGEST = 365_000 * _UNITS["d"]
_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d|w)\s*")


def _milliseconds(value: object) -> object:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise ValueError(_WRITE_DURATION)
        milliseconds = int(match[1]) * _UNITS[match[2]]
        if milliseconds > _LONGEST:
            raise ValueError(f"the longest duration is {format_duration(_LONGEST)}")
        return milliseconds
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"add a unit: ms, s, m, h, d or w, as in {value}s")
    raise ValueError(_WRITE_DURATION)


def _epoch(value: object) -> object:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("write a time with its zone, as in 2026-11-20T10:00:00Z")
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    raise ValueError("write a time with its zone, as in 2026-11-20T10:00:00Z")


def format_duration(milliseconds: int) -> str:
    """A duration as study files write it, in the largest unit that divides it."""
    if milliseconds == 0:
        return "0s"
    for unit, size in sorted(_UNITS.items(), key=lambda pair: -pair[1]):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    raise AssertionError("every whole number of milliseconds has a unit")


def rfc3339(time: int) -> str:
    """A time in epoch milliseconds as RFC 3339 text in UTC, with milliseconds only where there are some."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)
    timespec = "milliseconds" if time % 1000 else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def milliseconds(text: str) -> int:
    """The inverse of :func:`rfc3339`."""
    elapsed = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return elapsed // timedelta(milliseconds=1)


Duration = Annotated[
    int,
    BeforeValidator(_milliseconds),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": _DURATION.pattern, "examples": ["1h", "90s"]}),
]
Time = Annotated[
    int,
    BeforeValidator(_epoch),
    PlainSerializer(rfc3339),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]

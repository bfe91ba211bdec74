"""Times and durations as people write them in a study file, for pydantic."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from ldpbeam.times import CALENDAR, UNITS, format_duration, months_in, rfc3339

_WRITE_DURATION = "write a whole number and a unit: ms, s, m, h, d or w, as in 90s or 1h"
_LONGEST = 365_000 * UNITS["d"]
_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d|w)\s*")


def _milliseconds(value: object) -> object:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise ValueError(_WRITE_DURATION)
        milliseconds = int(match[1]) * UNITS[match[2]]
        if milliseconds > _LONGEST:
            raise ValueError(f"the longest duration is {format_duration(_LONGEST)}")
        if milliseconds and months_in(milliseconds):
            raise ValueError("this is the mean length of months: write month, quarter or year")
        return milliseconds
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"add a unit: ms, s, m, h, d or w, as in {value}s")
    raise ValueError(_WRITE_DURATION)


def _length(value: object) -> object:
    if isinstance(value, str) and value.strip() in CALENDAR:
        return CALENDAR[value.strip()]
    if isinstance(value, str) and not value.strip()[:1].isdigit():
        raise ValueError(f"{_WRITE_DURATION}; or month, quarter or year")
    return _milliseconds(value)


def _epoch(value: object) -> object:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("write a time with its zone, as in 2026-11-20T10:00:00Z")
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    raise ValueError("write a time with its zone, as in 2026-11-20T10:00:00Z")


Duration = Annotated[
    int,
    BeforeValidator(_milliseconds),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["1h", "90s"]}),
]
#: A duration, or months of the calendar.
Length = Annotated[
    int,
    BeforeValidator(_length),
    PlainSerializer(format_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^(?:{_DURATION.pattern}|{'|'.join(CALENDAR)})$",
            "examples": ["1h", "1d", "month"],
        }
    ),
]
Time = Annotated[
    int,
    BeforeValidator(_epoch),
    PlainSerializer(rfc3339),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]

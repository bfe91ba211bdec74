"""What the parts of a study file share: names, numbers, durations, times, and how pydantic checks a part."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from ldpbeam.schemas.reports.columns import DELIVERY, NEAR, OURS, PLACE, RECORD
from ldpbeam.times import CALENDAR, UNITS, format_duration, months_in, rfc3339

#: The names of studies, attributes, services, versions and estimates.
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
#: What a group or version field cannot be: user keys, above all, must not become names of groups.
OWN_COLUMNS = frozenset({*OURS, "position", "row", DELIVERY, NEAR, PLACE, RECORD})


def _safe_name(value: str) -> str:
    if not re.fullmatch(NAME, value):
        raise ValueError("names have letters, digits, _ and -, at most 64, and start with a letter or digit")
    return value


def free_field(value: str) -> str:
    """The name of a field of reports that the study may give a meaning.

    Raises:
        ValueError: if it is a column of every report.
    """
    if value in OWN_COLUMNS:
        raise ValueError("this is a column of every report; name another field")
    return value


#: A finite number, and not a word such as yes that YAML takes for one.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Name = Annotated[str, AfterValidator(_safe_name)]

Kind = TypeVar("Kind")
#: A key that came later: where it is not given it is not in the study's fingerprint.
Later = Annotated[Kind | None, Field(exclude_if=lambda value: value is None)]


class Model(BaseModel):
    """A part of a study file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def known_keys(cls) -> set[str]:
        """The keys of this part and of those that derive from it."""
        return set(cls.model_fields).union(*(part.known_keys() for part in cls.__subclasses__()))

    @classmethod
    def having(cls, key: str) -> set[str]:
        """The parts that have a key: of this one and of those that derive from it."""
        name = cls.__name__.removesuffix("Model").lower()
        here = {name} if key in cls.model_fields and not name.startswith("_") else set()
        return here.union(*(part.having(key) for part in cls.__subclasses__()))


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
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError("write a time with its zone, as in 2026-11-20T10:00:00Z")
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


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

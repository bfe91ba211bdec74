"""Columns of records that were decoded one by one: a column may have values of several types."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.cells import Clock
from ldpbeam.schemas.reports.casts import UNREADABLE, cast_column, is_number

#: The columns in which null is refused.
_OTHERS = ("user_id", "report_id", "event_time")
#: The kinds of payloads besides numbers, by the type of a value.
_KINDS: dict[type, int] = {str: 1, bytes: 2}


def by_payload(
    records: Sequence[Mapping[str, object]], field: str = "payload"
) -> Iterator[NDArray[np.int64]]:
    """The indices of the records with payloads of one kind: first all else (numbers), then text, then bytes.

    A file may have reports of several mechanisms, whose payloads do not fit into one column.

    Args:
        records: the records.
        field: the field that has the payload.
    """
    yield from by_kind(_values(records, field))


def by_kind(payloads: Sequence[object]) -> Iterator[NDArray[np.int64]]:
    """As :func:`by_payload`, of the payloads of all records."""
    if _KINDS.keys().isdisjoint(map(type, payloads)):
        kinds = np.zeros(len(payloads), dtype=np.int64)
    else:
        kinds = np.array([_KINDS.get(type(payload), 0) for payload in payloads])
    for kind in range(3):
        chosen = np.flatnonzero(kinds == kind)
        if len(chosen):
            yield chosen


def _values(records: Sequence[Mapping[str, object]], name: str) -> list[object]:
    return [record.get(name) for record in records]


def columns_of(
    records: Sequence[Mapping[str, object]], fields: Mapping[str, str], clock: Clock | None = None
) -> dict[str, pa.Array]:
    """The columns of records by the names of their fields, not yet cast, without those that have no value.

    A column whose values have several types is cast as :func:`cast_column` casts it.

    Args:
        records: the records.
        fields: the field that each column is read from, by the column's name.
        clock: as :func:`cast_column` takes it.
    """
    columns: dict[str, pa.Array] = {}
    for name, field in fields.items():
        column = column_of(name, _values(records, field), clock)
        if column is not None:
            columns[field] = column
    return columns


def column_of(name: str, values: Sequence[object], clock: Clock | None = None) -> pa.Array | None:
    """The column of the values that records have in a field, as :func:`columns_of` makes it."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds & {dict, list}:
        values = without_nested(name, values)
        kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return None
    return (_of_one_type(values) if len(kinds) == 1 else None) or _mixed(name, values, clock)


def without_nested(name: str, values: Sequence[object]) -> list[object]:
    """The values of a column, without lists and records: Arrow needs much memory for deeply nested ones.

    In their place is NaN in payloads and :data:`UNREADABLE` in names, where null would mean a missing one. A
    payload that is a list of whole numbers or texts is a text with commas, in which nulls are empty.
    """
    instead = np.nan if name == "payload" else None if name in _OTHERS else UNREADABLE

    def flat(value: object) -> object:
        if name == "payload" and isinstance(value, list) and {*map(type, value)} <= {int, str, type(None)}:
            return ",".join("" if part is None else str(part) for part in value)
        return instead if isinstance(value, dict | list) else value

    return [flat(value) for value in values]


def _of_one_type(values: Sequence[object]) -> pa.Array | None:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError):
        return None


def _mixed(name: str, values: Sequence[object], clock: Clock | None) -> pa.Array:
    """A column of values of several types: the values of each type are cast as one column."""
    kinds = np.array([type(value).__name__ for value in values])
    every = np.unique(kinds)
    parts, places = [], []
    for kind in every:
        chosen = np.flatnonzero(kinds == kind)
        prepared = [_prepared(name, values[row]) for row in chosen.tolist()]
        part = _of_one_type(prepared)
        if part is None:
            continue
        part = cast_column(name, part, clock)
        if name == "payload" and len(every) > 1 and not pa.types.is_null(part.type):
            # A value that is not a number becomes NaN. It may not become null, which means a missing payload.
            number = is_number(part.type)
            part = pc.cast(part, pa.float64(), safe=False) if number else pa.array([np.nan] * len(part))
        if not pa.types.is_null(part.type):
            parts.append(part)
            places.append(chosen)
    if not parts:
        return pa.nulls(len(values))
    where = np.full(len(values), -1, dtype=np.int64)
    where[np.concatenate(places)] = np.arange(sum(map(len, places)))
    return pa.concat_arrays(parts).take(pa.array(where, mask=where < 0))


def _prepared(name: str, value: object) -> object:
    """A value that Arrow can hold, or None: large integers as text or floats, no text that is not UTF-8.

    In a payload, what is not UTF-8 is a question mark: null would mean a missing one.
    """
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, np.longdouble):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if name == "payload":
            # No infinite number is a report. Null would mean a missing payload.
            return float(value) if abs(value) < 10**300 else math.inf
        if name == "event_time":
            return value if abs(value) < 2**62 else None
        return str(value)
    if isinstance(value, Decimal):
        # Arrow has none that is not finite, and no column for decimals that are very large and very small.
        if name == "payload":
            return float(value) if value.is_finite() else math.nan
        return value if value.is_finite() and abs(value.adjusted()) < 30 else None
    if isinstance(value, str):
        readable = value if value.isascii() else value.encode("utf-8", "replace").decode()
        if name == "payload" or readable == value:
            return readable
        return None if name in _OTHERS else UNREADABLE
    if isinstance(value, uuid.UUID):
        return str(value)
    return value

"""Columns of records that were decoded one by one: a column may have values of several types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.reports.columns import cast_column, is_number

_Record = TypeVar("_Record", bound=Mapping[str, object])
_KINDS = {str: 1, bytes: 2}


def by_payload(
    records: Sequence[_Record], field: str = "payload"
) -> Iterator[tuple[NDArray[np.int64], Sequence[_Record]]]:
    """The records with payloads of one kind and their indices: first all else (numbers), then text, then bytes.

    A file may have reports of several mechanisms, whose payloads do not fit into one column.

    Args:
        records: the records.
        field: the field that has the payload.
    """
    kinds = np.fromiter(map(_KINDS.get, map(type, _values(records, field)), repeat(0)), np.int8, len(records))
    for kind in range(3):
        chosen = np.flatnonzero(kinds == kind)
        if len(chosen):
            every = len(chosen) == len(records)
            yield chosen, records if every else [records[index] for index in chosen.tolist()]


def _values(records: Sequence[Mapping[str, object]], name: str) -> list[object]:
    return [record.get(name) for record in records]


def columns_of(records: Sequence[Mapping[str, object]], fields: Mapping[str, str]) -> dict[str, pa.Array]:
    """The columns of records by the names of their fields, not yet cast, without those that have no value.

    A column whose values have several types is cast as :func:`cast_column` casts it.

    Args:
        records: the records.
        fields: the field that each column is read from, by the column's name.
    """
    columns: dict[str, pa.Array] = {}
    for name, field in fields.items():
        values = _values(records, field)
        kinds = set(map(type, values)) - {type(None)}
        if kinds & {dict, list}:
            # No field has nested values, and Arrow needs much memory for deeply nested ones.
            instead = np.nan if name == "payload" else None
            values = [instead if isinstance(value, dict | list) else value for value in values]
            kinds = set(map(type, values)) - {type(None)}
        if kinds:
            columns[field] = (_of_one_type(values) if len(kinds) == 1 else None) or _mixed(name, values)
    return columns


def _of_one_type(values: Sequence[object]) -> pa.Array | None:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError):
        return None


def _mixed(name: str, values: Sequence[object]) -> pa.Array:
    """A column of values of several types: the values of each type are cast as one column."""
    kinds = np.array([type(value).__name__ for value in values])
    parts, places = [], []
    for kind in np.unique(kinds):
        chosen = np.flatnonzero(kinds == kind)
        prepared = [_prepared(name, values[row]) for row in chosen.tolist()]
        part = _of_one_type(prepared)
        if part is None:
            continue
        part = cast_column(name, part)
        if name == "payload" and not pa.types.is_null(part.type):
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
    """A value that Arrow can hold, or None: large integers as text or floats, no text that is not UTF-8."""
    if isinstance(value, int) and not isinstance(value, bool):
        if name == "payload":
            return float(value) if abs(value) < 10**300 else None
        if name == "event_time":
            return value if abs(value) < 2**62 else None
        return str(value)
    if isinstance(value, str):
        return value if value.isascii() or value == value.encode("utf-8", "replace").decode() else None
    return value

"""Avro records that have the bytes of each value in the same places: NumPy reads these as columns.

User ids are often UUIDs, and times are years from their next digit, so most messages of one record are alike.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.reports.casts import binary_of_width

#: Fewer records are read one by one.
FEWEST = 16
_WIDTHS = {"null": 0, "float": 4, "double": 8}
#: Numbers of more bytes may have more than 64 bits.
_MOST_BYTES = 9


class _Place(NamedTuple):
    """Where the values of a field begin and end in each record, and their type."""

    name: str
    kind: str
    start: int
    end: int


def values_alike(
    fields: Sequence[Any], data: bytes, count: int, wanted: Collection[str]
) -> dict[str, list[Any]] | None:
    """The values of each wanted field, ``count`` of them; None if the records are not alike.

    Args:
        fields: those of the schema of a record, without logical types.
        data: the plain bytes of ``count`` records.
        count: how many records there are.
        wanted: the names of fields.
    """
    if count < FEWEST or len(data) % count:
        return None
    rows = np.frombuffer(data, dtype=np.uint8).reshape(count, -1)
    first = rows[0].tolist()
    places, fixed = list[_Place](), np.zeros(len(first), dtype=np.uint8)
    try:
        for field in fields:
            places.append(_place_of(field, first, places[-1].end if places else 0, fixed))
        if places[-1].end != len(first) or ((rows ^ rows[0]) & fixed).any():
            return None
        return {place.name: _values(place, rows) for place in places if place.name in wanted}
    except (IndexError, KeyError, pa.ArrowInvalid):
        return None


def _place_of(field: Any, first: list[int], start: int, fixed: NDArray[np.uint8]) -> _Place:
    """The place of a field in the first record; the bits that all records must share are set in ``fixed``.

    Raises:
        IndexError: if the first record ends before.
        KeyError: if values of the type are not read here.
    """
    kind = field["type"]
    if isinstance(kind, list):
        fixed[start], branch = 255, first[start]
        kind, start = kind[len(kind) if branch % 2 else branch // 2], start + 1
    size = None
    if isinstance(kind, dict):
        size, kind = kind.get("size"), kind["type"]
    if not isinstance(kind, str):
        raise KeyError("type")
    if kind == "fixed":
        return _Place(field["name"], "bytes", start, start + int(size or 0))
    if kind in _WIDTHS:
        return _Place(field["name"], kind, start, start + _WIDTHS[kind])
    if kind not in ("int", "long", "string", "bytes"):
        raise KeyError(kind)
    end = start + 1
    while first[end - 1] > 127:
        end += 1
    if end - start > _MOST_BYTES:
        raise KeyError(kind)
    if kind in ("int", "long"):
        fixed[start:end] = 128
        return _Place(field["name"], "long", start, end)
    fixed[start:end] = 255
    (length,) = _numbers(np.array([first[start:end]], dtype=np.uint8)).tolist()
    if length < 0:
        raise IndexError(length)
    return _Place(field["name"], kind, end, end + length)


def _values(place: _Place, rows: NDArray[np.uint8]) -> list[Any]:
    """The values of a field in each record.

    Raises:
        pa.ArrowInvalid: if text is not UTF-8.
    """
    if place.kind == "null":
        return [None] * len(rows)
    data = np.ascontiguousarray(rows[:, place.start : place.end])
    if place.kind in _WIDTHS:
        read: list[Any] = data.view(f"<f{_WIDTHS[place.kind]}")[:, 0].tolist()
    elif place.kind == "long":
        read = _numbers(data).tolist()
    else:
        column = binary_of_width(data)
        read = (pc.cast(column, pa.string()) if place.kind == "string" else column).to_pylist()
    return read


def _numbers(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Avro's zigzag integers of as many bytes each, shape (n, bytes)."""
    zigzag = np.zeros(len(data), dtype=np.uint64)
    for place, part in enumerate(data.T):
        zigzag |= (part & np.uint8(127)).astype(np.uint64) << np.uint64(7 * place)
    return (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)

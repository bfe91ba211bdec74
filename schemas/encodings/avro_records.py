"""Avro records of any schema, which fastavro has read, as columns of reports."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.schemas.avro_schemas import PRIMITIVE, fields_of, is_text
from ldpbeam.schemas.reports.columns import RECORD, Columns, decoded
from ldpbeam.schemas.reports.records import by_kind, column_of, without_nested

#: The values of n records in each field that is read, by its name: n values each.
Values = dict[str, list[Any]]


class RecordColumns:
    """The columns of records of one schema.

    Args:
        writer_schema: a record schema.
        wanted: which columns are read.

    Attributes:
        wanted: as given.
        read: (column, field) of the columns that the schema has.
        texts: the fields whose values are texts only. They may be read as their bytes in UTF-8.
    """

    def __init__(self, writer_schema: Any, wanted: Columns) -> None:
        self.wanted = wanted
        self._kinds = fields_of(writer_schema)
        self.read = {name: field for name, field in wanted.fields.items() if field in self._kinds}
        self.texts = {field for field in self.read.values() if is_text(self._kinds[field])}
        self._nested = [name for name, field in self.read.items() if _may_be_nested(self._kinds[field])]

    def values_of(self, records: Sequence[Mapping[str, Any]]) -> Values:
        """The values of records as fastavro reads them without logical types, without nested ones."""
        values: Values = {field: [record[field] for record in records] for field in self.read.values()}
        for name in self._nested:
            values[self.read[name]] = without_nested(name, values[self.read[name]])
        if self.wanted.whole:
            values[RECORD] = [record[RECORD] for record in records]
        return values

    def batches(
        self,
        values: Values,
        metadata: Mapping[str, str],
        positions: np.ndarray,
        rows: np.ndarray,
    ) -> list[pa.RecordBatch]:
        """Decoded batches of n records, one batch for each kind of payload.

        Args:
            values: of the records, as :meth:`values_of` has them.
            metadata: the metadata of their file.
            positions: the column ``position``, shape (n,).
            rows: the column ``row``, shape (n,).
        """
        batches = []
        payloads = values.get(self.read.get("payload", ""), [None] * len(rows))
        for chosen in by_kind(payloads):
            columns = {}
            for name, field in self.read.items():
                column = self._column(name, field, _chosen(values[field], chosen))
                if column is not None:
                    columns[field] = column
            places = pa.array(positions[chosen]), pa.array(rows[chosen])
            whole = pa.array(_chosen(values[RECORD], chosen)) if self.wanted.whole else None
            batches.append(decoded(columns, self.wanted, metadata, *places, lambda _: self._kinds, whole))
        return batches

    def _column(self, name: str, field: str, values: list[Any]) -> pa.Array | None:
        if field in self.texts:
            column = pa.array(values, pa.string())
            return column if column.null_count < len(values) else None
        for kind in self._kinds[field]:
            values = _as_declared(name, values, kind)
        column = column_of(name, values, self.wanted.clock)
        return None if column is None else _of_width(column, self._kinds[field])


def problem_of(error: Exception) -> str:
    """What is wrong with a record, by the error with which it does not decode."""
    said = str(error) if isinstance(error, ValueError) else repr(error)
    # The text of fastavro's errors has the address of a stream, which differs each time.
    return f"it does not decode: {re.sub(' from <.*?>', '', said)}"


def _may_be_nested(kinds: list[Any]) -> bool:
    return not all(isinstance(kind, str) and kind in PRIMITIVE for kind in kinds)


def _chosen(values: list[Any], rows: np.ndarray) -> list[Any]:
    return values if len(rows) == len(values) else [values[row] for row in rows.tolist()]


#: How many units of a logical type make a millisecond; 0 for types that are not a moment in time.
_UNITS = {
    "timestamp-micros": 1_000,
    "timestamp-nanos": 1_000_000,
    "date": 0,
    "time-millis": 0,
    "time-micros": 0,
}
#: The unit of each type of times without a zone.
_LOCAL_UNITS: dict[str, Literal["ms", "us", "ns"]] = {
    "local-timestamp-millis": "ms",
    "local-timestamp-micros": "us",
    "local-timestamp-nanos": "ns",
}


#: The most bytes of a decimal in Arrow, and arithmetic that is exact for them.
_MOST_DECIMAL_BYTES, _DECIMALS = 32, Context(prec=100)
#: The scales of decimals in Arrow; bytes with another are no decimals.
_SCALES = range(-76, 77)


def _as_declared(name: str, values: list[Any], kind: Any) -> list[Any]:
    """Values of a field of a type, or of a union with it: decimals, floats of 32 bits, and milliseconds.

    Values that are none of the type stay as they are.
    """
    logical = str(kind.get("logicalType", "")) if isinstance(kind, dict) else ""
    if (kind.get("type") if isinstance(kind, dict) else kind) == "float" and name != "payload":
        return [np.float32(value) if isinstance(value, float) else value for value in values]
    if logical == "decimal" and isinstance(scale := kind.get("scale", 0), int) and scale in _SCALES:
        # Bytes that stand for many reports are equal ones.
        distinct = {
            value for value in values if isinstance(value, bytes) and len(value) <= _MOST_DECIMAL_BYTES
        }
        decimals = {
            value: Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _DECIMALS)
            for value in distinct
        }
        return [decimals.get(value, value) if isinstance(value, bytes) else value for value in values]
    local = _LOCAL_UNITS.get(logical) if name == "event_time" else None
    if local is not None:
        return [np.datetime64(time, local) if isinstance(time, int) else time for time in values]
    unit = _UNITS.get(logical) if name == "event_time" else None
    if unit is not None:
        return [(time // unit if unit else None) if isinstance(time, int) else time for time in values]
    return values


def _of_width(column: pa.Array, kinds: list[Any]) -> pa.Array:
    """The column; as fixed-size binary if the schema declares the field as fixed."""
    for kind in kinds:
        if isinstance(kind, dict) and kind.get("type") == "fixed" and pa.types.is_binary(column.type):
            # In a union with text or bytes, values may have other widths; then the cast fails.
            with contextlib.suppress(pa.ArrowInvalid):
                column = pc.cast(column, pa.binary(kind["size"]))
    return column

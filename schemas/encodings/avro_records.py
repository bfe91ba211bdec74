"""Reading of Avro records of any schema: fastavro reads them one by one."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal
from itertools import islice
from typing import Any, Literal, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.schemas.encodings import compression, per_byte
from ldpbeam.schemas.encodings.avro_alike import values_alike
from ldpbeam.schemas.encodings.avro_rows import BATCH_BYTES, BATCH_REPORTS, WHOLE_REPORTS
from ldpbeam.schemas.encodings.avro_schemas import PRIMITIVE, Shape, without_logical_types
from ldpbeam.schemas.files.avro_blocks import Block
from ldpbeam.schemas.files.avro_headers import SYNC_SIZE, Header
from ldpbeam.schemas.reports.columns import RECORD, Columns, decoded
from ldpbeam.schemas.reports.records import by_kind, column_of, without_nested

#: A block that could have more values is not read at once.
_MOST_AT_ONCE = 2**17
#: About this many values are decoded before the fields that are not wanted are released: the more records
#: there are at a time, the longer Python's garbage collector takes.
_PART_VALUES = 2**12

#: The values of n records in each field that is read, by its name: n values each.
Values = dict[str, list[Any]]


class Part(NamedTuple):
    """Consecutive records of a block, how many they are, and how many bytes they were read from."""

    values: Values
    records: int
    size: int


class Records:
    """A buffer that collects records of blocks into batches.

    Args:
        header: the header of the records' file.
        wanted: which columns are read.
    """

    def __init__(self, header: Header, wanted: Columns) -> None:
        self._header = header
        self._metadata = header.metadata_of(wanted)
        self._wanted = wanted
        self._values: Values = {}
        self._positions: list[int] = []
        self._rows: list[int] = []
        self._bytes = 0
        #: The position of the block of the last added part, and how many of its records have been added.
        self._added = (-1, 0)
        self._reader: RecordReader | None = None
        if _fields(header.writer_schema) is not None:
            self._reader = RecordReader(header.writer_schema, header.shape, wanted)

    @property
    def full(self) -> bool:
        """Whether the buffer has enough records or bytes for a batch."""
        return len(self._rows) >= BATCH_REPORTS or self._bytes >= BATCH_BYTES

    def checked(self, block: Block, most: int) -> tuple[int, Iterator[Part]]:
        """A block's plain size in bytes, and its records in parts.

        Raises:
            ValueError: if the block contradicts its record count or does not decode.
            TooLargeError: if it has more than ``most`` plain bytes.
        """
        reader, reports = self._reader, block.reports
        if reader is None:
            raise ValueError("its schema is not a record")
        least = self._header.shape.least
        if least * reports > most:
            raise compression.TooLargeError(most)
        pieces = compression.at_most(most, compression.pieces(self._header.codec, block.data))
        first = list(islice(compression.of_size(BATCH_BYTES, pieces), 2)) if reports <= WHOLE_REPORTS else []
        if len(first) == 1 or reports == 0:
            whole = reader.at_once(b"".join(first), reports)
            parts = list(reader.parts(first, reports)) if whole is None else [whole]
            return sum(part.size for part in parts), iter(parts)
        # It is decoded twice, so it may have half as much.
        held = len(block.data) + SYNC_SIZE
        per_byte.check(reports, held, per_byte.OF_RECORDS / 2)
        per_byte.check(reports * self._header.shape.values, held, per_byte.VALUES / 2, "values")
        pieces = compression.at_most(most, compression.pieces(self._header.codec, block.data))
        size = sum(part.size for part in reader.parts(pieces, reports))
        return size, reader.parts(compression.pieces(self._header.codec, block.data), reports)

    def add(self, block: Block, part: Part) -> None:
        """Add a part of a block to the buffer; the parts of a block must be added in order."""
        first = self._added[1] if self._added[0] == block.position else 0
        end = first + part.records
        self._added = (block.position, end)
        for name, values in part.values.items():
            self._values.setdefault(name, []).extend(values)
        self._positions += [block.position] * part.records
        self._rows += range(first, end)
        self._bytes += part.size

    def batches(self) -> Iterator[pa.RecordBatch | Block]:
        """The buffered records as batches; the buffer is empty afterwards.

        A record that does not fit into columns is returned as a bad block of one report.
        """
        if self._rows:
            yield from self._batches(0, len(self._rows))
        self._values, self._positions, self._rows, self._bytes = {}, [], [], 0

    def _batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch | Block]:
        assert self._reader is not None
        positions = np.array(self._positions[start:stop], dtype=np.int64)
        rows = np.array(self._rows[start:stop], dtype=np.int64)
        try:
            values = {name: every[start:stop] for name, every in self._values.items()}
            yield from self._reader.batches(values, self._metadata, positions, rows)
        except MemoryError:
            raise
        except Exception as error:  # Arrow raises its own errors and those of Python
            if stop - start == 1:
                yield Block(int(positions[0]), 1, b"", f"it does not decode: {str(error) or repr(error)}")
                return
            middle = (start + stop) // 2
            yield from self._batches(start, middle)
            yield from self._batches(middle, stop)


def _fields(writer_schema: Any) -> dict[str, list[Any]] | None:
    """The types of a record schema's fields by name, those of each union; None for no schema of a record."""
    if not isinstance(writer_schema, dict) or writer_schema.get("type") != "record":
        return None
    fields, named = dict[str, list[Any]](), dict[str, Any]()
    for field in writer_schema["fields"]:
        kind = field["type"]
        kinds = [
            named.get(k, k) if isinstance(k, str) else k for k in (kind if isinstance(kind, list) else [kind])
        ]
        named |= {str(k["name"]): k for k in kinds if isinstance(k, dict) and "name" in k}
        fields[field["name"]] = kinds
    return fields


class RecordReader:
    """A reader of records of one schema.

    Args:
        writer_schema: a record schema.
        shape: the schema's shape.
        wanted: which columns are read.
    """

    def __init__(self, writer_schema: Any, shape: Shape, wanted: Columns) -> None:
        self._shape = shape
        self._wanted = wanted
        plain = without_logical_types(writer_schema)
        self._plain, self._array = map(fastavro.parse_schema, (plain, {"type": "array", "items": plain}))
        self._kinds = _fields(writer_schema) or {}
        self._read = {name: field for name, field in wanted.fields.items() if field in self._kinds}
        self._nested = [name for name, field in self._read.items() if _may_be_nested(self._kinds[field])]

    def alike(self, data: bytes, count: int) -> Part | None:
        """Read ``count`` records of as many bytes each; None if values have other places, or few records."""
        if self._wanted.whole:
            return None
        values = values_alike(self._plain["fields"], data, count, self._read.values())
        return None if values is None else self._declared(values, count, len(data))

    def at_once(self, data: bytes, count: int) -> Part | None:
        """Read ``count`` records from all plain bytes of a small block, as the items of an array.

        None if the block is not small, or does not decode: :meth:`parts` then says what is wrong.
        """
        alike = self.alike(data, count)
        if alike is not None:
            return alike
        # What follows the last record is read as further items, so the bytes bound how many there are.
        most = len(data) // self._shape.least if self._shape.least else _MOST_AT_ONCE
        if self._wanted.whole or self._shape.per_byte or most * self._shape.values >= _MOST_AT_ONCE:
            return None
        if data[-1:] >= b"\x80":  # with the end of the array, these could be read as its end
            return None
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, "long", count)
        stream.write(data + b"\0")
        stream.seek(0)
        try:
            records: Any = fastavro.schemaless_reader(stream, self._array, None)
        except Exception:  # fastavro raises errors of many types
            return None
        return None if len(records) != count or stream.read(1) else self._part(records, len(data))

    def parts(self, pieces: Iterable[bytes], count: int) -> Iterator[Part]:
        """Read ``count`` records from their plain bytes, with the wanted fields only.

        The reader keeps a window of the bytes, which grows only if a record is longer than the window. An
        error may follow any part, because the bytes of a record may be malformed.

        Raises:
            ValueError: if a record is too large, or bytes are left after the last one.
            Exception: fastavro's errors, if a record does not decode.
        """
        most = self._shape.most_bytes
        steps = compression.of_size(max(1, min(compression.PIECE_BYTES, most // 4)), pieces)
        stream, size, ended = io.BytesIO(), 0, False
        largest = max(1, _PART_VALUES // self._shape.values)
        records: list[dict[str, Any]] = []
        begun = 0
        for _ in range(count):
            while True:
                start = stream.tell()
                try:
                    record: Any = fastavro.schemaless_reader(stream, self._plain, None)
                    if self._wanted.whole:
                        with stream.getbuffer() as read:
                            record[RECORD] = bytes(read[start : stream.tell()])
                    records.append(record)
                    break
                except Exception:  # the window may end inside the record
                    if ended:
                        raise
                    if records:
                        yield self._part(records, start - begun)
                    stream.seek(start)
                    rest = stream.read()
                    if len(rest) >= most:
                        raise ValueError(f"one of its records has more than {most:,} bytes") from None
                    window, ended = _grown(rest, steps)
                    stream, size, begun, records = io.BytesIO(window), len(window), 0, []
            if len(records) >= largest:
                yield self._part(records, stream.tell() - begun)
                begun, records = stream.tell(), []
        if stream.tell() < size or next(steps, b""):
            raise ValueError(f"bytes are left after its {count} records")
        yield self._part(records, stream.tell() - begun)

    def _part(self, records: list[dict[str, Any]], size: int) -> Part:
        values: Values = {field: [record[field] for record in records] for field in self._read.values()}
        for name in self._nested:
            values[self._read[name]] = without_nested(name, values[self._read[name]])
        if self._wanted.whole:
            values[RECORD] = [record[RECORD] for record in records]
        return self._declared(values, len(records), size)

    def _declared(self, values: Values, records: int, size: int) -> Part:
        for name, field in self._read.items():
            for kind in self._kinds[field]:
                values[field] = _as_declared(name, values[field], kind)
        return Part(values, records, size)

    def batches(
        self,
        values: Values,
        metadata: Mapping[str, str],
        positions: np.ndarray,
        rows: np.ndarray,
    ) -> list[pa.RecordBatch]:
        """Decoded batches of n records, one batch for each kind of payload.

        Args:
            values: of the records of parts, as :class:`Part` has them.
            metadata: the metadata of their file.
            positions: the column ``position``, shape (n,).
            rows: the column ``row``, shape (n,).
        """
        batches = []
        payloads = values.get(self._read.get("payload", ""), [None] * len(rows))
        for chosen in by_kind(payloads):
            columns = {}
            for name, field in self._read.items():
                column = column_of(name, _chosen(values[field], chosen), self._wanted.clock)
                if column is not None:
                    columns[field] = _of_width(column, self._kinds[field])
            places = pa.array(positions[chosen]), pa.array(rows[chosen])
            whole = pa.array(_chosen(values[RECORD], chosen)) if self._wanted.whole else None
            batches.append(decoded(columns, self._wanted, metadata, *places, lambda _: self._kinds, whole))
        return batches


def _may_be_nested(kinds: list[Any]) -> bool:
    return not all(isinstance(kind, str) and kind in PRIMITIVE for kind in kinds)


def _chosen(values: list[Any], rows: np.ndarray) -> list[Any]:
    return values if len(rows) == len(values) else [values[row] for row in rows.tolist()]


def _grown(rest: bytes, steps: Iterator[bytes]) -> tuple[bytes, bool]:
    """A window more than twice as long as ``rest``, and whether the bytes end with it.

    The window is shorter if the bytes end.
    """
    parts, size = [rest], len(rest)
    while size <= 2 * len(rest):
        part = next(steps, b"")
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
    return b"".join(parts), False


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


def _as_declared(name: str, values: list[Any], kind: Any) -> list[Any]:
    """Values of a field of a type, or of a union with it: decimals, floats of 32 bits, and milliseconds.

    Values that are none of the type stay as they are.
    """
    logical = str(kind.get("logicalType", "")) if isinstance(kind, dict) else ""
    if (kind.get("type") if isinstance(kind, dict) else kind) == "float" and name != "payload":
        return [np.float32(value) if isinstance(value, float) else value for value in values]
    if logical == "decimal" and isinstance(scale := kind.get("scale", 0), int):
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

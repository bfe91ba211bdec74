"""Reading of Avro records of any schema: fastavro reads them one by one."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.schemas.encodings import compression
from ldpbeam.schemas.encodings.avro_rows import BATCH_BYTES, BATCH_REPORTS
from ldpbeam.schemas.encodings.avro_schemas import Shape, without_logical_types
from ldpbeam.schemas.files.avro_blocks import Block
from ldpbeam.schemas.files.avro_headers import SYNC_SIZE, Header
from ldpbeam.schemas.reports.columns import RECORD, Columns, decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of

#: A block with more reports is checked as a whole before it is read in parts.
WHOLE_REPORTS = 2 * BATCH_REPORTS
#: About this many values are decoded before the fields that are not wanted are released.
_PART_VALUES = 2**17

Record = dict[str, Any]


class Part(NamedTuple):
    """Consecutive records of a block, and how many bytes they were read from."""

    records: list[Record]
    size: int


class Records:
    """A buffer that collects records of blocks into batches.

    Args:
        header: the header of the records' file.
        wanted: which columns are read.
    """

    def __init__(self, header: Header, wanted: Columns) -> None:
        self._header = header
        self._wanted = wanted
        self._records: list[Record] = []
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
        return len(self._records) >= BATCH_REPORTS or self._bytes >= BATCH_BYTES

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
        if least == 0 and reports > 8 * (len(block.data) + SYNC_SIZE):
            raise ValueError(f"{reports} records without bytes are more than the block has bits")
        pieces = compression.at_most(most, compression.pieces(self._header.codec, block.data))
        first = list(islice(compression.of_size(BATCH_BYTES, pieces), 2)) if reports <= WHOLE_REPORTS else []
        if len(first) == 1 or reports == 0:
            parts = reader.at_once(b"".join(first), reports) or list(reader.parts(first, reports))
            return sum(part.size for part in parts), iter(parts)
        pieces = compression.at_most(most, compression.pieces(self._header.codec, block.data))
        size = sum(part.size for part in reader.parts(pieces, reports))
        return size, reader.parts(compression.pieces(self._header.codec, block.data), reports)

    def add(self, block: Block, part: Part) -> None:
        """Add a part of a block to the buffer; the parts of a block must be added in order."""
        first = self._added[1] if self._added[0] == block.position else 0
        end = first + len(part.records)
        self._added = (block.position, end)
        self._records += part.records
        self._positions += [block.position] * len(part.records)
        self._rows += range(first, end)
        self._bytes += part.size

    def batches(self) -> Iterator[pa.RecordBatch | Block]:
        """The buffered records as batches; the buffer is empty afterwards.

        A record that does not fit into columns is returned as a bad block of one report.
        """
        if self._records:
            yield from self._batches(0, len(self._records))
        self._records, self._positions, self._rows, self._bytes = [], [], [], 0

    def _batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch | Block]:
        assert self._reader is not None
        positions = np.array(self._positions[start:stop], dtype=np.int64)
        rows = np.array(self._rows[start:stop], dtype=np.int64)
        try:
            records = self._records[start:stop]
            yield from self._reader.batches(records, self._header.metadata, positions, rows)
        except MemoryError:
            raise
        except Exception as error:  # Arrow raises its own errors and those of Python
            if stop - start == 1:
                yield Block(int(positions[0]), 1, b"", f"it does not decode: {str(error) or repr(error)}")
                return
            middle = (start + stop) // 2
            yield from self._batches(start, middle)
            yield from self._batches(middle, stop)


def _fields(writer_schema: Any) -> dict[str, Any] | None:
    """The types of a record schema's fields by name; None for a schema that is not a record."""
    if not isinstance(writer_schema, dict) or writer_schema.get("type") != "record":
        return None
    return {field["name"]: field["type"] for field in writer_schema["fields"]}


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
        self._plain = fastavro.parse_schema(without_logical_types(writer_schema))
        self._array = fastavro.parse_schema({"type": "array", "items": without_logical_types(writer_schema)})
        self._kinds: dict[str, Any] = _fields(writer_schema) or {}
        self._payload, self._event_time = wanted.fields["payload"], wanted.fields["event_time"]
        self._read = {name: field for name, field in wanted.fields.items() if field in self._kinds}
        self._names = [*self._read.values()]
        self._all_matter = len(self._names) == len(self._kinds) and not shape.per_byte
        if wanted.whole:
            self._names.append(RECORD)

    def at_once(self, data: bytes, count: int) -> list[Part]:
        """Read all ``count`` records of a small block as an array, as :meth:`parts` does one by one.

        Empty if the block is not small, or wrong in any way, which :meth:`parts` tells. What follows the
        records is taken for further items, so the length of the data bounds how many there can be.
        """
        shape = self._shape
        most_items = len(data) // shape.least if shape.least else _PART_VALUES
        if shape.per_byte or self._wanted.whole or most_items * shape.values >= _PART_VALUES:
            return []
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, "long", count)
        stream.write(data + b"\0")
        stream.seek(0)
        try:
            records: list[Any] = fastavro.schemaless_reader(stream, self._array, None)  # type: ignore[assignment]
        except Exception:  # fastavro raises errors of many types
            return []
        if len(records) != count or stream.read(1):
            return []
        return [Part(self._kept(records), len(data))]

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
        records: list[Any] = []
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
                        yield Part(self._kept(records), start - begun)
                    stream.seek(start)
                    rest = stream.read()
                    if len(rest) >= most:
                        raise ValueError(f"one of its records has more than {most:,} bytes") from None
                    window, ended = _grown(rest, steps)
                    stream, size, begun, records = io.BytesIO(window), len(window), 0, []
            if len(records) >= largest:
                yield Part(self._kept(records), stream.tell() - begun)
                begun, records = stream.tell(), []
        if stream.tell() < size or next(steps, b""):
            raise ValueError(f"bytes are left after its {count} records")
        yield Part(self._kept(records), stream.tell() - begun)

    def _kept(self, records: list[Any]) -> list[Record]:
        if self._all_matter:
            return records
        nested = {name: float("nan") if name == self._payload else None for name in self._names}
        return [
            {name: _flat(record[name], instead) for name, instead in nested.items()} for record in records
        ]

    def batches(
        self,
        records: Sequence[Record],
        metadata: dict[str, str] | Any,
        positions: np.ndarray,
        rows: np.ndarray,
    ) -> list[pa.RecordBatch]:
        """Decoded batches of n records, one batch for each kind of payload.

        Args:
            records: records from :meth:`parts`; their event times are converted to milliseconds in place.
            metadata: the metadata of their file.
            positions: the column ``position``, shape (n,).
            rows: the column ``row``, shape (n,).
        """
        if self._event_time in self._kinds:
            _in_milliseconds(records, self._event_time, self._kinds[self._event_time])
        batches = []
        for chosen, alike in by_payload(records, self._payload):
            columns = columns_of(alike, self._read)
            declared = {name: _as_declared(column, self._kinds[name]) for name, column in columns.items()}
            places = pa.array(positions[chosen]), pa.array(rows[chosen])
            whole = pa.array([record[RECORD] for record in alike]) if self._wanted.whole else None
            batches.append(decoded(declared, self._wanted, metadata, *places, lambda _: self._kinds, whole))
        return batches


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


def _flat(value: Any, instead: float | None) -> Any:
    """The value, or ``instead`` of a list or a record."""
    return instead if isinstance(value, dict | list) else value


#: How many units of a logical type make a millisecond; 0 for types that are not a moment in time.
_UNITS = {
    "timestamp-micros": 1_000,
    "timestamp-nanos": 1_000_000,
    "date": 0,
    "time-millis": 0,
    "time-micros": 0,
}


def _branches(kind: Any) -> list[dict[str, Any]]:
    """The type of a field, or the branches of its union, without those that are only a type's name."""
    return [branch for branch in (kind if isinstance(kind, list) else [kind]) if isinstance(branch, dict)]


def _in_milliseconds(records: Sequence[Record], field: str, kind: Any) -> None:
    """Convert, in place, event times of a logical type that is not in milliseconds to milliseconds."""
    for branch in _branches(kind):
        unit = _UNITS.get(str(branch.get("logicalType", "")).removeprefix("local-"))
        if unit is not None:
            for record in records:
                if isinstance(record[field], int):
                    record[field] = record[field] // unit if unit else None


def _as_declared(column: pa.Array, kind: Any) -> pa.Array:
    """The column; as fixed-size binary if the schema declares the field as fixed."""
    for branch in _branches(kind):
        if branch.get("type") == "fixed" and pa.types.is_binary(column.type):
            # In a union with text or bytes, values may have other widths; then the cast fails.
            with contextlib.suppress(pa.ArrowInvalid):
                column = pc.cast(column, pa.binary(branch["size"]))
    return column

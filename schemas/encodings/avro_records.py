"""Records of any schema, which fastavro reads one by one."""

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
from ldpbeam.schemas.reports.columns import Columns, decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of

#: A block of more reports is checked before it is read in parts.
WHOLE_REPORTS = 2 * BATCH_REPORTS
#: So many values are decoded before those that do not matter are let go.
_PART_VALUES = 2**17

Record = dict[str, Any]


class Part(NamedTuple):
    """Some records of a block, and how many bytes they were read from."""

    records: list[Record]
    size: int


class Records:
    """Records that wait to be a batch.

    Args:
        header: of their file.
        wanted: which columns matter.
    """

    def __init__(self, header: Header, wanted: Columns) -> None:
        self._header = header
        self._wanted = wanted
        self._records: list[Record] = []
        self._positions: list[int] = []
        self._rows: list[int] = []
        self._bytes = 0
        #: The block that was added to last, and how many of its records have been added.
        self._added = (-1, 0)
        self._reader: RecordReader | None = None
        if _fields(header.writer_schema) is not None:
            self._reader = RecordReader(header.writer_schema, header.shape, wanted)

    @property
    def full(self) -> bool:
        """Whether there is enough for a batch."""
        return len(self._records) >= BATCH_REPORTS or self._bytes >= BATCH_BYTES

    def checked(self, block: Block, most: int) -> tuple[int, Iterator[Part]]:
        """A block's plain size, and its records in parts.

        Raises:
            ValueError: if the block is not what it says, or has more than ``most`` plain bytes.
        """
        reader, reports = self._reader, block.reports
        if reader is None:
            raise ValueError("its schema is no record")
        least = self._header.shape.least
        if least * reports > most:
            raise compression.TooLargeError(most)
        if least == 0 and reports > 8 * (len(block.data) + SYNC_SIZE):
            raise ValueError(f"{reports} records without bytes are more than the block has bits")
        pieces = compression.at_most(most, compression.pieces(self._header.codec, block.data))
        first = list(islice(compression.of_size(BATCH_BYTES, pieces), 2)) if reports <= WHOLE_REPORTS else []
        if len(first) == 1 or reports == 0:
            parts = list(reader.parts(first, reports))
            return sum(part.size for part in parts), iter(parts)
        pieces = compression.at_most(most, compression.pieces(self._header.codec, block.data))
        size = sum(part.size for part in reader.parts(pieces, reports))
        return size, reader.parts(compression.pieces(self._header.codec, block.data), reports)

    def add(self, block: Block, part: Part) -> None:
        """Take a part of a block; its parts come one behind the other."""
        first = self._added[1] if self._added[0] == block.position else 0
        end = first + len(part.records)
        self._added = (block.position, end)
        self._records += part.records
        self._positions += [block.position] * len(part.records)
        self._rows += range(first, end)
        self._bytes += part.size

    def batches(self) -> Iterator[pa.RecordBatch | Block]:
        """What waits; a record that cannot be a row of columns comes back as a block of one report."""
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
        except Exception as error:  # Arrow raises its own, and those of Python
            if stop - start == 1:
                yield Block(int(positions[0]), 1, b"", f"it does not decode: {str(error) or repr(error)}")
                return
            middle = (start + stop) // 2
            yield from self._batches(start, middle)
            yield from self._batches(middle, stop)


def _fields(writer_schema: Any) -> dict[str, Any] | None:
    """The types of a record's fields by name; None of another schema."""
    if not isinstance(writer_schema, dict) or writer_schema.get("type") != "record":
        return None
    return {field["name"]: field["type"] for field in writer_schema["fields"]}


class RecordReader:
    """Reads records of one schema.

    Args:
        writer_schema: a record's.
        shape: of the schema.
        wanted: which columns matter.
    """

    def __init__(self, writer_schema: Any, shape: Shape, wanted: Columns) -> None:
        self._shape = shape
        self._wanted = wanted
        self._plain = fastavro.parse_schema(without_logical_types(writer_schema))
        self._kinds: dict[str, Any] = _fields(writer_schema) or {}
        self._names = [name for name in wanted.names if name in self._kinds]
        self._all_matter = len(self._names) == len(self._kinds) and not shape.per_byte

    def parts(self, pieces: Iterable[bytes], count: int) -> Iterator[Part]:
        """Records out of their plain bytes, without the fields that do not matter.

        They are read from a window of the bytes, which grows only where a record is longer. Any part may be
        followed by an error: a record's bytes may be wrong.

        Raises:
            ValueError: if a record is too large, or bytes are left after the last; and what fastavro raises.
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
                    records.append(fastavro.schemaless_reader(stream, self._plain, None))
                    break
                except Exception:  # the window may end within the record
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
        return [{name: _flat(name, record[name]) for name in self._names} for record in records]

    def batches(
        self,
        records: Sequence[Record],
        metadata: dict[str, str] | Any,
        positions: np.ndarray,
        rows: np.ndarray,
    ) -> list[pa.RecordBatch]:
        """Records as decoded batches, one for each kind of payload.

        Args:
            records: of :meth:`parts`; the event times in them are changed to milliseconds.
            metadata: of their file.
            positions: the column ``position``.
            rows: the column ``row``.
        """
        if "event_time" in self._kinds:
            _in_milliseconds(records, self._kinds["event_time"])
        batches = []
        for chosen in by_payload(records):
            columns = columns_of([records[index] for index in chosen], self._wanted.names)
            declared = {name: _as_declared(column, self._kinds[name]) for name, column in columns.items()}
            places = pa.array(positions[chosen]), pa.array(rows[chosen])
            batches.append(decoded(declared, self._wanted, metadata, *places))
        return batches


def _grown(rest: bytes, steps: Iterator[bytes]) -> tuple[bytes, bool]:
    """A window that is at least twice as long, and whether the bytes end with it."""
    parts, size = [rest], len(rest)
    while size <= 2 * len(rest):
        part = next(steps, b"")
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
    return b"".join(parts), False


def _flat(name: str, value: Any) -> Any:
    """A value as it is, but lists and records as what they are to later stages: no number, or missing."""
    if isinstance(value, dict | list):
        return float("nan") if name == "payload" else None
    return value


#: How many of a logical type's units are a millisecond; 0 for times that are no moment.
_UNITS = {
    "timestamp-micros": 1_000,
    "timestamp-nanos": 1_000_000,
    "date": 0,
    "time-millis": 0,
    "time-micros": 0,
}


def _branches(kind: Any) -> list[dict[str, Any]]:
    """The types of a field, or of its union's branches, that are more than a name."""
    return [branch for branch in (kind if isinstance(kind, list) else [kind]) if isinstance(branch, dict)]


def _in_milliseconds(records: Sequence[Record], kind: Any) -> None:
    """Event times that were written as integers of another unit, in milliseconds."""
    for branch in _branches(kind):
        unit = _UNITS.get(str(branch.get("logicalType", "")).removeprefix("local-"))
        if unit is not None:
            for record in records:
                if isinstance(record["event_time"], int):
                    record["event_time"] = record["event_time"] // unit if unit else None


def _as_declared(column: pa.Array, kind: Any) -> pa.Array:
    """A column of bytes that were written with a fixed width, as such."""
    for branch in _branches(kind):
        if branch.get("type") == "fixed" and pa.types.is_binary(column.type):
            # In a union with text or bytes, values have widths of their own.
            with contextlib.suppress(pa.ArrowInvalid):
                column = pc.cast(column, pa.binary(branch["size"]))
    return column

"""Decoding of binary messages: Avro single objects and Arrow streams.

Anyone may have written the bytes. A message that crashes the process is delivered again and crashes it again.
So a schema or a buffer that could exhaust memory is refused before it is used.
"""

from __future__ import annotations

import io
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.schema import fingerprint, to_parsing_canonical_form
from numpy.typing import NDArray

from ldpbeam.schemas.avro_schemas import Shape, measure, without_logical_types
from ldpbeam.schemas.encodings import avro, per_byte
from ldpbeam.schemas.encodings.arrow_sizes import expanded_bytes, sizes_of
from ldpbeam.schemas.encodings.avro_alike import FEWEST, values_alike
from ldpbeam.schemas.encodings.avro_blocks import CORRUPT_BLOCK
from ldpbeam.schemas.encodings.avro_headers import MAGIC
from ldpbeam.schemas.encodings.avro_records import RecordColumns, Values, problem_of
from ldpbeam.schemas.messages.placed import Ids
from ldpbeam.schemas.reports.casts import is_null
from ldpbeam.schemas.reports.columns import (
    ORIGIN_KEYS,
    RECORD,
    Columns,
    decoded,
    is_nested,
    text_of,
    whole_of,
    with_most_letters,
)
from ldpbeam.schemas.writer_schemas import measured

BAD_MESSAGE = "bad_message"
UNKNOWN_SCHEMA = "unknown_schema"
NO_REPORTS = "it has no reports"

ARROW = "application/vnd.apache.arrow.stream"

#: The first two bytes of Avro's single-object encoding; the schema's fingerprint follows in eight bytes.
OBJECT_MAGIC = b"\xc3\x01"
_OBJECT_AT = len(OBJECT_MAGIC) + 8
#: Confluent's framings: the first byte, and how many bytes with it stand before the record. The id of the
#: writer's schema has four, big-endian, and its GUID sixteen.
FRAMES = {b"\0": 5, b"\1": 17}
#: The most plain bytes and the most reports of a message: the whole message is in memory at once.
MOST_BYTES = 2**27
MOST_REPORTS = 2**21
#: The most record batches and dictionaries of an Arrow stream: each of them costs Arrow time.
MOST_BATCHES = 10_000
#: Larger record batches of a stream are cut into parts of this many reports.
BATCH_REPORTS = 65_536


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was delivered.

    Attributes:
        id: the server's message id, the same at each delivery of the message.
        data: the message's bytes.
        content_type: the message's attribute ``content-type``, empty if it has none.
    """

    id: str
    data: bytes
    content_type: str


@dataclass(frozen=True)
class Poll:
    """Messages of one source, as columns.

    Attributes:
        values: the bytes of n messages.
        content_types: their attributes ``content-type``, n texts, empty for a message that has none.
        ids: their ids.
        deliveries: whether reports without an id get a delivery. A source that gives each message once, as
            Kafka does by offset, needs none.
    """

    values: Sequence[bytes]
    content_types: Sequence[str]
    ids: Ids
    deliveries: bool = True

    def part(self, indices: NDArray[np.int64]) -> Poll:
        """The messages at some indices."""
        types = [self.content_types[index] for index in indices.tolist()]
        return replace(self, values=self.at(indices), content_types=types, ids=self.ids.at(indices))

    def at(self, indices: NDArray[np.int64]) -> list[bytes]:
        """The bytes of the messages at some indices."""
        return [self.values[index] for index in indices.tolist()]

    def message(self, index: int) -> Message:
        """A message by itself."""
        return Message(self.ids.name(index), self.values[index], self.content_types[index])


@dataclass(frozen=True)
class BadMessage:
    """A part of a message that does not decode.

    Attributes:
        message: the message.
        reports: how many reports the part claims to have, at least 1.
        reason: the reason of its dead letter.
        problem: what is wrong with the part.
        data: the bytes that do not decode.
        row: the row of the message at which the part begins; None if that is unknown.
    """

    message: Message
    reports: int
    reason: str
    problem: str
    data: bytes
    row: int | None


#: Decoded batches, and the parts of messages that do not decode.
Decoded = Iterator[pa.RecordBatch | BadMessage]


def decode_objects(poll: Poll, indices: NDArray[np.int64], wanted: Columns) -> Decoded:
    """Decode messages of an Avro single object to batches of reports.

    The column ``position`` has the index of a report's message, and ``row`` is zero. Fields have the names of
    columns, whatever ``wanted.renamed`` says: the schema is ours, ``report.avsc``.

    Args:
        poll: messages.
        indices: those that are decoded, of one report each.
        wanted: which columns are read.
    """
    ours = avro.schema("report")
    # The CRC-64-AVRO fingerprint of the schema, in the byte order of messages.
    known = bytes.fromhex(fingerprint(to_parsing_canonical_form(ours), "CRC-64-AVRO"))
    starts = pc.binary_slice(pa.array(poll.at(indices), pa.binary()), 0, _OBJECT_AT)
    is_known = pc.equal(starts, OBJECT_MAGIC + known).to_numpy(zero_copy_only=False)
    for message in map(poll.message, indices[~is_known].tolist()):
        data = message.data
        if not data.startswith(OBJECT_MAGIC):
            yield BadMessage(message, 1, BAD_MESSAGE, _no_object(data), data, 0)
        else:
            given = data[len(OBJECT_MAGIC) : _OBJECT_AT]
            problem = f"its schema's fingerprint is {given.hex()}; known is {known.hex()} of {ours['name']}"
            yield BadMessage(message, 1, UNKNOWN_SCHEMA, problem, data, 0)
    reader = _RecordReader(ours, measure(ours), replace(wanted, renamed=()))
    yield from _decode_records(poll, indices[is_known], _OBJECT_AT, reader)


def decode_framed(
    poll: Poll, indices: NDArray[np.int64], wanted: Columns, schema: str, start: int
) -> Decoded:
    """Decode messages of a record with Confluent's framing, as :func:`decode_objects` does.

    Args:
        poll: messages.
        indices: those that are decoded, of one report each, all of the writer's schema.
        wanted: which columns are read, by the names of the writer's schema.
        schema: the schema as JSON, of which :func:`~ldpbeam.schemas.writer_schemas.measured` takes
            the measure.
        start: at which byte records begin.
    """
    yield from _decode_records(poll, indices, start, _RecordReader(*measured(schema), wanted))


def frame_of(data: bytes) -> int:
    """How many bytes Confluent's framing has before a record; 0 for other data."""
    length = FRAMES.get(data[:1], 0)
    return length if len(data) >= length else 0


def framed_id(data: bytes) -> int | uuid.UUID | None:
    """The id or the GUID of the writer's schema in Confluent's framing; None for other data."""
    key = data[1 : frame_of(data)]
    return (int.from_bytes(key, "big") if len(key) == 4 else uuid.UUID(bytes=key)) if key else None


class _RecordReader:
    """A reader of messages of one record of a schema each.

    Args:
        writer_schema: the schema.
        shape: its shape.
        wanted: which columns are read.
    """

    def __init__(self, writer_schema: Any, shape: Shape, wanted: Columns) -> None:
        self._schema: Any = fastavro.parse_schema(without_logical_types(writer_schema))
        self._most = shape.most_bytes
        self.columns = RecordColumns(writer_schema, wanted)

    def alike(self, records: Sequence[bytes]) -> Values | None:
        """The values of records of as many bytes each; None if values have other places, or few records."""
        if self.columns.wanted.whole:
            return None
        fields, read = self._schema["fields"], self.columns.read.values()
        return values_alike(fields, b"".join(records), len(records), read)

    def one(self, data: bytes) -> Values:
        """The values of one record.

        Raises:
            ValueError: if it is too large, or bytes are left after it.
            Exception: fastavro's errors, if it does not decode.
        """
        if len(data) > self._most:
            raise ValueError(f"a record has more than {self._most:,} bytes")
        stream = io.BytesIO(data)
        record: Any = fastavro.schemaless_reader(stream, self._schema, None)
        if stream.tell() < len(data):
            raise ValueError("bytes are left after its record")
        return self.columns.values_of([{**record, RECORD: data}])


def _decode_records(poll: Poll, indices: NDArray[np.int64], start: int, reader: _RecordReader) -> Decoded:
    """Decode the record of a schema that begins at byte ``start`` of each message at some indices."""
    values: Values = {}
    whole: list[NDArray[np.int64]] = []
    lengths = np.fromiter(map(len, poll.at(indices)), dtype=np.int64, count=len(indices))
    order = np.argsort(lengths, kind="stable")
    groups = np.split(indices[order], np.flatnonzero(np.diff(lengths[order])) + 1)
    while groups:
        group = groups.pop()
        records = [value[start:] for value in poll.at(group)]
        if len(group) >= FEWEST and records[0]:
            alike = reader.alike(records)
            if alike is None:  # perhaps for few of them
                groups += np.array_split(group, 2)
            else:
                _extend(values, alike)
                whole.append(group)
            continue
        for index, record in zip(group.tolist(), records, strict=True):
            try:
                _extend(values, reader.one(record))
            except Exception as error:  # fastavro raises errors of many types
                message = poll.message(index)
                yield BadMessage(message, 1, BAD_MESSAGE, problem_of(error), message.data, 0)
            else:
                whole.append(np.array([index]))
    if whole:
        positions = np.concatenate(whole)
        yield from reader.columns.batches(values, {}, positions, np.zeros_like(positions))


def _extend(values: Values, further: Values) -> None:
    for name, some in further.items():
        values.setdefault(name, []).extend(some)


def _no_object(data: bytes) -> str:
    if data.startswith(MAGIC):
        return f"it is an Avro file, which is not read as a message; send an Arrow stream as {ARROW}"
    return (
        f"it is no Avro single object, which begins with {OBJECT_MAGIC.hex()} and names its schema, as raw "
        "Avro does not"
    )


def decode_stream(message: Message, wanted: Columns) -> Decoded:
    """Decode an Arrow stream to batches of reports; nothing after the first damage is decoded.

    The column ``row`` counts reports from the stream's start.

    Raises:
        ValueError: if the data is not an Arrow stream or has no reports, or two columns have the same name.
    """
    data = message.data
    source = pa.BufferReader(data)
    try:
        refuse_sizes(data)
        reader = pa.ipc.open_stream(source)
        all_names, read = Counter(reader.schema.names), set(wanted.fields.values())
        names = [
            field.name
            for field in reader.schema
            if field.name in read
            or (wanted.whole and all_names[field.name] == 1 and not is_nested(field.type))
        ]
        metadata = text_of(reader.schema.metadata)
    except Exception as error:  # damage can raise any of Arrow's errors, or a name is not UTF-8
        raise ValueError(f"no Arrow stream: {error}") from None
    if len(set(names)) < len(names):
        raise ValueError(f"duplicate columns: {', '.join(sorted(names))}")
    row, start, claimed, expanded = 0, source.tell(), 1, 0
    # Each batch has its own.
    carried = sum(len(metadata.get(key, "")) for key in ORIGIN_KEYS)
    try:
        for batch in reader:
            # A column of nulls has no bytes, so a batch could claim any number of rows.
            per_byte.check(row + batch.num_rows, len(data), per_byte.OF_COLUMNS)
            if row + batch.num_rows > MOST_REPORTS:
                raise per_byte.TooManyError(f"{batch.num_rows} reports are more than a message may have")
            claimed = batch.num_rows
            chosen = batch.select(names)
            chosen.validate(full=True)
            expanded += carried + sum(map(expanded_bytes, chosen.columns))
            if expanded > MOST_BYTES:
                raise ValueError(f"its values would be more than {MOST_BYTES // 2**20} MB")
            parts = [chosen.slice(first, BATCH_REPORTS) for first in range(0, claimed, BATCH_REPORTS)]
            yield from [
                with_most_letters(
                    _part(part, wanted, metadata, row + BATCH_REPORTS * n, reader.schema.names),
                    row + claimed,
                    len(data),
                )
                for n, part in enumerate(parts)
            ]
            row, start, claimed = row + claimed, source.tell(), 1
        start = source.tell()
        if start < len(data):
            raise ValueError("bytes are left after its end")
    except Exception as error:  # damage can raise any of Arrow's errors
        problem = f"it does not decode: {error}"
        reason = per_byte.TOO_MANY_REPORTS if isinstance(error, per_byte.TooManyError) else CORRUPT_BLOCK
        yield BadMessage(message, max(1, claimed), reason, problem, data[start:], row)
    else:
        if not row:
            raise ValueError(NO_REPORTS)


def refuse_sizes(data: bytes) -> None:
    """Check that an Arrow stream has no buffers that could exhaust memory.

    Raises:
        ValueError: if it has.
    """
    batches, plain = sizes_of(data)
    if plain > MOST_BYTES:
        raise ValueError(f"its buffers would be more than {MOST_BYTES // 2**20} MB")
    if batches > MOST_BATCHES:
        raise ValueError(f"it has {batches:,} batches and dictionaries, more than {MOST_BATCHES:,}")


def _part(
    batch: pa.RecordBatch, wanted: Columns, metadata: Mapping[str, str], row: int, fields: Sequence[str]
) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, map(_readable, batch.columns), strict=True))
    rows = pa.array(np.arange(row, row + batch.num_rows))
    whole = whole_of(columns, wanted.fields["payload"]) if wanted.whole else None
    return decoded(columns, wanted, metadata, rows, rows, lambda _: fields, whole)


def _readable(column: pa.Array) -> pa.Array:
    """A column without string or binary views.

    Arrow's casts follow the views of null values too, and Arrow does not validate those. So they are zeroed
    first.
    """
    if isinstance(column, pa.ExtensionArray):
        return _readable(column.storage)
    kind, start = column.type, column.offset
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _readable(column.dictionary))
    if not (pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)):
        return column
    if column.null_count:
        validity, views, *data = column.buffers()
        copied = np.frombuffer(views, dtype=np.uint8).copy()
        missing = is_null(column)
        copied[16 * start : 16 * (start + len(column))].reshape(-1, 16)[missing] = 0
        buffers = [validity, pa.py_buffer(copied), *data]
        column = pa.Array.from_buffers(kind, len(column), buffers, offset=start)
    return pc.cast(column, pa.string() if pa.types.is_string_view(kind) else pa.binary())

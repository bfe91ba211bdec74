"""Whole records as dead letters keep them, each in a form that can be read again by itself.

A message of one report and a line stay as they came. A record of an Avro file becomes a file with this record
alone, and a row of columns, as Parquet and Arrow have them, an Arrow stream with this row.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence

import fastavro
import pyarrow as pa

from ldpbeam.schemas.encodings.arrow_sizes import expanded_bytes
from ldpbeam.schemas.encodings.avro import decode_blocks
from ldpbeam.schemas.encodings.avro_blocks import Block
from ldpbeam.schemas.encodings.avro_headers import (
    MAGIC,
    SYNC_SIZE,
    Header,
    read_header,
    write_block,
    write_header,
)
from ldpbeam.schemas.messages.binary import (
    ARROW,
    FRAMES,
    OBJECT_MAGIC,
    BadMessage,
    Decoded,
    Message,
    refuse_sizes,
)
from ldpbeam.schemas.messages.decode import AVRO, JSON, decode_messages
from ldpbeam.schemas.reports.casts import unwrapped
from ldpbeam.schemas.reports.columns import RECORD, WRITER_KEY, Columns

#: A record whose input has a longer schema is not kept: each record would have it.
MOST_SCHEMA_BYTES = 2**16
#: The bytes of the kept records of a batch, with a schema each, for each byte of its input.
KEPT_FOR_EACH_BYTE = 64
_SYNC = b"ldpbeam kept rec"
#: An Avro file, which is no message, and what is not decoded as messages are.
_AVRO_FILE = "avro"
_FILES = (_AVRO_FILE, ARROW)
#: How an Arrow stream begins.
_STREAM_MAGIC = b"\xff\xff\xff\xff"


def most_kept(batch: pa.RecordBatch, origin: Mapping[str, str], size: int) -> int:
    """How many whole records of a batch of ``size`` bytes are kept: each may have the schema of its input."""
    records, each = batch.column(RECORD), int(batch.schema.serialize().size)
    if pa.types.is_struct(records.type):
        # A stream has another header for the one batch in it, of about as many bytes as its schema.
        each += each + sum(map(expanded_bytes, records.flatten())) // max(1, batch.num_rows)
    elif WRITER_KEY in origin:
        each += int(records.nbytes) // max(1, batch.num_rows)
    else:
        each = 1
    return KEPT_FOR_EACH_BYTE * size // each


def kept_records(column: pa.Array, origin: Mapping[str, str], most: int) -> pa.Array:
    """Whole records, the column :data:`~ldpbeam.schemas.reports.columns.RECORD`, in the form that is kept.

    Args:
        column: n records: their bytes, or a struct of the fields of each.
        origin: what their input's metadata say of them.
        most: how many of them are kept, from the first one on.

    Returns:
        A binary array of length n; empty bytes for records beyond the most, or whose schema is too long.
    """
    first, left = column[: max(0, most)], [b""] * (len(column) - max(0, most))
    if pa.types.is_struct(column.type):
        return pa.array([*_streams(first, origin), *left], pa.binary())
    if WRITER_KEY in origin:
        return pa.array([*_containers(first, origin), *left], pa.binary())
    return column.cast(pa.binary())


def _streams(column: pa.StructArray, origin: Mapping[str, str]) -> Iterator[bytes]:
    columns = list(map(unwrapped, column.flatten()))
    names = [column.type.field(index).name for index in range(column.type.num_fields)]
    batch = pa.RecordBatch.from_arrays(columns, names).replace_schema_metadata(origin)
    is_kept = batch.schema.serialize().size <= MOST_SCHEMA_BYTES
    for row in range(batch.num_rows):
        stream = io.BytesIO()
        if is_kept:
            with pa.ipc.new_stream(stream, batch.schema) as writer:
                writer.write_batch(batch.slice(row, 1))
        yield stream.getvalue()


def _containers(column: pa.Array, origin: Mapping[str, str]) -> Iterator[bytes]:
    header = io.BytesIO()
    metadata = {key: text for key, text in origin.items() if key != WRITER_KEY}
    write_header(header, json.loads(origin[WRITER_KEY]), metadata, _SYNC)
    start = header.getvalue()
    for record in column.to_pylist():
        stream = io.BytesIO()
        if len(start) <= MOST_SCHEMA_BYTES:
            stream.write(start)
            write_block(stream, 1, record, _SYNC)
        yield stream.getvalue()


def decode_kept(records: Sequence[bytes], wanted: Columns) -> Decoded:
    """Decode kept records to batches of reports; ``position`` is the index of a report's record.

    Args:
        records: as :func:`kept_records` gives them.
        wanted: which columns are read.

    Raises:
        OSError: if a registry of schemas does not answer.
    """
    messages = [Message(str(index), record, _kind(record)) for index, record in enumerate(records)]
    yield from decode_messages(
        [message for message in messages if message.content_type not in _FILES], wanted
    )
    yield from _decode_rows([message for message in messages if message.content_type == ARROW], wanted)
    by_header: dict[bytes, tuple[Header, list[Block]]] = {}
    for index, message in enumerate(messages):
        if message.content_type != _AVRO_FILE:
            continue
        try:
            start = next((known for known in by_header if message.data.startswith(known)), None)
            if start is None:
                header = read_header(io.BytesIO(message.data))
                start = message.data[: header.size]
                by_header[start] = header, []
            by_header[start][1].append(_block(index, message.data[len(start) :]))
        except Exception as error:  # damage can raise any of fastavro's errors
            yield _bad(message, f"no record of Avro: {error}")
    for header, blocks in by_header.values():
        for item in decode_blocks(header, iter(blocks), wanted):
            if isinstance(item, Block):
                yield _bad(messages[item.position], item.problem)
            else:
                yield item


def _decode_rows(messages: Sequence[Message], wanted: Columns) -> Decoded:
    """Decode streams of one row; those of one schema together, as the input had them."""
    by_schema: dict[bytes, tuple[list[Message], list[pa.Table]]] = {}
    for message in messages:
        try:
            refuse_sizes(message.data)
            row = pa.ipc.open_stream(message.data).read_all()
            row.validate(full=True)
            if row.num_rows != 1:
                raise ValueError(f"it has {row.num_rows} rows")
        except Exception as error:  # damage can raise any of Arrow's errors
            yield _bad(message, f"no row of Arrow: {error}")
            continue
        of_schema, rows = by_schema.setdefault(row.schema.serialize().to_pybytes(), ([], []))
        of_schema.append(message)
        rows.append(row)
    for of_schema, rows in by_schema.values():
        together = pa.concat_tables(rows).combine_chunks()
        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, together.schema) as writer:
            writer.write_table(together)
        places = pa.array([int(message.id) for message in of_schema], pa.int64())
        for item in decode_messages([Message("", stream.getvalue(), ARROW)], wanted):
            if isinstance(item, BadMessage):
                yield from (_bad(message, item.problem) for message in of_schema[item.row or 0 :])
            else:
                at = item.schema.get_field_index("position")
                yield item.set_column(at, "position", places.take(item.column("row")))


def _kind(record: bytes) -> str:
    """The content type of a kept record, by how it begins."""
    if record.startswith(MAGIC):
        return _AVRO_FILE
    if record.startswith(_STREAM_MAGIC):
        return ARROW
    return AVRO[0] if record.startswith((OBJECT_MAGIC, *FRAMES)) else JSON


def _block(index: int, data: bytes) -> Block:
    stream = io.BytesIO(data)
    count, size = (fastavro.schemaless_reader(stream, "long", None) for _ in range(2))
    if count != 1 or size != len(data) - stream.tell() - SYNC_SIZE:
        raise ValueError("it is not one record")
    return Block(index, 1, stream.read(len(data) - stream.tell() - SYNC_SIZE))


def _bad(message: Message, problem: str) -> BadMessage:
    return BadMessage(message, 1, "bad_message", problem, message.data, None)

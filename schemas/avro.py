"""Avro container files, by block: a block of fixed-width fields is a NumPy array as it stands.

Framing (header, block counts, sync markers) is read here, so that files can be split and a corrupt
block passed over; records that are not fixed-width are decoded by fastavro.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import IO, Any

import cramjam
import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.reports import Columns, columns_of, decoded

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_SIZE}},
    ],
}
_WIDTHS = {"double": "<f8", "float": "<f4"}
#: Blocks are gathered into batches of about this many reports.
BATCH_REPORTS = 65_536


def schema(name: str) -> dict[str, Any]:
    """One of our schemas by name: report, statistic, estimate or dead_letter."""
    text = (files("ldpbeam.schemas") / f"{name}.avsc").read_text(encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


@dataclass(frozen=True)
class Header:
    """What the start of a container file says.

    Attributes:
        text: the header's own bytes.
        writer_schema: the schema its records were written with.
        codec: null, deflate, snappy, ...
        metadata: its text entries besides Avro's own.
        sync: the marker after the header and each block.
    """

    text: bytes
    writer_schema: Any
    codec: str
    metadata: Mapping[str, str]
    sync: bytes


def read_header(stream: IO[bytes]) -> Header:
    """The header at the start of a stream, which is left behind it.

    Raises:
        ValueError: if there is none.
    """
    recorded = _Recorder(stream)
    try:
        found: Any = fastavro.schemaless_reader(recorded, _HEADER, None)
        writer_schema = json.loads(found["meta"]["avro.schema"])
        fastavro.parse_schema(writer_schema, expand=False)
    except (EOFError, KeyError, ValueError, IndexError, StopIteration, TypeError) as error:
        raise ValueError(f"no Avro header: {error!r}") from None
    except Exception as error:  # fastavro has many exceptions of its own
        raise ValueError(f"no valid Avro schema: {error}") from None
    if found["magic"] != MAGIC:
        raise ValueError("no Avro header")
    meta = found["meta"]
    return Header(
        text=recorded.taken(),
        writer_schema=writer_schema,
        codec=meta.get("avro.codec", b"null").decode(),
        metadata={
            key: value.decode("utf-8", "replace")
            for key, value in meta.items()
            if not key.startswith("avro.")
        },
        sync=found["sync"],
    )


class _Recorder:
    """A stream that remembers what was read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._parts: list[bytes] = []

    def read(self, size: int) -> bytes:
        part = self._stream.read(size)
        self._parts.append(part)
        return part

    def taken(self) -> bytes:
        return b"".join(self._parts)


@dataclass(frozen=True)
class Block:
    """A block of a container file, or a stretch of it that is none.

    Attributes:
        position: where it starts in the file.
        reports: how many records it says it has; 1 where that is not known.
        data: its bytes, as the codec left them; the whole stretch where it is corrupt.
        problem: why it is no block, else empty.
    """

    position: int
    reports: int
    data: bytes
    problem: str = ""


def read_blocks(stream: IO[bytes], header: Header, start: int, stop: int) -> Iterator[Block]:
    """The blocks that begin in [start, stop) of a seekable stream, corrupt stretches among them."""
    data_start = len(header.text)
    if start <= data_start:
        position, window_start = data_start, data_start
    else:
        position, window_start = -1, start - SYNC_SIZE
    stream.seek(window_start)
    window = stream.read(stop - window_start) if stop > window_start else b""
    if position < 0:
        found = window.find(header.sync)
        if found < 0:
            window += stream.read(SYNC_SIZE)
            found = window.find(header.sync)
        if found < 0:
            return
        position = window_start + found + SYNC_SIZE
    at = position - window_start
    while window_start + at < stop:
        block, after, window = _next_block(stream, window, at, header.sync)
        if block is None:
            return
        yield Block(window_start + at, block.reports, block.data, block.problem)
        at = after


def _next_block(stream: IO[bytes], window: bytes, at: int, sync: bytes) -> tuple[Block | None, int, bytes]:
    """(block, where the next one starts, the window with what had to be read for them)."""
    if len(window) - at < 20:
        window += stream.read(64 * 1024)
    if at >= len(window):
        return None, at, window
    count, size, data_at = 0, -1, at
    try:
        count, after_count = _read_long(window, at)
        size, data_at = _read_long(window, after_count)
    except IndexError:
        pass
    end = data_at + size
    if count >= 0 and size >= 0:
        # A corrupt size may claim the rest of the disk: ask for a block's worth at a time.
        while len(window) < end + SYNC_SIZE:
            more = stream.read(min(end + SYNC_SIZE - len(window), 1 << 26))
            if not more:
                break
            window += more
        if window[end : end + SYNC_SIZE] == sync:
            return Block(0, count, window[data_at:end]), end + SYNC_SIZE, window
    found = window.find(sync, at)
    while found < 0:
        more = stream.read(1 << 20)
        if not more:
            cut = Block(0, 1, window[at:], "the file ends inside a block, or its last block is corrupt")
            return cut, len(window), window
        searched = max(at, len(window) - SYNC_SIZE)
        window += more
        found = window.find(sync, searched)
    corrupt = Block(0, 1, window[at:found], "not followed by the file's sync marker")
    return corrupt, found + SYNC_SIZE, window


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    """Avro's zigzag integer at a place of some bytes, and where it ends."""
    value, shift = 0, 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise IndexError("an integer of more than 64 bits")


def fixed_dtype(writer_schema: Any) -> np.dtype[Any] | None:
    """The NumPy dtype of a record schema of fixed-width fields only, else None."""
    if not isinstance(writer_schema, dict) or writer_schema.get("type") != "record":
        return None
    fields: list[tuple[str, str]] = []
    named: dict[str, int] = {}
    for field in writer_schema["fields"]:
        kind = field["type"]
        if isinstance(kind, dict) and kind.get("type") in _WIDTHS:
            kind = kind["type"]
        if isinstance(kind, dict) and kind.get("type") == "fixed":
            named[kind["name"]] = kind["size"]
            kind = kind["name"]
        if not isinstance(kind, str) or (kind not in named and kind not in _WIDTHS):
            return None
        fields.append((field["name"], _WIDTHS.get(kind) or f"V{named[kind]}"))
    return np.dtype(fields)


def _uncompressed(codec: str, data: bytes) -> bytes | None:
    """A block's bytes for the codecs that every platform has, None for others."""
    if codec == "null":
        return data
    if codec == "deflate":
        return zlib.decompress(data, -15)
    if codec == "snappy":
        return bytes(cramjam.snappy.decompress_raw(data[:-4]))
    return None


def decode_blocks(
    header: Header, blocks: Iterator[Block], wanted: Columns
) -> Iterator[pa.RecordBatch | Block]:
    """Batches of reports from blocks; a block that cannot be decoded comes back with its problem."""
    dtype = fixed_dtype(header.writer_schema)
    rows: list[NDArray[Any]] = []
    starts: list[int] = []
    for block in blocks:
        if block.problem:
            yield block
            continue
        try:
            data = _uncompressed(header.codec, block.data) if dtype is not None else None
            if dtype is None or data is None:
                yield _decode_records(header, block, wanted)
                continue
            if len(data) != block.reports * dtype.itemsize:
                raise ValueError(
                    f"{block.reports} records of {dtype.itemsize} bytes are not {len(data)} bytes"
                )
        except Exception as error:  # every codec and fastavro raise their own
            yield Block(block.position, max(1, block.reports), block.data, f"it does not decode: {error}")
            continue
        rows.append(np.frombuffer(data, dtype=dtype))
        starts.append(block.position)
        if sum(map(len, rows)) >= BATCH_REPORTS:
            yield _fixed_batch(rows, starts, header.metadata, wanted)
            rows, starts = [], []
    if rows:
        yield _fixed_batch(rows, starts, header.metadata, wanted)


def _fixed_batch(
    rows: Sequence[NDArray[Any]],
    starts: Sequence[int],
    metadata: Mapping[str, str],
    wanted: Columns,
) -> pa.RecordBatch:
    lengths = [len(part) for part in rows]
    records = rows[0] if len(rows) == 1 else np.concatenate(rows)
    columns: dict[str, pa.Array] = {}
    for name in records.dtype.names or ():
        if name in wanted.names:
            values = np.ascontiguousarray(records[name])
            if values.dtype.kind == "V":
                width = values.dtype.itemsize
                columns[name] = pa.Array.from_buffers(
                    pa.binary(width), len(values), [None, pa.py_buffer(values)]
                )
            else:
                columns[name] = pa.array(values)
    position = np.repeat(np.array(starts, dtype=np.int64), lengths)
    row = np.concatenate([np.arange(length) for length in lengths])
    return decoded(columns, wanted, metadata, pa.array(position), pa.array(row))


def _decode_records(header: Header, block: Block, wanted: Columns) -> pa.RecordBatch:
    """One block of any schema: a container of this block alone, read by fastavro."""
    framing = io.BytesIO()
    fastavro.schemaless_writer(framing, "long", block.reports)
    fastavro.schemaless_writer(framing, "long", len(block.data))
    container = header.text + framing.getvalue() + block.data + header.sync
    records: list[Any] = list(fastavro.reader(io.BytesIO(container)))
    if records and not isinstance(records[0], Mapping):
        raise ValueError("its schema is no record")
    return decoded(
        columns_of(records, wanted.names),
        wanted,
        header.metadata,
        pa.array(np.full(len(records), block.position)),
        pa.array(np.arange(len(records))),
    )


def fixed_report_schema(widths: Mapping[str, int]) -> dict[str, Any]:
    """A report schema of fixed-width fields: doubles, but fixed bytes where a width is given."""
    fields: list[dict[str, Any]] = []
    for name in ("user_id", "event_time", "payload", *(n for n in widths if n not in _FIRST)):
        size = widths.get(name)
        kind = {"type": "fixed", "name": f"{name}_bytes", "size": size} if size else "double"
        fields.append({"name": name, "type": kind})
    return {"type": "record", "name": "Report", "namespace": "ldpbeam", "fields": fields}


_FIRST = ("user_id", "event_time", "payload")


def write_fixed(
    stream: IO[bytes],
    records: NDArray[Any],
    writer_schema: dict[str, Any],
    metadata: Mapping[str, str],
    sync: bytes,
    block_records: int = 16_384,
) -> None:
    """A whole container file of fixed-width records, a structured array of ``fixed_dtype``."""
    meta = {"avro.schema": json.dumps(writer_schema).encode(), "avro.codec": b"null"}
    meta |= {key: value.encode() for key, value in metadata.items()}
    fastavro.schemaless_writer(stream, _HEADER, {"magic": MAGIC, "meta": meta, "sync": sync})
    for start in range(0, len(records), block_records):
        block = records[start : start + block_records].tobytes()
        count = min(block_records, len(records) - start)
        fastavro.schemaless_writer(stream, "long", count)
        fastavro.schemaless_writer(stream, "long", len(block))
        stream.write(block)
        stream.write(sync)

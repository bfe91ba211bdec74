"""The framing of Avro container files: header, blocks, sync markers.

It is read here and not by fastavro so that files can be split, and so that a corrupt block costs only itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import fastavro

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
HEADER_SCHEMA = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_SIZE}},
    ],
}
#: Files are read in steps of this many bytes where a block's size says that more is needed.
STEP_BYTES = 2**20
#: No block has more records; a larger count is a corrupt one.
MOST_RECORDS = 2**24
#: Two integers of at most ten bytes each stand before a block's data.
_LONGEST_PREFIX = 20


@dataclass(frozen=True)
class Header:
    """What the start of a container file says.

    Attributes:
        size: the header's length in bytes; the first block follows.
        writer_schema: the schema its records were written with.
        codec: null, deflate, snappy, ...
        metadata: its text entries besides Avro's own.
        sync: the marker after the header and each block.
    """

    size: int
    writer_schema: Any
    codec: str
    metadata: Mapping[str, str]
    sync: bytes


def read_header(stream: IO[bytes]) -> Header:
    """The header at the start of a stream.

    Raises:
        ValueError: if there is none, or its schema is not valid.
    """
    counted = _Counted(stream)
    try:
        found: Any = fastavro.schemaless_reader(counted, HEADER_SCHEMA, None)
        writer_schema = json.loads(found["meta"]["avro.schema"])
        fastavro.parse_schema(writer_schema, expand=False)
        _refuse_doubled_fields(writer_schema)
    except Exception as error:  # a damaged header can fail in any of fastavro's ways
        raise ValueError(f"no Avro header: {error!r}") from None
    if found["magic"] != MAGIC:
        raise ValueError("no Avro header")
    return Header(
        size=counted.taken,
        writer_schema=writer_schema,
        codec=found["meta"].get("avro.codec", b"null").decode(),
        metadata={
            key: value.decode("utf-8", "replace")
            for key, value in found["meta"].items()
            if not key.startswith("avro.")
        },
        sync=found["sync"],
    )


class _Counted:
    """A stream that counts what was read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int) -> bytes:
        part = self._stream.read(size)
        self.taken += len(part)
        return part


def _refuse_doubled_fields(writer_schema: Any) -> None:
    if isinstance(writer_schema, dict) and writer_schema.get("type") == "record":
        names = [field["name"] for field in writer_schema["fields"]]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"fields stand twice in the schema: {', '.join(twice)}")


def write_header(
    stream: IO[bytes], writer_schema: Any, metadata: Mapping[str, str], sync: bytes, codec: str = "null"
) -> None:
    """The header of a container file, whose blocks are compressed by who writes them."""
    meta = {"avro.schema": json.dumps(writer_schema).encode(), "avro.codec": codec.encode()}
    meta |= {key: value.encode() for key, value in metadata.items()}
    fastavro.schemaless_writer(stream, HEADER_SCHEMA, {"magic": MAGIC, "meta": meta, "sync": sync})


def write_block(stream: IO[bytes], records: int, data: bytes, sync: bytes) -> None:
    """One block of a container file."""
    fastavro.schemaless_writer(stream, "long", records)
    fastavro.schemaless_writer(stream, "long", len(data))
    stream.write(data)
    stream.write(sync)


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


class _Window:
    """A growing part of a file."""

    def __init__(self, stream: IO[bytes], start: int) -> None:
        self._stream = stream
        self.start = start
        self.data = b""
        stream.seek(start)

    def grow(self, size: int = STEP_BYTES) -> bool:
        """Read on; whether there was anything."""
        more = self._stream.read(size)
        self.data += more
        return bool(more)

    def find(self, marker: bytes, at: int) -> int:
        """Where a marker stands from ``at`` on, reading on as far as needed; -1 if nowhere."""
        while True:
            found = self.data.find(marker, at)
            if found >= 0:
                return found
            at = max(at, len(self.data) - len(marker) + 1)
            if not self.grow():
                return -1


def read_blocks(stream: IO[bytes], header: Header, start: int, stop: int) -> Iterator[Block]:
    """The blocks of a seekable stream whose preceding sync marker ends in [start, stop).

    Every block is in one such range, a corrupt stretch in that of the marker before it, with the blocks in it
    that can be told although a marker is damaged.
    """
    if start <= header.size:
        window, at = _Window(stream, header.size), 0
    else:
        window = _Window(stream, start - SYNC_SIZE)
        found = window.find(header.sync, 0)
        if found < 0:
            return
        at = found + SYNC_SIZE
    window.grow(max(0, stop - window.start))
    while window.start + at < stop:
        if at >= len(window.data) and not window.grow():
            return
        end = _end_of_segment(window, at, header.sync)
        yield from _segment(window, at, end, header.sync)
        at = end + SYNC_SIZE


def _end_of_segment(window: _Window, at: int, sync: bytes) -> int:
    """Where the next sync marker stands; the end of the file if there is none."""
    _, data_at, size = _prefix(window, at)
    if size >= 0:
        end = data_at + size
        # A corrupt size may claim the rest of the disk: a marker on the way proves it wrong.
        looked = at
        while len(window.data) < end + SYNC_SIZE:
            if window.data.find(sync, looked) >= 0:
                break
            looked = max(at, len(window.data) - SYNC_SIZE + 1)
            if not window.grow(min(end + SYNC_SIZE - len(window.data), STEP_BYTES)):
                break
        if window.data[end : end + SYNC_SIZE] == sync:
            return end
    found = window.find(sync, at)
    return found if found >= 0 else len(window.data)


def _prefix(window: _Window, at: int) -> tuple[int, int, int]:
    """(count, where the data starts, size) of a block; size -1 where there is no such prefix."""
    if len(window.data) - at < _LONGEST_PREFIX:
        window.grow()
    return _read_prefix(window.data, at)


def _read_prefix(data: bytes, at: int) -> tuple[int, int, int]:
    count = 0
    try:
        count, at = _read_long(data, at)
        size, at = _read_long(data, at)
    except IndexError:
        return count, at, -1
    return count, at, size if count >= 0 else -1


def _segment(window: _Window, at: int, end: int, sync: bytes) -> Iterator[Block]:
    """The blocks between two sync markers: one, unless a marker in between is damaged."""
    data = window.data
    while at < end:
        count, data_at, size = _read_prefix(data, at)
        if size >= 0 and data_at + size == end and data[end : end + SYNC_SIZE] == sync:
            yield Block(window.start + at, count, data[data_at:end])
            return
        after = data_at + size + SYNC_SIZE
        stretch = after if size >= 0 and _is_block(data, after, end, sync) else end
        whole = data[end : end + SYNC_SIZE] == sync
        problem = (
            "not followed by the file's sync marker"
            if whole
            else "the file ends inside a block, or its last block is corrupt"
        )
        known = count if 0 < count <= (stretch - at if whole else MOST_RECORDS) else 1
        yield Block(window.start + at, known, data[at:stretch], problem)
        at = stretch


def _is_block(data: bytes, at: int, end: int, sync: bytes) -> bool:
    """Whether blocks stand from there on, one behind the other, up to the end of their segment."""
    while at < end:
        _, data_at, size = _read_prefix(data, at)
        if size < 0 or data_at + size > end:
            return False
        if data_at + size == end:
            return data[end : end + SYNC_SIZE] == sync
        at = data_at + size + SYNC_SIZE
    return False


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

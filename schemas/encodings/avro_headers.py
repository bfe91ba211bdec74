"""The headers of Avro container files, read and written, and the framing of written blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import fastavro

from ldpbeam.schemas.avro_schemas import Shape, measure

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
#: The most bytes of a header.
MOST_HEADER_BYTES = 2**22


@dataclass(frozen=True)
class Header:
    """The header of a container file.

    Attributes:
        size: the header's length in bytes; the first block follows.
        writer_schema: the schema that the records were written with.
        codec: null, deflate, snappy, ...
        metadata: the entries besides Avro's own, as text.
        sync: the marker after the header and after each block, 16 bytes.
        shape: bounds on the size of records.
    """

    size: int
    writer_schema: Any
    codec: str
    metadata: Mapping[str, str]
    sync: bytes
    shape: Shape


def read_header(stream: IO[bytes]) -> Header:
    """Read the header at the start of a stream.

    Raises:
        ValueError: if there is no header, it is too large, its schema is invalid, or its schema lets a few
            bytes expand to any number of values.
    """
    counted = _Counted(stream)
    try:
        fields: Any = fastavro.schemaless_reader(counted, HEADER_SCHEMA, None)
        writer_schema = json.loads(fields["meta"]["avro.schema"])
        shape = measure(writer_schema)
    except ValueError as error:
        raise ValueError(f"no Avro header: {error}") from None
    except Exception as error:  # a damaged header can raise any of fastavro's errors
        raise ValueError(f"no Avro header: {error!r}") from None
    if fields["magic"] != MAGIC:
        raise ValueError("no Avro header")
    return Header(
        size=counted.taken,
        writer_schema=writer_schema,
        codec=fields["meta"].get("avro.codec", b"null").decode("utf-8", "replace"),
        metadata={
            key: value.decode("utf-8", "replace")
            for key, value in fields["meta"].items()
            if not key.startswith("avro.")
        },
        sync=fields["sync"],
        shape=shape,
    )


class _Counted:
    """A stream that counts the bytes read from it, and refuses to read more than ``MOST_HEADER_BYTES``."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int) -> bytes:
        if not 0 <= size <= MOST_HEADER_BYTES - self.taken:
            raise ValueError(f"it is longer than {MOST_HEADER_BYTES // 2**20} MB")
        part = self._stream.read(size)
        self.taken += len(part)
        return part


def write_header(
    stream: IO[bytes], writer_schema: Any, metadata: Mapping[str, str], sync: bytes, codec: str = "null"
) -> None:
    """Write the header of a container file; the caller compresses the blocks with ``codec``."""
    meta = {"avro.schema": json.dumps(writer_schema).encode(), "avro.codec": codec.encode()}
    meta |= {key: value.encode() for key, value in metadata.items()}
    fastavro.schemaless_writer(stream, HEADER_SCHEMA, {"magic": MAGIC, "meta": meta, "sync": sync})


def write_block(stream: IO[bytes], records: int, data: bytes, sync: bytes) -> None:
    """Write one block of a container file: its record count, its size, its data and the sync marker."""
    fastavro.schemaless_writer(stream, "long", records)
    fastavro.schemaless_writer(stream, "long", len(data))
    stream.write(data)
    stream.write(sync)

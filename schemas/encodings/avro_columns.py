"""Avro containers made of Arrow columns, with the bytes that fastavro writes record by record."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import IO, Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.encodings.avro_headers import write_block
from ldpbeam.schemas.reports.casts import binary_of_width

#: A block ends with the record that brings it to this many bytes before compression.
BLOCK_BYTES = 16_000
_NOTHING = pa.scalar(b"", pa.large_binary())


def write_columns(
    stream: IO[bytes],
    writer_schema: dict[str, Any],
    batches: Iterable[pa.RecordBatch],
    sync: bytes,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a whole container file with the codec deflate.

    Args:
        stream: the file.
        writer_schema: a record of long, double, string and bytes, each of them plain or in a union after
            null.
        batches: have a column for each field.
        sync: the sync marker, 16 bytes.
        metadata: further entries of the header.
    """
    fastavro.writer(
        stream, writer_schema, [], codec="deflate", metadata=dict(metadata or {}), sync_marker=sync
    )
    held, records = b"", 0
    for batch in batches:
        fields = [_encoded(batch.column(field["name"]), field["type"]) for field in writer_schema["fields"]]
        _, offsets, data = pc.binary_join_element_wise(*fields, _NOTHING).buffers()
        ends = np.frombuffer(offsets, np.int64)[: batch.num_rows + 1]
        start = 0
        while start < batch.num_rows:
            stop = int(np.searchsorted(ends, ends[start] + BLOCK_BYTES - len(held)))
            last = min(stop, batch.num_rows)
            held += memoryview(data)[ends[start] : ends[last]]
            records += last - start
            if stop <= batch.num_rows:
                _write(stream, records, held, sync)
                held, records = b"", 0
            start = last
    if records:
        _write(stream, records, held, sync)


def _write(stream: IO[bytes], records: int, plain: bytes, sync: bytes) -> None:
    # As fastavro does it: three bytes of zlib's checksum stay behind the stream; readers ignore them.
    write_block(stream, records, zlib.compress(plain)[2:-1], sync)


def _encoded(column: pa.Array, kind: Any) -> pa.Array:
    """The bytes of each value, a large_binary array without nulls."""
    if isinstance(kind, list):
        filled = pc.fill_null(column, 0 if pa.types.is_integer(column.type) else b"")
        some = pc.binary_join_element_wise(
            pa.scalar(b"\x02", pa.large_binary()), _encoded(filled, kind[1]), _NOTHING
        )
        return pc.if_else(column.is_valid(), some, pa.scalar(b"\x00", pa.large_binary()))
    if kind == "long":
        return _longs(column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))
    if kind == "double":
        numbers = column.to_numpy(zero_copy_only=False).astype("<f8")
        return binary_of_width(numbers.view(np.uint8).reshape(-1, 8)).cast(pa.large_binary())
    data = column.cast(pa.binary()).cast(pa.large_binary())
    lengths = _longs(pc.binary_length(data).to_numpy(zero_copy_only=False))
    return pc.binary_join_element_wise(lengths, data, _NOTHING)


def _longs(numbers: NDArray[np.int64]) -> pa.Array:
    """Avro's zigzag integers: seven bits a byte, the lowest first; all but the last have the highest bit."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    most = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
    shifted = zigzag[:, None] >> (7 * np.arange(most, dtype=np.uint64))
    more = shifted >= 128
    written = np.column_stack((np.ones(len(numbers), dtype=bool), more[:, :-1]))
    data = ((shifted & np.uint64(127)) | (more * np.uint64(128))).astype(np.uint8)[written]
    offsets = np.concatenate(([0], np.cumsum(written.sum(axis=1))))
    return pa.Array.from_buffers(
        pa.large_binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )

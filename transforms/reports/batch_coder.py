"""The coder of batches; whoever has a PCollection of batches imports this module."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from ldpbeam.transforms.reports.dead_letters import SCHEMA


class BatchCoder(beam.coders.Coder):
    """Encodes a batch as an Arrow IPC stream; by default Beam would pickle it.

    The shuffle dominates the cost of a run, so the columns are narrowed: event times become 32-bit offsets
    from the earliest. A dead letter takes 72 bytes instead of 172: its hash becomes bytes, and texts, which
    are few, are encoded once. Batches of other columns, which a pipeline that imports ldpbeam may have, come
    out as they went in.
    """

    def encode(self, value: pa.RecordBatch) -> bytes:
        """The bytes of the IPC stream."""
        sink = pa.BufferOutputStream()
        self.write(value, sink)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def write(self, value: pa.RecordBatch, sink: Any) -> None:
        """Write the bytes of the IPC stream to a file."""
        narrow = value if _has_twins(value) else _narrow(value)
        with pa.ipc.new_stream(sink, narrow.schema) as writer:
            writer.write_batch(narrow)

    def decode(self, encoded: bytes | pa.Buffer) -> pa.RecordBatch:
        """The batch, with the columns that were encoded."""
        with pa.ipc.open_stream(encoded) as reader:
            batch = reader.read_next_batch()
            return batch if _has_twins(batch) else _widened(batch)

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """The bytes in memory. Beam asks at each step, and by default encodes the batch to answer."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """False, so that Beam refuses a batch as a key."""
        return False


#: In the metadata of an encoded batch: the earliest event time, and that its dead letters are narrow.
_EARLIEST, _LETTERS = b"earliest", b"letters"
_HASH = pa.binary(32)
#: The columns of dead letters with few different texts.
_REPEATED = ("file", "reason", "detail")


def _has_twins(batch: pa.RecordBatch) -> bool:
    """Whether columns of a batch have the same name, as none of ldpbeam's own have."""
    return bool(len(set(batch.schema.names)) < batch.num_columns)


def _narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    metadata = dict(batch.schema.metadata or {})
    if batch.schema.equals(SCHEMA):
        hashes = _from_hexadecimal(columns["sha256"])
        if hashes is not None:
            columns |= {name: columns[name].dictionary_encode() for name in _REPEATED}
            columns["sha256"] = hashes
            metadata[_LETTERS] = b""
    times = columns.get("event_time")
    if times is not None and times.type == pa.int64() and len(times) and not times.null_count:
        given = times.to_numpy()
        earliest = given.min()
        if given.max() - earliest < 2**32:
            columns["event_time"] = pa.array((given - earliest).astype(np.uint32))
            metadata[_EARLIEST] = str(earliest).encode()
    return pa.RecordBatch.from_pydict(columns).replace_schema_metadata(metadata)


def _widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    metadata = dict(batch.schema.metadata or {})
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if metadata.pop(_LETTERS, None) is not None:
        columns |= {name: columns[name].dictionary_decode() for name in _REPEATED}
        columns["sha256"] = _hexadecimal(columns["sha256"])
    if _EARLIEST in metadata:
        earliest = int(metadata.pop(_EARLIEST))
        columns["event_time"] = pa.array(columns["event_time"].to_numpy().astype(np.int64) + earliest)
    return pa.RecordBatch.from_pydict(columns).replace_schema_metadata(metadata)


def _from_hexadecimal(texts: pa.Array) -> pa.Array | None:
    """Hashes as 32 bytes each; None if a text is not 64 hexadecimal digits."""
    digits = "".join(texts.drop_null().to_pylist())
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        return None
    hashes = pa.Array.from_buffers(_HASH, len(data) // 32, [None, pa.py_buffer(data)])
    return hashes if _hexadecimal(hashes).equals(texts) else None


def _hexadecimal(hashes: pa.Array) -> pa.Array:
    """Hashes of 32 bytes as 64 hexadecimal digits each."""
    first = 32 * hashes.offset
    digits = hashes.buffers()[1][first : first + 32 * len(hashes)].to_pybytes().hex()
    offsets = np.arange(0, len(digits) + 1, 64, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(hashes), [None, pa.py_buffer(offsets), pa.py_buffer(digits.encode())]
    )


beam.coders.registry.register_coder(pa.RecordBatch, BatchCoder)

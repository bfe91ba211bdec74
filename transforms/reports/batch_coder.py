"""The coder of batches; whoever has a PCollection of batches imports this module."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa


class BatchCoder(beam.coders.Coder):
    """Encodes a batch as a compressed Arrow IPC stream; by default Beam would pickle it."""

    _options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))

    def encode(self, value: pa.RecordBatch) -> bytes:
        """The bytes of the IPC stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema, options=self._options) as writer:
            writer.write_batch(value)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """The batch."""
        with pa.ipc.open_stream(encoded) as reader:
            return reader.read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """The bytes in memory. Beam asks at each step, and by default encodes the batch to answer."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """False, so that Beam refuses a batch as a key."""
        return False


beam.coders.registry.register_coder(pa.RecordBatch, BatchCoder)

"""The element of every PCollection up to the statistics: an Arrow RecordBatch of one channel's reports.

Its columns are ``user`` (binary), ``event_time`` (int64 milliseconds, 0 where the study has no use for
one), ``payload`` (the mechanism's type), and where the input has them ``report_id`` (binary) and
``group`` (string). Its schema's metadata names the attribute and the channel.
"""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.schemas.study import Study


def tagged(batch: pa.RecordBatch, attribute: str, version: int) -> pa.RecordBatch:
    """The batch, its schema naming an attribute and a channel of it."""
    return batch.replace_schema_metadata({"attribute": attribute, "version": str(version)})


def version_index(batch: pa.RecordBatch) -> int:
    """The channel's index in the attribute's ``versions``."""
    return int(batch.schema.metadata[b"version"])


def attribute_name(batch: pa.RecordBatch) -> str:
    """The attribute's name."""
    name: str = batch.schema.metadata[b"attribute"].decode()
    return name


def channel_of(study: Study, batch: pa.RecordBatch) -> tuple[Attribute, ServiceVersion]:
    """The attribute and the channel a batch is of."""
    attribute = study.attribute(attribute_name(batch))
    return attribute, attribute.versions[version_index(batch)]


class BatchCoder(beam.coders.Coder):
    """A batch as an Arrow IPC stream; Beam would pickle it."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        """The stream's bytes."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """A batch over the same memory."""
        with pa.ipc.open_stream(encoded) as reader:
            return reader.read_next_batch()

    def is_deterministic(self) -> bool:
        """Never a key."""
        return False


beam.coders.registry.register_coder(pa.RecordBatch, BatchCoder)

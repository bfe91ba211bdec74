"""Files and messages of any records, as bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq


def avro_file(schema: Any, records: Iterable[Any], **options: Any) -> bytes:
    fastavro.writer(stream := io.BytesIO(), schema, records, **options)
    return stream.getvalue()


def parquet_file(table: pa.Table, **options: Any) -> bytes:
    pq.write_table(table, stream := io.BytesIO(), **options)
    return stream.getvalue()


def arrow_stream(*batches: pa.RecordBatch | pa.Table, **options: Any) -> bytes:
    """A stream of batches of a schema; the options are those of writing."""
    written, stream = pa.ipc.IpcWriteOptions(**options), io.BytesIO()
    with pa.ipc.new_stream(stream, batches[0].schema, options=written) as writer:
        for batch in batches:
            writer.write(batch)
    return stream.getvalue()

"""The element of every PCollection up to the statistics: an Arrow RecordBatch of one channel's reports.

Its columns are ``user`` (binary), ``event_time`` (int64 epoch milliseconds, 0 if the study does not need one
and the report has none), ``payload`` (the mechanism's type), and if the input has them ``report_id``
(binary), ``DELIVERY`` (binary) and ``group`` (string). Its schema's metadata names the attribute and the
channel.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: The key in a schema's metadata under which a stream's source writes its watermark, in epoch milliseconds.
WATERMARK = b"watermark"


def tagged(
    batch: pa.RecordBatch, attribute: str, version: int, watermark: bytes | None = None
) -> pa.RecordBatch:
    """The batch with its attribute, its channel, and in a stream the watermark, in the schema's metadata."""
    tags: dict[str | bytes, str | bytes] = {"attribute": attribute, "version": str(version)}
    if watermark is not None:
        tags[WATERMARK] = watermark
    return batch.replace_schema_metadata(tags)


def version_index(batch: pa.RecordBatch) -> int:
    """The index of a batch's channel in the attribute's ``versions``."""
    return int(batch.schema.metadata[b"version"])


def attribute_name(batch: pa.RecordBatch) -> str:
    """The name of a batch's attribute."""
    name: str = batch.schema.metadata[b"attribute"].decode()
    return name


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    """Which values of a column are null."""
    nulls: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls

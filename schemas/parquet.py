"""Parquet files, read as columns by pyarrow, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.schemas.reports import Columns, decoded

MAGIC = b"PAR1"
BATCH_REPORTS = 131_072


def row_groups(stream: IO[bytes]) -> list[int]:
    """The number of rows of each row group.

    Raises:
        ValueError: if this is no Parquet file, or its footer contradicts itself.
    """
    try:
        metadata = pq.ParquetFile(stream).metadata
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"no Parquet file: {error}") from None
    groups = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    if sum(groups) != metadata.num_rows:
        raise ValueError(
            f"its row groups have {sum(groups):,} rows, and its footer says {metadata.num_rows:,}"
        )
    return groups


def decode_row_group(stream: IO[bytes], index: int, wanted: Columns) -> Iterator[pa.RecordBatch]:
    """Batches of reports from one row group.

    Raises:
        ValueError: if it does not decode.
    """
    try:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        names = [name for name in file.schema_arrow.names if name in wanted.names]
        if len(set(names)) < len(names):
            raise ValueError(f"columns stand twice: {', '.join(sorted(names))}")
        if index >= file.metadata.num_row_groups:
            raise ValueError(f"it does not decode: there is no row group {index}")
        rows = file.metadata.row_group(index).num_rows
        table = file.read_row_group(index, columns=names, use_threads=False)
        entries = (file.schema_arrow.metadata or {}).items()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it does not decode: {error}") from None
    metadata = {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in entries}
    for start in range(0, rows, BATCH_REPORTS):
        count = min(BATCH_REPORTS, rows - start)
        part = table.slice(start, count)
        yield decoded(
            {name: part.column(name) for name in names},
            wanted,
            metadata,
            pa.array(np.full(count, index)),
            pa.array(np.arange(start, start + count)),
        )

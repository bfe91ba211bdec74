"""Parquet files, read as columns by pyarrow, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ldpbeam.schemas.arrow_sizes import expanded_bytes
from ldpbeam.schemas.reports import Columns, decoded

MAGIC = b"PAR1"
#: Batches have at most so many reports, and about so many bytes.
BATCH_REPORTS, BATCH_BYTES = 131_072, 2**26
#: Column chunks are read through a buffer of this size.
BUFFER_BYTES = 2**20
#: No string in a footer is longer.
MOST_FOOTER = 2**25
_TEXT = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)


def row_groups(stream: IO[bytes]) -> list[int]:
    """The number of rows of each row group.

    Raises:
        ValueError: if this is no Parquet file, or its footer contradicts itself.
    """
    try:
        metadata = _opened(stream).metadata
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
        file = _opened(stream)
        names = [name for name in file.schema_arrow.names if name in wanted.names]
        if len(set(names)) < len(names):
            raise ValueError(f"columns stand twice: {', '.join(sorted(names))}")
        if index >= file.metadata.num_row_groups:
            raise ValueError(f"it does not decode: there is no row group {index}")
        group = file.metadata.row_group(index)
        entries = (file.schema_arrow.metadata or {}).items()
        metadata = {
            key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in entries
        }
        shared = _long_dictionaries(stream, file, index, names)
        if shared:
            file = _opened(stream, shared)
        start = 0
        for batch in _batches(file, index, names, group.num_rows):
            # Text that is not UTF-8 is read as it is.
            batch.validate(full=True)
            for part in _parts(batch, shared):
                columns = dict(zip(names, part.columns, strict=True))
                rows = np.arange(start, start + part.num_rows)
                position = pa.array(np.full(part.num_rows, index))
                yield decoded(columns, wanted, metadata, position, pa.array(rows))
                start += part.num_rows
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it does not decode: {error}") from None
    if start != group.num_rows:
        raise ValueError(f"it has {start:,} rows, and its footer says {group.num_rows:,}")


def _opened(stream: IO[bytes], read_dictionary: Sequence[str] = ()) -> Any:
    limits = {"thrift_string_size_limit": MOST_FOOTER, "thrift_container_size_limit": MOST_FOOTER // 16}
    return pq.ParquetFile(
        stream,
        read_dictionary=list(read_dictionary),
        buffer_size=BUFFER_BYTES,
        page_checksum_verification=True,
        **limits,
    )


def _long_dictionaries(stream: IO[bytes], file: Any, index: int, names: Sequence[str]) -> list[str]:
    """The columns whose dictionary has a value that a whole batch cannot repeat in memory."""
    text = [name for name in names if any(kind(file.schema_arrow.field(name).type) for kind in _TEXT)]
    if not text or not file.metadata.row_group(index).num_rows:
        return []
    # Its first row brings a column's whole dictionary. What a footer says of columns can end the process.
    reader = _opened(stream, text)
    first = next(reader.iter_batches(1, row_groups=[index], columns=text, use_threads=False), None)
    if first is None:
        raise ValueError("it does not decode: it has no rows")
    return [
        name
        for name, column in zip(first.schema.names, first.columns, strict=True)
        if pa.types.is_dictionary(column.type)
        and BATCH_REPORTS * (pc.max(pc.binary_length(column.dictionary)).as_py() or 0) > BATCH_BYTES
    ]


def _batches(file: Any, index: int, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    if names:
        yield from file.iter_batches(BATCH_REPORTS, row_groups=[index], columns=names, use_threads=False)
        return
    for start in range(0, rows, BATCH_REPORTS):
        length = min(BATCH_REPORTS, rows - start)
        yield pa.RecordBatch.from_struct_array(pa.array([{}] * length, pa.struct([])))


def _parts(batch: pa.RecordBatch, shared: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A batch in parts whose columns are small without their dictionaries."""
    size = sum(expanded_bytes(batch.column(name)) for name in shared)
    if size <= BATCH_BYTES or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle), shared)
    yield from _parts(batch.slice(middle), shared)

"""Parquet files, which pyarrow reads as columns, one row group at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ldpbeam.schemas.encodings import parquet_pages, per_byte
from ldpbeam.schemas.encodings.arrow_sizes import expanded_bytes
from ldpbeam.schemas.encodings.parquet_pages import BYTE_ARRAY, Footer, Leaf, Pages, most_bytes
from ldpbeam.schemas.reports.columns import Columns, decoded, text_of, whole_of, with_most_letters

MAGIC = b"PAR1"
#: The most reports of a batch, and about the most bytes.
BATCH_REPORTS, BATCH_BYTES = 131_072, 2**26
#: The most bytes that Arrow can need for a batch, whatever its values are.
MOST_BATCH = 2**27
#: The most bytes of a row group's values, unless its compressed size permits more.
MOST_VALUES = 2**32
#: The most batches in which a row group is read.
MOST_BATCHES = 2**15
#: Column chunks are read through a buffer of this size.
BUFFER_BYTES = 2**20


def row_groups(stream: IO[bytes]) -> list[int]:
    """The number of rows of each row group.

    Raises:
        ValueError: if the file is not a Parquet file, or its footer contradicts itself.
    """
    try:
        footer = parquet_pages.read_footer(stream)
        metadata = opened(stream).metadata
    except (MemoryError, per_byte.TooManyError):
        # Arrow's MemoryError is an ArrowException too; lack of memory does not mean that the file is damaged.
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"no Parquet file: {error}") from None
    groups = list(footer.rows)
    if sum(groups) != metadata.num_rows:
        raise ValueError(
            f"its row groups have {sum(groups):,} rows, and its footer says {metadata.num_rows:,}"
        )
    return groups


def metadata_of(stream: IO[bytes]) -> dict[str, str]:
    """The metadata of a file for which :func:`row_groups` raises no error, as text."""
    stream.seek(0)
    return text_of(opened(stream).schema_arrow.metadata)


def decode_row_group(
    stream: IO[bytes], index: int, wanted: Columns, file: Any = None
) -> Iterator[pa.RecordBatch]:
    """Decode one row group to batches of reports.

    Args:
        stream: a seekable Parquet file.
        index: the row group, from 0.
        wanted: which columns are read.
        file: the file as :func:`opened` gives it, so that its footer is parsed once for all row groups.

    Raises:
        ValueError: if the row group does not decode; possibly after some batches.
    """
    start, rows = 0, 0
    try:
        footer = parquet_pages.read_footer(stream)
        if index >= len(footer.rows):
            raise ValueError(f"there is no row group {index}")
        rows = footer.rows[index]
        read = _read_columns(stream, footer, index, wanted)
        names, payload = list(read), wanted.fields["payload"]
        packed = sum(chunk.size for chunk in footer.chunks[index])
        per_byte.check(rows * len(names), packed, per_byte.VALUES_OF_COLUMNS, "values")
        fields = sorted({leaf.root for leaf in footer.leaves})
        file = file or opened(stream)
        metadata = text_of(file.schema_arrow.metadata)
        shared, most = _ways(stream, index, read, rows)
        if shared:
            file = opened(stream, shared)
        permitted = left = max(MOST_VALUES, parquet_pages.MOST_RATIO * packed)
        places = [footer.leaves.index(leaf) for leaf, _ in read.values()]
        for batch in _batches(file, index, places, rows, most):
            # Arrow reads text without checking that it is UTF-8; the validation checks it.
            batch.validate(full=True)
            left -= sum(
                expanded_bytes(column) if name in shared else column.nbytes
                for name, column in zip(names, batch.columns, strict=True)
            )
            if left < 0:
                raise ValueError(f"its values would have more than {permitted:,} bytes")
            for part in _parts(batch, shared):
                columns = dict(zip(names, part.columns, strict=True))
                if any(leaf.root == payload and not leaf.flat for leaf in footer.leaves):
                    # A nested payload is invalid. It becomes NaN, because null would mean a missing payload.
                    columns[payload] = pa.array(np.full(part.num_rows, np.nan))
                row = pa.array(np.arange(start, start + part.num_rows))
                position = pa.array(np.full(part.num_rows, index))
                whole = whole_of(dict(zip(names, part.columns, strict=True))) if wanted.whole else None
                reports = decoded(columns, wanted, metadata, position, row, lambda _: fields, whole)
                yield with_most_letters(reports, rows, packed)
                start += part.num_rows
    except (MemoryError, per_byte.TooManyError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"it does not decode: {error}") from None
    if start != rows:
        raise ValueError(f"it has {start:,} rows, and its footer says {rows:,}")


def _read_columns(
    stream: IO[bytes], footer: Footer, index: int, wanted: Columns
) -> dict[str, tuple[Leaf, Pages]]:
    """The wanted columns that are not nested (all, for whole records), and their pages, by name.

    Raises:
        ValueError: if two columns have the same name, a column's number of values is not that of the rows, or
            its pages are too large.
    """
    roots = Counter(leaf.root for leaf in footer.leaves)
    read = set(wanted.fields.values())
    places = [
        at
        for at, leaf in enumerate(footer.leaves)
        if leaf.flat and (leaf.name in read or (wanted.whole and roots[leaf.name] == 1))
    ]
    names = [footer.leaves[at].name for at in places]
    if any(footer.chunks[index][at].values != footer.rows[index] for at in places):
        raise ValueError("a column does not have one value for each row")
    if twice := sorted({name for name in names if roots[name] > 1}):
        raise ValueError(f"duplicate columns: {', '.join(twice)}")
    columns = {
        footer.leaves[at].name: (
            footer.leaves[at],
            parquet_pages.read_pages(stream, footer.chunks[index][at], footer.leaves[at]),
        )
        for at in places
    }
    largest = sum(pages.largest for _, pages in columns.values())
    if largest > parquet_pages.MOST_PAGES:
        raise ValueError(
            f"its largest pages would have {largest:,} bytes: at most {parquet_pages.MOST_PAGES:,} are read"
        )
    return columns


def opened(stream: IO[bytes], read_dictionary: Sequence[str] = ()) -> Any:
    """A Parquet file as Arrow opens it, after its footer has been checked."""
    parquet_pages.read_footer(stream)  # Arrow ends the process on some malformed footers
    most = parquet_pages.MOST_FOOTER
    limits = {"thrift_string_size_limit": most, "thrift_container_size_limit": most // 16}
    return pq.ParquetFile(
        stream,
        read_dictionary=list(read_dictionary),
        buffer_size=BUFFER_BYTES,
        page_checksum_verification=True,
        # In nanoseconds, times of 96 bits far from now would be others that are near.
        coerce_int96_timestamp_unit="us",
        **limits,
    )


def _ways(
    stream: IO[bytes], index: int, columns: Mapping[str, tuple[Leaf, Pages]], rows: int
) -> tuple[list[str], int]:
    """How to read a row group: the columns that stay dictionary-encoded, and the rows of a batch."""
    longest = _longest_values(
        stream,
        index,
        {name: pages.dictionary for name, (leaf, pages) in columns.items() if leaf.kind == BYTE_ARRAY},
    )
    shared = [name for name, length in longest.items() if BATCH_REPORTS * length > BATCH_BYTES]
    lengths = {name: 0 if name in shared else longest.get(name, 0) for name in columns}
    most = BATCH_REPORTS
    while sum(most_bytes(*columns[name], lengths[name], most) for name in columns) > MOST_BATCH:
        most //= 2
        if rows > most * MOST_BATCHES:
            raise ValueError("its pages are too large for its many rows")
    return shared, most


def _longest_values(stream: IO[bytes], index: int, dictionaries: Mapping[str, int]) -> dict[str, int]:
    """An upper bound on the bytes of the longest value of each dictionary, given each dictionary's size."""
    sizes = {name: size for name, size in dictionaries.items() if size}
    large = [name for name, size in sizes.items() if BATCH_REPORTS * size > BATCH_BYTES]
    if large:
        # Reading the first row of a column as a dictionary gives the whole dictionary.
        batches = opened(stream, large).iter_batches(1, row_groups=[index], columns=large, use_threads=False)
        first = next(batches, None)
        if first is None:
            raise ValueError("it has no rows")
        for name, column in zip(first.schema.names, first.columns, strict=True):
            if pa.types.is_dictionary(column.type) and len(column.dictionary):
                sizes[name] = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    return sizes


def _batches(file: Any, index: int, places: list[int], rows: int, most: int) -> Iterator[pa.RecordBatch]:
    if places:
        # By its name, a column would come with those nested in others whose path is spelled alike.
        options = {"row_groups": [index], "column_indices": places, "use_threads": False}
        yield from file.reader.iter_batches(most, **options)
        return
    for start in range(0, rows, most):
        length = min(most, rows - start)
        yield pa.RecordBatch.from_struct_array(pa.array([{}] * length, pa.struct([])))


def _parts(batch: pa.RecordBatch, shared: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Halve a batch until the ``shared`` columns of each part, expanded, fit into ``BATCH_BYTES``."""
    size = sum(expanded_bytes(batch.column(name)) for name in shared)
    if size <= BATCH_BYTES or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle), shared)
    yield from _parts(batch.slice(middle), shared)

"""Parquet files, which pyarrow reads as columns, one row group at a time.

The footer bounds what is decoded. Pages are trusted to hold what it says: who writes them is trusted
(``docs/security.md``).
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ldpbeam.schemas.encodings import per_byte
from ldpbeam.schemas.encodings.arrow_sizes import expanded_bytes
from ldpbeam.schemas.reports.casts import is_list
from ldpbeam.schemas.reports.columns import (
    Columns,
    decoded,
    is_nested,
    text_of,
    whole_of,
    with_most_letters,
)

MAGIC = b"PAR1"
#: The most bytes of a footer.
MOST_FOOTER = 2**25
#: A file has at least this many bytes for each row group beyond a few.
GROUP_BYTES, FEW_GROUPS = 1_024, 100
#: The most reports of a batch, and about the most bytes.
BATCH_REPORTS, BATCH_BYTES = 131_072, 2**26
#: The most bytes that are read for a batch, the most by which a row group grows when it is decompressed, and
#: the most bytes of a dictionary of texts.
MOST_READ, MOST_ADDED, MOST_DICTIONARY = 2**26, 2**27, 2**26
#: The most bytes of a row group's values for each compressed byte, or in all if that is more.
MOST_RATIO, MOST_VALUES = 2_048, 2**32
#: Texts of the encoding DELTA_BYTE_ARRAY may repeat the one before. Longer ones are trusted not to.
MOST_REPEATED = 2**18
_DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
#: Columns of more than MOST_AT_ONCE bytes are read through buffers of BUFFERS_BYTES in all, not at once.
MOST_AT_ONCE, BUFFERS_BYTES = 3 * 2**24, 2**24


class _SpentError(ValueError):
    """More bytes are needed than may be read at once."""


class _Source:
    """A stream that gives ``left`` bytes at most: Arrow reads a page at once, however large it is."""

    def __init__(self, stream: IO[bytes], left: int) -> None:
        self._stream, self.left = stream, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise _SpentError(f"a batch needs more than {MOST_READ // 2**20} MB: write smaller pages")
        return self._stream.read(size)


def read_footer(stream: IO[bytes]) -> Any:
    """The footer of a file, as pyarrow has it.

    Raises:
        ValueError: if the file is not a Parquet file, or its footer contradicts itself.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    length = int.from_bytes(end[:4], "little")
    try:
        if end[4:] == MAGIC and length > MOST_FOOTER:
            raise ValueError(f"its footer would have {length:,} bytes")
        footer = opened(stream).metadata
    except MemoryError:
        # Arrow's MemoryError is an ArrowException too; lack of memory does not mean that the file is damaged.
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"no Parquet file: {error}") from None
    rows = rows_of(footer)
    if sum(rows) != footer.num_rows or min(rows, default=0) < 0:
        raise ValueError(
            f"no Parquet file: its row groups have {sum(rows):,} rows, and its footer says "
            f"{footer.num_rows:,}"
        )
    per_byte.check(sum(rows), size, per_byte.OF_COLUMNS)
    if len(rows) > FEW_GROUPS + size // GROUP_BYTES:
        raise per_byte.TooManyError(
            f"{len(rows):,} row groups in {size:,} bytes are more than 1 for each {GROUP_BYTES:,}: "
            "write larger row groups"
        )
    return footer


def rows_of(footer: Any) -> list[int]:
    """The number of rows of each row group."""
    return [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]


def opened(
    stream: Any,
    footer: Any = None,
    read_dictionary: Sequence[str] = (),
    *,
    columns: int = 1,
    at_once: bool = False,
) -> Any:
    """A Parquet file as Arrow opens it; with a footer, this is not read again.

    Args:
        stream: the file.
        footer: its footer.
        read_dictionary: the columns that stay dictionary-encoded.
        columns: how many columns are read.
        at_once: whether all of them are read before the first is decoded, in as few reads as possible.
    """
    limits = {"thrift_string_size_limit": MOST_FOOTER, "thrift_container_size_limit": MOST_FOOTER // 16}
    return pq.ParquetFile(
        stream,
        metadata=footer,
        read_dictionary=list(read_dictionary),
        buffer_size=BUFFERS_BYTES // max(16, columns),
        pre_buffer=at_once,
        page_checksum_verification=True,
        # In nanoseconds, times of 96 bits far from now would be others that are near.
        coerce_int96_timestamp_unit="us",
        **limits,
    )


def metadata_of(stream: IO[bytes], footer: Any) -> dict[str, str]:
    """The metadata of a file as text."""
    return text_of(opened(stream, footer).schema_arrow.metadata)


def decode_row_group(stream: IO[bytes], footer: Any, index: int, wanted: Columns) -> Iterator[pa.RecordBatch]:
    """Decode one row group to batches of reports.

    Args:
        stream: a seekable Parquet file.
        footer: of this file, as :func:`read_footer` gives it.
        index: the row group, from 0.
        wanted: which columns are read.

    Raises:
        ValueError: if the row group does not decode; possibly after some batches.
    """
    start, rows, source = 0, footer.row_group(index).num_rows, _Source(stream, MOST_READ)
    try:
        file = opened(source, footer, columns=footer.num_columns)
        schema, metadata = file.schema_arrow, text_of(file.schema_arrow.metadata)
        places = _read_columns(schema, wanted)
        names = list(places)
        chunks = _chunks(file, source, index)
        packed = sum(chunk.total_compressed_size for chunk in chunks)
        read = {name: chunks[at] for name, at in places.items()}
        per_byte.check(
            sum(chunk.num_values for chunk in read.values()), packed, per_byte.VALUES_OF_COLUMNS, "values"
        )
        lists = [name for name in names if is_nested(schema.field(name).type)]
        _refuse_sizes(read, rows, lists)
        longest = _longest_values(source, footer, index, read)
        shared = [
            name
            for name, length in longest.items()
            if BATCH_REPORTS * length > BATCH_BYTES and name not in lists
        ]
        most = _batch_rows(footer, places, read, rows, {**longest, **dict.fromkeys(shared, 0)})
        size = sum(chunk.total_compressed_size for chunk in read.values())
        file = opened(source, footer, shared, columns=len(read), at_once=size <= MOST_AT_ONCE)
        permitted = left = max(MOST_VALUES, MOST_RATIO * packed)
        for batch in _batches(file, source, index, list(places.values()), rows, most):
            # Arrow reads text without checking that it is UTF-8; the validation checks it.
            batch.validate(full=True)
            left -= _size(batch, shared)
            if left < 0:
                raise ValueError(f"its values would have more than {permitted:,} bytes")
            for part in _parts(batch, shared):
                columns = dict(zip(names, part.columns, strict=True))
                whole = whole_of(columns, wanted.fields["payload"]) if wanted.whole else None
                for field in {*wanted.fields.values()} & {*schema.names} - columns.keys():
                    # Nested values are not read, and no field takes one; null would mean that it is missing.
                    columns[field] = pa.array([[]] * part.num_rows)
                row = pa.array(np.arange(start, start + part.num_rows))
                position = pa.array(np.full(part.num_rows, index))
                reports = decoded(columns, wanted, metadata, position, row, lambda _: schema.names, whole)
                yield with_most_letters(reports, rows, packed)
                start += part.num_rows
    except (MemoryError, per_byte.TooManyError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"it does not decode: {error}") from None
    if start != rows:
        raise ValueError(f"it has {start:,} rows, and its footer says {rows:,}")


def _read_columns(schema: pa.Schema, wanted: Columns) -> dict[str, int]:
    """The wanted columns that are not nested (all, for whole records) or are lists of payloads: their leaves.

    Raises:
        ValueError: if two columns have the same name.
    """
    fields, read = Counter(schema.names), set(wanted.fields.values())
    places, leaf = dict[str, int](), 0
    for field in schema:
        name = field.name
        flat = not is_nested(field.type) or (name == wanted.fields["payload"] and is_list(field.type))
        if flat and (name in read or (wanted.whole and fields[name] == 1)):
            places[name] = leaf
        leaf += _leaves(field.type)
    if twice := sorted(name for name in places if fields[name] > 1):
        raise ValueError(f"duplicate columns: {', '.join(twice)}")
    return places


def _leaves(kind: pa.DataType) -> int:
    """How many leaves of Parquet's schema a column of a type has."""
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return sum(_leaves(kind.field(place).type) for place in range(kind.num_fields)) or 1


def _chunks(file: Any, source: _Source, index: int) -> list[Any]:
    """What the footer says of each leaf in a row group.

    Arrow looks at it first, without a byte to read: it ends the process where Python looks at some damaged
    footers.
    """
    group, leaves = file.metadata.row_group(index), list(range(file.metadata.num_columns))
    source.left = 0
    with contextlib.suppress(_SpentError):
        next(file.reader.iter_batches(1, row_groups=[index], column_indices=leaves, use_threads=False), None)
    return [group.column(leaf) for leaf in leaves]


def _refuse_sizes(read: Mapping[str, Any], rows: int, lists: Collection[str]) -> None:
    """Check what the footer says of the columns that are read, by name; some are of lists.

    Raises:
        ValueError: if a column has not one value for each row, or too many bytes once it is decompressed.
    """
    # An empty list has a value, too, which says that it is there.
    if any(
        chunk.num_values < rows if name in lists else chunk.num_values != rows for name, chunk in read.items()
    ):
        raise ValueError("a column does not have one value for each row")
    added = sum(chunk.total_uncompressed_size - chunk.total_compressed_size for chunk in read.values())
    if added > MOST_ADDED:
        raise ValueError(
            f"its columns would have {added:,} bytes more than in the file: at most {MOST_ADDED:,} are read; "
            "write smaller row groups"
        )
    for chunk in read.values():
        if chunk.has_dictionary_page and chunk.physical_type == "BYTE_ARRAY":
            ratio = chunk.total_uncompressed_size / max(1, chunk.total_compressed_size)
            size = int(ratio * (chunk.data_page_offset - chunk.dictionary_page_offset))
            if size > MOST_DICTIONARY:
                raise ValueError(
                    f"a dictionary would have {size:,} bytes: at most {MOST_DICTIONARY:,} are read"
                )


def _longest_values(source: _Source, footer: Any, index: int, read: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of the longest value of each dictionary of texts, or of the dictionary if that is short."""
    sizes = {
        name: chunk.total_uncompressed_size
        for name, chunk in read.items()
        if chunk.physical_type == "BYTE_ARRAY" and _DICTIONARIES & {*chunk.encodings}
    }
    large = [name for name, size in sizes.items() if BATCH_REPORTS * size > BATCH_BYTES]
    if large:
        source.left = MOST_READ
        # Reading the first row of a column as a dictionary gives the whole dictionary.
        file = opened(source, footer, [read[name].path_in_schema for name in large], columns=len(large))
        batches = file.iter_batches(1, row_groups=[index], columns=large, use_threads=False)
        for first in batches:
            for name, values in zip(first.schema.names, first.columns, strict=True):
                column = values.flatten() if is_nested(values.type) else values
                if pa.types.is_dictionary(column.type) and len(column.dictionary):
                    sizes[name] = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            break
    return sizes


def _batch_rows(
    footer: Any, places: Mapping[str, int], read: Mapping[str, Any], rows: int, longest: Mapping[str, int]
) -> int:
    """How many rows have half of :data:`BATCH_BYTES`, by the mean of their texts.

    Raises:
        ValueError: if a single row may have too many.
    """
    # Arrow copies values of fixed length, null ones too.
    size = sum(16 + 4 * max(0, footer.schema.column(place).length) for place in places.values())
    if size > MOST_ADDED:
        raise ValueError(f"a row would have {size:,} bytes")
    for name, chunk in read.items():
        plain = chunk.total_uncompressed_size
        size += longest.get(name, 0) * max(1, chunk.num_values // max(1, rows)) + plain // max(1, rows)
        if "DELTA_BYTE_ARRAY" in chunk.encodings:
            size += min(plain, MOST_REPEATED)
    return int(min(BATCH_REPORTS, max(1, BATCH_BYTES // 2 // max(1, size))))


def _batches(
    file: Any, source: _Source, index: int, places: list[int], rows: int, most: int
) -> Iterator[pa.RecordBatch]:
    if not places:
        for start in range(0, rows, most):
            length = min(most, rows - start)
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * length, pa.struct([])))
        return
    # By its name, a column would come with those nested in others whose path is spelled alike.
    options = {"row_groups": [index], "column_indices": places, "use_threads": False}
    source.left = MOST_READ
    for batch in file.reader.iter_batches(most, **options):
        yield batch
        source.left = MOST_READ


def _size(batch: pa.RecordBatch, shared: Sequence[str]) -> int:
    """The bytes of a batch once its ``shared`` dictionaries are written out."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return sum(expanded_bytes(column) if name in shared else column.nbytes for name, column in columns)


def _parts(batch: pa.RecordBatch, shared: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Halve a batch until each part has at most :data:`BATCH_BYTES`, or one row."""
    if batch.num_rows <= 1 or _size(batch, shared) <= BATCH_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle), shared)
    yield from _parts(batch.slice(middle), shared)

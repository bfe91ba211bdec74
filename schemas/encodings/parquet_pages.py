"""Checks of a Parquet file's footer and page headers before Arrow reads the file.

Arrow allocates as many bytes as a page header declares, and crashes on some malformed footers. A file that
has a field twice, or with a type that Arrow would skip, is refused. So this reader and Arrow's see the same
values.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from ldpbeam.schemas.encodings import per_byte
from ldpbeam.schemas.encodings.parquet_deltas import refuse_lengths, unpacked
from ldpbeam.schemas.encodings.thrift import BINARY, FALSE, I32, I64, LIST, STRUCT, Struct, field, read_struct

#: The most bytes of a footer, and of a page header.
MOST_FOOTER, MOST_HEADER = 2**25, 2**16
#: The most bytes, compressed or plain, of the largest pages of all read columns together.
MOST_PAGES = 2**26
#: The most plain bytes of a row group, or per compressed byte; the most values of a dictionary.
MOST_PLAIN, MOST_RATIO, MOST_DISTINCT = 2**28, 2_048, 2**21
#: A file has at least this many bytes for each row group beyond a few.
GROUP_BYTES, FEW_GROUPS = 1_024, 100
#: The deepest tree of columns.
_MOST_DEPTH = 100
BYTE_ARRAY, FIXED_LENGTH = 6, 7
_REQUIRED, _REPEATED = 0, 2
DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
#: Encodings of values.
PLAIN_DICTIONARY, _RLE, DELTA_LENGTH, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 2, 3, 6, 7, 8


@dataclass(frozen=True)
class Leaf:
    """A leaf of the schema: a column of values.

    Attributes:
        name: the column's name; for a nested column, the path to it.
        root: the name of the outermost column; any name may have a dot in it.
        flat: whether the column has one value per row.
        kind: the physical type.
        width: the bytes of each value if the type has a fixed length, else 0.
        nullable: whether the column's pages have definition levels.
    """

    name: str
    root: str
    flat: bool
    kind: int
    width: int
    nullable: bool


@dataclass(frozen=True)
class Chunk:
    """A column's pages in a row group: offset of the first byte, bytes, values, and the codec's number."""

    start: int
    size: int
    values: int
    codec: int


@dataclass(frozen=True)
class Footer:
    """The footer of a file: its columns, and for each row group its rows and its chunks."""

    leaves: tuple[Leaf, ...]
    rows: tuple[int, ...]
    chunks: tuple[tuple[Chunk, ...], ...]


@dataclass(frozen=True)
class Pages:
    """The pages of a chunk.

    Attributes:
        dictionary: how many plain bytes the dictionary has; 0 if there is none.
        values: the number of values of each data page, shape (pages,).
        plain: the number of plain bytes of each data page, shape (pages,).
        encodings: the number of the encoding of each data page, shape (pages,).
        largest: the most bytes, compressed or plain, of one page.
    """

    dictionary: int
    values: np.ndarray
    plain: np.ndarray
    encodings: np.ndarray
    largest: int


def read_footer(stream: IO[bytes]) -> Footer:
    """Read and check a file's footer.

    Raises:
        ValueError: if the footer is malformed, encrypted, or declares more than this module permits.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    if size < 12 or end[4:] != b"PAR1":
        raise ValueError(
            "it does not end as a Parquet file does" if end[4:] != b"PARE" else "it is encrypted"
        )
    length = int.from_bytes(end[:4], "little")
    if length > min(MOST_FOOTER, size - 12):
        raise ValueError(f"its footer would have {length:,} bytes")
    stream.seek(size - 8 - length)
    return _footer(stream.read(length), size)


@functools.lru_cache(maxsize=2)
def _footer(data: bytes, size: int) -> Footer:
    """Parse the footer of a file of ``size`` bytes; cached, because each row group is read separately."""
    metadata, _ = read_struct(data)
    if field(metadata, 8, STRUCT) is not None:
        raise ValueError("it is encrypted")
    leaves = _leaves(field(metadata, 2, LIST) or ())
    rows, chunks = [], []
    for group in field(metadata, 4, LIST) or ():
        columns = tuple(_chunk(column, size) for column in field(group, 1, LIST) or ())
        if len(columns) != len(leaves):
            raise ValueError(f"a row group has {len(columns):,} columns, and the schema {len(leaves):,}")
        rows.append(field(group, 3, I64) or 0)
        chunks.append(columns)
        if rows[-1] < 0:
            raise ValueError(f"a row group would have {rows[-1]:,} rows")
    per_byte.check(sum(rows), size, per_byte.OF_COLUMNS)
    if sum(chunk.size for columns in chunks for chunk in columns) > size:
        raise ValueError("its columns would have more bytes than the file")
    if len(rows) > FEW_GROUPS + size // GROUP_BYTES:
        raise per_byte.TooManyError(
            f"{len(rows):,} row groups in {size:,} bytes are more than 1 for each {GROUP_BYTES:,}: "
            "write larger row groups"
        )
    return Footer(leaves, tuple(rows), tuple(chunks))


def _leaves(elements: Sequence[Any]) -> tuple[Leaf, ...]:
    """The leaves of a schema, whose elements list each column before the columns in it."""
    leaves = []
    above: list[list[Any]] = []  # for each incomplete column: how many children are missing, and its name
    for index, element in enumerate(elements):
        name = (field(element, 4, BINARY) or b"").decode("utf-8", "replace")
        children = field(element, 5, I32) or 0
        if children < 0 or len(above) > _MOST_DEPTH or bool(above) != bool(index):
            raise ValueError("its schema is not a tree, or is too deep")
        if above:
            above[-1][0] -= 1
        if children or not index:
            above.append([children, name])
        else:
            path = [*(name_above for _, name_above in above[1:]), name]
            flat = len(above) == 1 and field(element, 3, I32) != _REPEATED
            width = field(element, 2, I32) or 0
            nullable = field(element, 3, I32) != _REQUIRED
            kind = field(element, 1, I32) or 0
            leaves.append(Leaf(".".join(path), path[0], flat, kind, max(0, width), nullable))
        while above and not above[-1][0]:
            above.pop()
    if above or not elements:
        raise ValueError("its schema is not a tree")
    return tuple(leaves)


def _chunk(column: Any, size: int) -> Chunk:
    """The place where Arrow will look for a column's pages, in a file of ``size`` bytes."""
    about = field(column, 3, STRUCT)
    if about is None or field(column, 8, STRUCT) is not None or field(column, 1, BINARY):
        raise ValueError("a column has no pages here: they are encrypted, or in another file")
    start, dictionary = field(about, 9, I64) or 0, field(about, 11, I64) or 0
    start = dictionary if 0 < dictionary < start else start
    codec = field(about, 4, I32) or 0
    chunk = Chunk(start, field(about, 7, I64) or 0, field(about, 5, I64) or 0, codec)
    if min(chunk.start, chunk.size, chunk.values, dictionary) < 0 or chunk.start + chunk.size > size:
        raise ValueError("a column would lie outside of the file")
    return chunk


def read_pages(stream: IO[bytes], chunk: Chunk, leaf: Leaf) -> Pages:
    """Read and check the page headers of a column that is not nested.

    Raises:
        ValueError: if a header is malformed or declares more than this module permits, or the pages have
            more or fewer values than the footer declares.
        OSError: if a delta-encoded page does not decompress.
    """
    at, end, seen = chunk.start, chunk.start + chunk.size, 0
    dictionary = largest = 0
    pages: list[tuple[int, int, int]] = []
    while seen < chunk.values:
        header, length = _page_header(stream, at, end)
        kind, plain, packed = (field(header, number, I32) for number in (1, 2, 3))
        if plain is None or packed is None or min(plain, packed) < 0 or at + length + packed > end:
            raise ValueError(f"a page would have {plain} bytes, and {packed} in the file")
        if plain + packed > 2 * MOST_PAGES or max(plain, packed) > MOST_PAGES:
            raise ValueError(
                f"a page would have {max(plain, packed):,} bytes: at most {MOST_PAGES:,} are read"
            )
        largest = max(largest, plain, packed)
        first = at == chunk.start
        at += length + packed
        if kind == DICTIONARY:
            if not first:
                raise ValueError("a dictionary page follows other pages")
            distinct = field(field(header, 7, STRUCT) or {}, 1, I32) or 0
            if not 0 <= distinct <= MOST_DISTINCT:
                raise ValueError(f"a dictionary would have {distinct:,} values")
            dictionary = plain
        elif kind in (DATA, DATA_V2):
            about = field(header, 5 if kind == DATA else 8, STRUCT) or {}
            values, encoding = field(about, 1, I32), field(about, 2 if kind == DATA else 4, I32)
            if values is None or encoding is None or values < 0:
                raise ValueError(f"a page would have {values} values in the encoding {encoding}")
            seen += values
            if seen > chunk.values:
                raise ValueError(f"pages have {seen:,} values, and the footer says {chunk.values:,}")
            if encoding in (DELTA_LENGTH, DELTA_BYTE_ARRAY):
                stream.seek(at - packed)
                _refuse_lengths(stream.read(packed), header, chunk.codec, leaf)
            pages.append((values, plain, encoding))
    table = np.array(pages, dtype=np.int64).reshape(-1, 3)
    coded = np.isin(table[:, 2], (PLAIN_DICTIONARY, RLE_DICTIONARY))
    if (coded[1:] & ~coded[:-1]).any():
        raise ValueError("a page that uses the dictionary follows one that does not")
    total = int(table[:, 1].sum())
    if total > max(MOST_PLAIN, MOST_RATIO * chunk.size):
        raise ValueError(f"a column would have {total:,} bytes, too many for {chunk.size:,}")
    return Pages(dictionary, table[:, 0], table[:, 1], table[:, 2], largest)


def _page_header(stream: IO[bytes], at: int, end: int) -> tuple[Struct, int]:
    """The page header at an offset, and its length; most page headers have fewer than 256 bytes."""
    stream.seek(at)
    try:
        return read_struct(stream.read(min(256, end - at)))
    except ValueError:
        stream.seek(at)
        return read_struct(stream.read(min(MOST_HEADER, end - at)))


def _refuse_lengths(data: bytes, header: Struct, codec: int, leaf: Leaf) -> None:
    """Check that a delta-encoded page of text has no more lengths than values."""
    plain, first = field(header, 2, I32), field(header, 1, I32) == DATA
    about = field(header, 5 if first else 8, STRUCT)
    if first and leaf.nullable and field(about, 3, I32) != _RLE:
        raise ValueError("a page has levels in an encoding that is not read")
    if not first:
        # Levels are not compressed in this version.
        apart = (field(about, 5, I32) or 0) + (field(about, 6, I32) or 0)
        if not 0 <= apart <= min(len(data), plain) or field(about, 6, I32):
            raise ValueError(f"a page would have {apart} bytes of levels")
        data, plain = data[apart:], plain - apart
        codec = 0 if about.get(16 * 7 + FALSE) is False else codec
    prefixes = field(about, 2 if first else 4, I32) == DELTA_BYTE_ARRAY
    refuse_lengths(
        unpacked(data, codec, plain), field(about, 1, I32), levels=first and leaf.nullable, prefixes=prefixes
    )


def most_bytes(leaf: Leaf, pages: Pages, longest: int, rows: int) -> int:
    """The most bytes that a column's values can have in any ``rows`` consecutive rows.

    Args:
        leaf: the column.
        pages: the column's pages in a row group.
        longest: the bytes of the longest value of the column's dictionary.
        rows: the number of rows.
    """
    if leaf.kind != BYTE_ARRAY:
        # Arrow copies values of fixed length, including null ones.
        return rows * (4 * leaf.width if leaf.kind == FIXED_LENGTH else 12)
    some = np.minimum(pages.values, rows)
    # A value of this encoding may repeat all of the previous value in the page.
    sizes = np.where(pages.encodings == DELTA_BYTE_ARRAY, some * pages.plain, pages.plain)
    coded = np.isin(pages.encodings, (PLAIN_DICTIONARY, RLE_DICTIONARY))
    sizes = np.where(coded, some * longest, sizes)
    ends = np.cumsum(pages.values)
    starts, sums = ends - pages.values, np.concatenate([[0], np.cumsum(sizes)])
    # Rows may begin in one page and end in another; both pages, and those between them, count in full.
    beyond = np.searchsorted(starts, ends - 1 + rows, side="left")
    return int((sums[beyond] - sums[:-1]).max(initial=0))

"""Blocks of fixed-width records, whose bytes NumPy reads as structured arrays without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.encodings import compression
from ldpbeam.schemas.files.avro_blocks import Block
from ldpbeam.schemas.files.avro_headers import Header
from ldpbeam.schemas.reports.casts import binary_of_width
from ldpbeam.schemas.reports.columns import Columns, decoded
from ldpbeam.schemas.reports.payloads import payload_column

#: A batch has about this many reports, or about this many bytes if that is reached first.
BATCH_REPORTS, BATCH_BYTES = 65_536, 2**24
#: A block with more reports is cut into several batches.
WHOLE_REPORTS = 4 * BATCH_REPORTS


class Rows:
    """A buffer that collects fixed-width records of blocks into batches.

    Args:
        header: the header of the records' file.
        dtype: the dtype of a record.
        wanted: which columns are read.
    """

    def __init__(self, header: Header, dtype: np.dtype[Any], wanted: Columns) -> None:
        self._header = header
        self._dtype = dtype
        self._wanted = wanted
        self._rows: list[NDArray[Any]] = []
        self._positions: list[int] = []
        self._first: list[int] = []
        self._reports = 0
        #: The position of the block of the last added part, and how many of its rows have been added.
        self._added = (-1, 0)

    @property
    def full(self) -> bool:
        """Whether the buffer has enough records or bytes for a batch."""
        return self._reports >= BATCH_REPORTS or self._reports * self._dtype.itemsize >= BATCH_BYTES

    def checked(self, block: Block, most: int) -> tuple[int, Iterator[bytes]]:
        """A block's plain size in bytes, and its plain bytes in parts of whole records.

        Raises:
            ValueError: if the block's size contradicts its record count, or it does not decompress.
            TooLargeError: if it has more than ``most`` plain bytes.
        """
        width, codec = self._dtype.itemsize, self._header.codec
        size = block.reports * width
        if size > most and codec != "null":
            raise compression.TooLargeError(most)
        whole = size <= BATCH_BYTES and block.reports <= WHOLE_REPORTS
        parts: Iterator[bytes] = compression.pieces(codec, block.data)
        try:
            if whole:
                plain = compression.plain(codec, block.data, size)
                length, parts = len(plain), iter([plain])
            elif codec == "null":
                length = len(block.data)
            else:
                length = sum(map(len, compression.at_most(size, parts)))
                parts = compression.pieces(codec, block.data)
        except compression.TooLargeError:
            raise ValueError(f"{block.reports} records of {width} bytes have fewer bytes than it") from None
        if length != size:
            raise ValueError(f"{block.reports} records of {width} bytes are not {length} bytes")
        if whole:
            return size, parts
        return size, compression.of_size(width * max(1, min(BATCH_REPORTS, BATCH_BYTES // width)), parts)

    def add(self, block: Block, part: bytes) -> None:
        """Add a part of a block to the buffer; the parts of a block must be added in order."""
        rows = np.frombuffer(part, dtype=self._dtype)
        first = self._added[1] if self._added[0] == block.position else 0
        self._added = (block.position, first + len(rows))
        if len(rows):
            self._rows.append(rows)
            self._positions.append(block.position)
            self._first.append(first)
            self._reports += len(rows)

    def batches(self) -> Iterator[pa.RecordBatch | Block]:
        """The buffered records as at most one batch; the buffer is empty afterwards."""
        if self._rows:
            yield self._batch()
        self._rows, self._positions, self._first, self._reports = [], [], [], 0

    def _batch(self) -> pa.RecordBatch:
        records = self._rows[0] if len(self._rows) == 1 else np.concatenate(self._rows)
        columns: dict[str, pa.Array] = {}
        read = set(self._wanted.fields.values())
        for name in records.dtype.names or ():
            if name in read:
                columns[name] = payload_column(np.ascontiguousarray(records[name]))
        lengths = [len(rows) for rows in self._rows]
        position = np.repeat(np.array(self._positions, dtype=np.int64), lengths)
        before = np.cumsum([0, *lengths[:-1]])
        row = np.arange(len(records)) + np.repeat(np.array(self._first, dtype=np.int64) - before, lengths)
        places = pa.array(position), pa.array(row)
        fields = records.dtype.names or ()
        whole = None
        if self._wanted.whole:
            whole = binary_of_width(records.view(np.uint8).reshape(len(records), -1))
        metadata = self._header.metadata_of(self._wanted)
        return decoded(columns, self._wanted, metadata, *places, lambda _: fields, whole)

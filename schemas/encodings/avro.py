"""Avro containers: fastavro reads the records of one block after the other, within bounds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from importlib.resources import files
from itertools import islice
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from ldpbeam.schemas.avro_schemas import with_bytes_for_texts
from ldpbeam.schemas.encodings import compression, per_byte
from ldpbeam.schemas.encodings.avro_blocks import CORRUPT_BLOCK, MOST_BLOCK_BYTES, Block
from ldpbeam.schemas.encodings.avro_headers import SYNC_SIZE, Header, write_block, write_header
from ldpbeam.schemas.encodings.avro_records import RecordColumns, Values, problem_of
from ldpbeam.schemas.reports.columns import RECORD, WRITER_KEY, Columns, with_most_letters

#: A batch has about this many reports, or the blocks that bring it to this many bytes.
BATCH_REPORTS, BATCH_BYTES = 65_536, 2**24
#: A block with more reports is decoded twice, the first time only to check it.
WHOLE_REPORTS = 4 * BATCH_REPORTS
#: The most plain bytes of a block for each compressed one. Ratios of 1,000 to 1 are read.
MOST_RATIO = 2_048
#: The most values that the arrays and maps of a block may have.
MOST_ITEMS = 2**21
#: About this many values are decoded before the fields that are not wanted are released: the more records
#: there are at a time, the longer Python's garbage collector takes.
_PART_VALUES = 2**12


def schema(name: str) -> dict[str, Any]:
    """The project's schema of this name: report, statistic or dead_letter."""
    text = (files("ldpbeam.schemas") / f"{name}.avsc").read_text(encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def decode_blocks(
    header: Header, blocks: Iterator[Block], wanted: Columns
) -> Iterator[pa.RecordBatch | Block]:
    """Decode blocks to batches of reports; a block that does not decode is returned with its problem.

    The reports of a block are used only if the whole block decodes.

    Args:
        header: the header of the blocks' file.
        blocks: the blocks; one that has a problem already is passed on.
        wanted: which columns are read.
    """
    reader: _BlockReader | None = None
    # The schema is a part of the bytes that came.
    reports, held, size = 0, header.size, 0
    for block in blocks:
        if block.problem:
            yield block
            continue
        try:
            reader = reader or _BlockReader(header, wanted)
            plain = _plain(header, block)
            parts = reader.checked(plain, block.reports)
        except MemoryError:
            raise
        except Exception as error:  # each codec and fastavro raise their own errors
            yield _bad(block, error)
            continue
        reports, held = reports + block.reports, held + len(block.data) + SYNC_SIZE
        size += len(plain)
        first = 0
        for values, records in parts:
            reader.add(values, block.position, first, records)
            first += records
            if reader.waiting >= BATCH_REPORTS:
                yield from reader.batches(reports, held)
                size = 0
        if size >= BATCH_BYTES:
            yield from reader.batches(reports, held)
            size = 0
    if reader is not None:
        yield from reader.batches(reports, held)


def _plain(header: Header, block: Block) -> bytes:
    """The plain bytes of a block.

    Raises:
        ValueError: if it does not decompress, or would have more bytes, reports or values than are permitted.
    """
    shape, held = header.shape, len(block.data) + SYNC_SIZE
    times = 2 if block.reports > WHOLE_REPORTS else 1
    per_byte.check(block.reports, held, per_byte.OF_RECORDS / times)
    per_byte.check(block.reports * shape.values, held, per_byte.VALUES / times, "values")
    most = min(MOST_BLOCK_BYTES, MOST_RATIO * len(block.data))
    plain = compression.plain(header.codec, block.data, most)
    items = int(len(plain) * shape.per_byte)
    per_byte.check(items, held, per_byte.VALUES, "values")
    if items > MOST_ITEMS:
        raise ValueError(f"its arrays and maps could have {items:,} values: write smaller blocks")
    return plain


def _bad(block: Block, error: Exception) -> Block:
    reports = block.reports if 0 < block.reports <= len(block.data) else 1
    reason = per_byte.TOO_MANY_REPORTS if isinstance(error, per_byte.TooManyError) else CORRUPT_BLOCK
    return Block(block.position, reports, block.data, problem_of(error), reason)


class _BlockReader:
    """Reads records of blocks, and collects them into batches.

    Args:
        header: the header of the blocks' file.
        wanted: which columns are read.

    Raises:
        ValueError: if the schema is not a record.
    """

    def __init__(self, header: Header, wanted: Columns) -> None:
        if not isinstance(header.writer_schema, dict) or header.writer_schema.get("type") != "record":
            raise ValueError("its schema is not a record")
        self._columns = RecordColumns(header.writer_schema, wanted)
        writer = {WRITER_KEY: json.dumps(header.writer_schema)} if wanted.whole else {}
        self._metadata = {**header.metadata, **writer}
        self._part_records = max(1, _PART_VALUES // header.shape.values)
        self._sync = header.sync
        # fastavro reads a file whose blocks we put there one by one, once they are within bounds.
        self._file = io.BytesIO()
        write_header(self._file, with_bytes_for_texts(header.writer_schema), {}, self._sync)
        self._file.seek(0)
        self._blocks = fastavro.block_reader(self._file)
        self._values: Values = {}
        #: The position of a block, the first of its records that wait, and their number.
        self._places: list[tuple[int, int, int]] = []
        #: How many records wait.
        self.waiting = 0

    def checked(self, plain: bytes, reports: int) -> Iterator[tuple[Values, int]]:
        """The values of a block's records, and their number, some at a time; all of them decode.

        Raises:
            ValueError: if bytes are left after the last record, or text is not UTF-8.
            Exception: fastavro's errors, if a record does not decode.
        """
        if reports <= WHOLE_REPORTS:
            return iter(list(self._parts(plain, reports)))
        for _ in self._parts(plain, reports):
            pass
        return self._parts(plain, reports)

    def _parts(self, plain: bytes, reports: int) -> Iterator[tuple[Values, int]]:
        self._file.seek(0)
        self._file.truncate()
        write_block(self._file, reports, plain, self._sync)
        self._file.seek(0)
        block = next(self._blocks)
        records = _with_bytes(block, plain) if self._columns.wanted.whole else iter(block)
        while part := list(islice(records, self._part_records)):
            values = self._columns.values_of(part)
            for field in self._columns.texts:
                # No character of UTF-8 goes on behind a line end.
                b"\n".join(filter(None, values[field])).decode()
            yield values, len(part)
        if block.bytes_.read(1):
            raise ValueError(f"bytes are left after its {reports} records")

    def add(self, values: Values, position: int, first: int, records: int) -> None:
        """Add consecutive records of the block at a position; ``first`` is the place of the first of them."""
        for field, some in values.items():
            self._values.setdefault(field, []).extend(some)
        self._places.append((position, first, records))
        self.waiting += records

    def batches(self, reports: int, size: int) -> Iterator[pa.RecordBatch]:
        """The records that wait; the blocks that have been read had ``reports`` in ``size`` bytes."""
        if self.waiting:
            positions, firsts, records = np.array(self._places, dtype=np.int64).T
            before = np.cumsum(records) - records
            rows = np.arange(self.waiting) + np.repeat(firsts - before, records)
            places = np.repeat(positions, records), rows
            for batch in self._columns.batches(self._values, self._metadata, *places):
                yield with_most_letters(batch, reports, size)
        self._values, self._places, self.waiting = {}, [], 0


def _with_bytes(block: Any, plain: bytes) -> Iterator[dict[str, Any]]:
    """The records of a block, each with its bytes."""
    start = 0
    for record in block:
        end = block.bytes_.tell()
        yield {**record, RECORD: plain[start:end]}
        start = end

"""Reading files in a batch run: the ranges of each, and what is decoded of a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import pyarrow as pa

from ldpbeam.schemas.encodings import avro, per_byte
from ldpbeam.schemas.encodings.avro_blocks import CORRUPT_BLOCK, Block, read_blocks
from ldpbeam.schemas.encodings.avro_headers import read_header
from ldpbeam.schemas.files import json_lines, parquet
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.batch_input import BatchInput, Reading
from ldpbeam.transforms.sources.files import (
    BAD_FILE,
    BadFile,
    FileRange,
    ReportFile,
    check_unchanged,
    reason_of,
    split,
)
from ldpbeam.transforms.storage import open_raw

NOT_JSON = "not_json"
#: The reasons of dead letters that mean damage, where the number of lost reports is not known.
DAMAGE = frozenset({BAD_FILE, CORRUPT_BLOCK, per_byte.TOO_MANY_REPORTS})
#: Dead letters of a file are handed on at this number, or this many bytes: a line may have 8 MB.
MOST_LETTERS, MOST_LETTER_BYTES = 1_000, 8 * 2**20
_CUT_LINE = "the file ends inside a line: it was cut short, or is still being written"


def split_or_keep(file: ReportFile | BadFile, length: int | None = None) -> Iterator[FileRange | BadFile]:
    """The ranges of a file; a malformed file, or one that cannot be split, as a BadFile."""
    if isinstance(file, BadFile):
        yield file
        return
    try:
        yield from split(file, length)
    except (OSError, ValueError) as error:
        yield BadFile(file.path, str(error), reason_of(error))


def read_parts(element: FileRange | BadFile, columns: Columns) -> Iterator[pa.RecordBatch | list[DeadLetter]]:
    """The decoded batches of a range, which name its file, and its dead letters, some at a time."""
    letters: list[DeadLetter] = []
    size = 0
    for item in read_range(element, columns):
        if isinstance(item, DeadLetter):
            letters.append(item)
            size += len(item.record) + len(item.detail)
            if len(letters) == MOST_LETTERS or size >= MOST_LETTER_BYTES:
                yield letters
                letters, size = [], 0
        elif item.num_rows:
            metadata = {**(item.schema.metadata or {}), b"file": element.path.encode()}
            yield item.replace_schema_metadata(metadata)
    if letters:
        yield letters


def read_range(element: FileRange | BadFile, columns: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    """Decode a range of a file into batches, and dead letters of what does not decode.

    Damage gives a dead letter whose reason is one of :data:`DAMAGE`; reports read before the damage count.
    A gzipped file counts as a whole or not at all.
    """
    if isinstance(element, BadFile):
        yield _bad_file(element.path, None, element.problem, element.reason)
        return
    try:
        with open_raw(element.path) as stream:
            check_unchanged(stream, element, read=False)
            yield from _READERS[element.format](stream, element, columns)
            check_unchanged(stream, element, read=True)
    except (OSError, ValueError) as error:
        yield _bad_file(element.path, element.start, str(error), reason_of(error))


def _bad_file(path: str, position: int | None, problem: str, reason: str) -> DeadLetter:
    return DeadLetter(path, position, None, reason, problem, 1, path.encode())


def _read_avro(stream: IO[bytes], part: FileRange, columns: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    header = read_header(stream)
    blocks = read_blocks(stream, header, part.start, part.stop)
    for item in avro.decode_blocks(header, blocks, columns):
        if isinstance(item, Block):
            yield DeadLetter(
                part.path, item.position, None, item.reason, item.problem, item.reports, item.data
            )
        else:
            yield item


def _read_parquet(
    stream: IO[bytes], part: FileRange, columns: Columns
) -> Iterator[pa.RecordBatch | DeadLetter]:
    footer = parquet.read_footer(stream)
    groups = parquet.rows_of(footer)
    if part.stop > len(groups):
        raise ValueError(f"there is no row group {part.stop - 1}")
    for index in range(part.start, part.stop):
        reports = 0
        try:
            for batch in parquet.decode_row_group(stream, footer, index, columns):
                reports += batch.num_rows
                yield batch
        except ValueError as error:
            description = f"{part.path} row group {index}".encode()
            reason = per_byte.TOO_MANY_REPORTS if isinstance(error, per_byte.TooManyError) else CORRUPT_BLOCK
            lost = max(1, groups[index] - reports)
            yield DeadLetter(part.path, index, None, reason, str(error), lost, description)


def _read_lines(
    stream: IO[bytes], part: FileRange, columns: Columns
) -> Iterator[pa.RecordBatch | DeadLetter]:
    chunks = (
        json_lines.read_gzip_chunks(stream)
        if part.format == "jsonl.gz"
        else json_lines.read_chunks(stream, part.start, part.stop)
    )
    for position, text in chunks:
        end = position + len(text)
        for item in json_lines.decode_lines(position, text, columns):
            if not isinstance(item, json_lines.BadLine):
                yield item
            elif item.position + len(item.data) == end:
                yield DeadLetter(part.path, item.position, 0, BAD_FILE, _CUT_LINE, 1, item.data)
            else:
                yield DeadLetter(part.path, item.position, 0, NOT_JSON, item.problem, item.reports, item.data)


_READERS = {"avro": _read_avro, "parquet": _read_parquet, "jsonl": _read_lines, "jsonl.gz": _read_lines}
#: How files are read.
READING = Reading(read_parts, split_or_keep, DAMAGE)


def file_input(files: Sequence[ReportFile] = (), bad_files: Sequence[BadFile] = ()) -> BatchInput:
    """Files of reports, which are read in ranges, and malformed ones, each of which becomes a dead letter."""
    size = sum(file.size for file in files)
    return BatchInput((*files, *bad_files), READING, size, files=tuple(files))

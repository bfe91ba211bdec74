"""Files to decoded batches: match, split into ranges, spread, read."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError

from ldpbeam.schemas import avro, json_lines, parquet
from ldpbeam.schemas.containers import Block, read_blocks, read_header
from ldpbeam.schemas.reports import Columns
from ldpbeam.transforms.counts import COUNTS, IN, count
from ldpbeam.transforms.dead_letters import DEAD, DeadLetter, Disclosure, emit
from ldpbeam.transforms.files import BadFile, FileRange, ReportFile, open_raw, split

BAD_FILE = "bad_file"
CORRUPT_BLOCK = "corrupt_block"
NOT_JSON = "not_json"


class ReadReports(beam.PTransform):
    """Decoded batches of the reports in some files.

    Reads do not spread by themselves on every engine (Flink in batch), so ranges are reshuffled
    before they are read.

    Outputs: the main one of decoded batches, whose schema's metadata names the file; dead letters
    (``DEAD``) of what does not decode; and counts.
    """

    def __init__(
        self,
        files: list[ReportFile],
        bad_files: list[BadFile],
        columns: Columns,
        disclosure: Disclosure,
    ) -> None:
        super().__init__()
        self.files = files
        self.bad_files = bad_files
        self.columns = columns
        self.disclosure = disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Wire the stages."""
        entries = [*self.files, *self.bad_files]
        return (
            pipeline
            | "Files" >> beam.Create(entries, reshuffle=False)
            | "SplitFiles" >> beam.FlatMap(split_or_keep)
            | "SpreadRanges" >> beam.Reshuffle()
            | "ReadRanges"
            >> beam.ParDo(_ReadRange(self.columns, self.disclosure)).with_outputs(
                DEAD, COUNTS, main="decoded"
            )
        )


def split_or_keep(file: ReportFile | BadFile) -> Iterator[FileRange | BadFile]:
    """The ranges of a file; one that turns out to be bad as it is."""
    if isinstance(file, BadFile):
        yield file
        return
    try:
        yield from split(file)
    except ValueError as error:
        yield BadFile(file.path, str(error))


class _ReadRange(beam.DoFn):
    def __init__(self, columns: Columns, disclosure: Disclosure) -> None:
        self.columns = columns
        self.disclosure = disclosure

    def process(self, element: FileRange | BadFile) -> Iterable[Any]:
        path = element.path
        for item in read_range(element, self.columns):
            if isinstance(item, DeadLetter):
                yield count(IN, item.reports)
                yield from emit([item], self.disclosure)
            elif item.num_rows:
                yield count(IN, item.num_rows)
                metadata = {**(item.schema.metadata or {}), b"file": path.encode()}
                yield item.replace_schema_metadata(metadata)


def read_range(element: FileRange | BadFile, columns: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    """Decoded batches of a part of a file, and what of it does not decode."""
    path = element.path
    if isinstance(element, BadFile):
        yield DeadLetter(path, None, None, BAD_FILE, element.problem, 1, path.encode())
        return
    try:
        if element.format == "avro":
            yield from _read_avro(element, columns)
        elif element.format == "parquet":
            yield from _read_parquet(element, columns)
        else:
            yield from _read_lines(element, columns)
    except (BeamIOError, OSError, EOFError, zlib.error) as error:
        yield DeadLetter(path, element.start, None, BAD_FILE, str(error), 1, path.encode())


def _read_avro(part: FileRange, columns: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    with open_raw(part.path) as stream:
        try:
            header = read_header(stream)
        except ValueError as error:
            if part.start == 0:
                yield DeadLetter(part.path, 0, None, BAD_FILE, str(error), 1, part.path.encode())
            return
        blocks = read_blocks(stream, header, part.start, part.stop)
        for item in avro.decode_blocks(header, blocks, columns):
            if isinstance(item, Block):
                yield DeadLetter(
                    part.path,
                    item.position,
                    None,
                    CORRUPT_BLOCK,
                    item.problem,
                    item.reports,
                    item.data,
                )
            else:
                yield item


def _read_parquet(part: FileRange, columns: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    for index in range(part.start, part.stop):
        with open_raw(part.path) as stream:
            try:
                yield from parquet.decode_row_group(stream, index, columns)
            except ValueError as error:
                reports = parquet.row_groups(stream)[index]
                place = f"{part.path} row group {index}".encode()
                yield DeadLetter(part.path, index, None, CORRUPT_BLOCK, str(error), max(1, reports), place)


def _read_lines(part: FileRange, columns: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    with open_raw(part.path) as stream:
        chunks = (
            json_lines.read_gzip_chunks(stream)
            if part.format == "jsonl.gz"
            else json_lines.read_chunks(stream, part.start, part.stop)
        )
        for position, text in chunks:
            for item in json_lines.decode_lines(position, text, columns):
                if isinstance(item, json_lines.BadLine):
                    yield DeadLetter(part.path, item.position, 0, NOT_JSON, item.problem, 1, item.data)
                else:
                    yield item

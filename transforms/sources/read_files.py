"""Reading files as a Beam transform: split them into ranges, spread the ranges over workers, decode them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.counts import IN
from ldpbeam.transforms.reports.dead_letters import Disclosure, in_columns
from ldpbeam.transforms.reports.emitted import count, damaged_file, emit, parted
from ldpbeam.transforms.sources.files import BadFile, FileRange
from ldpbeam.transforms.sources.read import DAMAGE, FileInput, read_parts, split_or_keep


@dataclass(eq=False)
class ReadReports(beam.PTransform):
    """Read the reports in files.

    Not every engine spreads a read over its workers (Flink in batch does not), so the ranges are reshuffled
    before they are read.

    Outputs: decoded batches (main), whose schema's metadata names the file; dead letters (``DEAD``) of what
    does not decode; and counts.

    Attributes:
        input: the files.
        columns: the columns of reports that the study needs.
        disclosure: what dead letters may reveal about their inputs.
    """

    input: FileInput
    columns: Columns
    disclosure: Disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Split each file into ranges, spread them over the workers, and decode each range."""
        entries = [*self.input.files, *self.input.bad_files]
        return (
            pipeline
            | "Files" >> beam.Create(entries, reshuffle=False)
            | "SplitFiles" >> beam.FlatMap(split_or_keep)
            | "SpreadRanges" >> beam.Reshuffle()
            | "ReadRanges" >> parted(_ReadRange(self.columns, self.disclosure), "decoded")
        )


@dataclass(eq=False)
class _ReadRange(beam.DoFn):
    columns: Columns
    disclosure: Disclosure

    def process(self, element: FileRange | BadFile) -> Iterable[Any]:
        for part in read_parts(element, self.columns):
            if not isinstance(part, list):
                yield count(IN, part.num_rows)
                yield part
                continue
            yield count(IN, sum(letter.reports for letter in part))
            if any(letter.reason in DAMAGE for letter in part):
                yield damaged_file(element.path)
            yield from emit(in_columns(part, self.disclosure), self.disclosure)

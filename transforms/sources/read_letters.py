"""Reading dead letters again as a Beam transform: their files are spread over the workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.counts import IN
from ldpbeam.transforms.reports.dead_letters import Disclosure, in_columns
from ldpbeam.transforms.reports.emitted import count, emit, parted
from ldpbeam.transforms.sources.again import KeptRecords, LettersFile, read_letters


@dataclass(eq=False)
class ReadAgain(beam.PTransform):
    """Read the kept records of dead letters.

    Outputs: decoded batches (main), whose schemas' metadata name the file that a record came from and whose
    positions are those in it; dead letters (``DEAD``) of what still does not decode; and counts.

    Attributes:
        kept: the records.
        columns: the columns of reports that the study needs.
        disclosure: what dead letters may reveal about their inputs.
    """

    kept: KeptRecords
    columns: Columns
    disclosure: Disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Spread the files over the workers, and decode the records of each."""
        return (
            pipeline
            | "Letters" >> beam.Create(list(self.kept.letters), reshuffle=False)
            | "SpreadLetters" >> beam.Reshuffle()
            | "ReadLetters" >> parted(_ReadLetters(self.columns, self.disclosure), "decoded")
        )


@dataclass(eq=False)
class _ReadLetters(beam.DoFn):
    columns: Columns
    disclosure: Disclosure

    def process(self, element: tuple[str, bytes]) -> Iterable[Any]:
        for part in read_letters(LettersFile(*element), self.columns):
            if isinstance(part, list):
                yield count(IN, sum(letter.reports for letter in part))
                yield from emit(in_columns(part), self.disclosure)
            else:
                yield count(IN, part.num_rows)
                yield part

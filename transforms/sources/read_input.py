"""Reading the input of a batch run as a Beam transform: it is spread over the workers in units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import Disclosure
from ldpbeam.transforms.reports.emitted import damaged_file, emit_decoded, parted
from ldpbeam.transforms.sources.batch_input import BatchInput, Reading


@dataclass(eq=False)
class ReadInput(beam.PTransform):
    """Read the reports of an input.

    Not every engine spreads a read over its workers (Flink in batch does not), so the units are reshuffled
    before they are read.

    Outputs: decoded batches (main), whose schema's metadata names their file; dead letters (``DEAD``) of what
    does not decode; and counts.

    Attributes:
        input: the input.
        columns: the columns of reports that the study needs.
        disclosure: what dead letters may reveal about their inputs.
    """

    input: BatchInput
    columns: Columns
    disclosure: Disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Split what is listed into units, spread them over the workers, and decode each."""
        reading = self.input.reading
        return (
            pipeline
            | "Listed" >> beam.Create(list(self.input.listed), reshuffle=False)
            | "Split" >> beam.FlatMap(reading.split)
            | "SpreadUnits" >> beam.Reshuffle()
            | "ReadUnits" >> parted(_ReadUnit(reading, self.columns, self.disclosure), "decoded")
        )


@dataclass(eq=False)
class _ReadUnit(beam.DoFn):
    reading: Reading
    columns: Columns
    disclosure: Disclosure

    def process(self, unit: Any) -> Iterable[Any]:
        for part in self.reading.decode(unit, self.columns):
            yield from emit_decoded(part if isinstance(part, list) else [part], self.disclosure)
            yield from map(damaged_file, self.reading.damaged_in(part))

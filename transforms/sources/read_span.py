"""Reading a span of a topic of Kafka as a Beam transform: its ranges are spread over the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.reports.batches import without_deliveries
from ldpbeam.transforms.reports.dead_letters import Disclosure
from ldpbeam.transforms.reports.emitted import emit_decoded, parted
from ldpbeam.transforms.sources.kafka_span import KafkaSpan, read_offsets


@dataclass(eq=False)
class ReadSpan(beam.PTransform):
    """Read the reports in a span of a topic.

    Outputs: decoded batches (main), whose schemas' metadata name topic and partition; dead letters (``DEAD``)
    of what does not decode; and counts.

    Attributes:
        span: the offsets.
        columns: the columns of reports that the study needs.
        disclosure: what dead letters may reveal about their inputs.
    """

    span: KafkaSpan
    columns: Columns
    disclosure: Disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Spread the ranges over the workers, and read each."""
        return (
            pipeline
            | "Ranges" >> beam.Create(list(self.span.ranges), reshuffle=False)
            | "SpreadRanges" >> beam.Reshuffle()
            | "ReadRanges" >> parted(_ReadRange(self.span, self.columns, self.disclosure), "decoded")
        )


@dataclass(eq=False)
class _ReadRange(beam.DoFn):
    span: KafkaSpan
    columns: Columns
    disclosure: Disclosure

    def process(self, offsets: tuple[int, int, int]) -> Iterator[Any]:
        for taken in read_offsets(self.span, Offsets(*offsets), self.columns):
            parts = [*map(without_deliveries, taken.batches), *taken.letters]
            yield from emit_decoded(parts, self.disclosure)

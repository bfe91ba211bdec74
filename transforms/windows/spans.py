"""``--from`` and ``--to``: reports outside the span of event times are dropped and counted.

A part of a window would give a wrong estimate of it, so in a study with windows the span is one of whole
windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.transforms.reports.counts import COUNTS, OUT_OF_RANGE
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.windows import Span


class LeaveOutside(beam.PTransform):
    """Drop the reports outside a span from batches of a channel.

    Gives batches, and counts of the dropped reports.
    """

    def __init__(self, span: Span) -> None:
        super().__init__()
        self.span = span

    def expand(
        self, reports: beam.PCollection[pa.RecordBatch]
    ) -> tuple[beam.PCollection[pa.RecordBatch], beam.PCollection[tuple[str, int]]]:
        """Filter every batch by itself."""
        sorted_out = reports | "LeaveOutside" >> beam.ParDo(_LeaveOutside(self.span)).with_outputs(
            COUNTS, main="inside"
        ).with_output_types(pa.RecordBatch)
        return sorted_out.inside, sorted_out[COUNTS]


class _LeaveOutside(beam.DoFn):
    def __init__(self, span: Span) -> None:
        self.span = span

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        outside = self.span.outside(batch.column("event_time").to_numpy())
        if not outside.any():
            yield batch
            return
        yield count(OUT_OF_RANGE, int(outside.sum()))
        if not outside.all():
            yield batch.filter(pa.array(~outside))

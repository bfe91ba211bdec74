"""An unbounded source of reports from any feed, which acknowledges only what an engine has committed.

On local engines, Beam's own Pub/Sub reader acknowledges before it processes, and its watermark is the wall
clock. So a crash would lose reports, and reports of last week would be late. The source here runs on engines
with unbounded splittable reads: Prism and Flink.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.unbounded_source import (
    CheckpointMark,
    ReadFromUnboundedSource,
    UnboundedReader,
    UnboundedSource,
)

from ldpbeam.transforms.reports.batches import ARRIVAL, WATERMARK, without_deliveries
from ldpbeam.transforms.reports.counts import IN
from ldpbeam.transforms.reports.dead_letters import Disclosure, in_columns
from ldpbeam.transforms.reports.emitted import count, damaged_file, emit, parted
from ldpbeam.transforms.sources.reader import Mark, TakenBatch, reader_in
from ldpbeam.transforms.sources.reading import Reading

#: Seconds after which a bundle ends, so that the engine commits what it read.
BUNDLE_SECONDS = 0.5
#: Seconds until the engine asks a reader again that had nothing.
POLL_SECONDS = 0.1


@dataclass(eq=False)
class ReadStream(beam.PTransform):
    """Read decoded batches as they arrive.

    Outputs: decoded batches (main), whose schemas' metadata name the feed and the watermark; dead letters
    (``DEAD``) of what does not decode; and counts.
    """

    reading: Reading
    disclosure: Disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Read batches of a feed, then part each into decoded batches, dead letters and counts."""
        return (
            pipeline
            | "Take"
            >> ReadFromUnboundedSource(
                Source(self.reading), poll_interval=POLL_SECONDS, max_read_time_seconds=BUNDLE_SECONDS
            )
            | "Unpack" >> parted(Unpack(self.disclosure), "decoded")
        )


@dataclass(eq=False)
class Unpack(beam.DoFn):
    """Part a batch of a feed into decoded batches, dead letters and counts."""

    disclosure: Disclosure

    def process(self, taken: TakenBatch) -> Iterable[Any]:
        """Count every report, emit the dead letters, and write the watermark into each decoded batch."""
        arrived, arrival = taken.batch, taken.arrival
        reports = sum(batch.num_rows for batch in arrived.batches)
        reports += sum(letter.reports for letter in arrived.letters)
        if arrival is None or not arrival.counted:
            yield count(IN, reports, "" if arrival is None else arrival.origin)
        yield from map(damaged_file, arrived.damaged)
        yield from emit(in_columns(arrived.letters, self.disclosure), self.disclosure, arrival)
        for batch in arrived.batches:
            if arrival is not None and arrival.origin:
                # It has offsets: a process takes each message once.
                batch = without_deliveries(batch)
            metadata = dict(batch.schema.metadata or {})
            if taken.watermark is not None:
                metadata[WATERMARK] = str(taken.watermark).encode()
            if arrival is not None:
                metadata[ARRIVAL] = arrival.encoded()
            yield batch.replace_schema_metadata(metadata)


@dataclass(eq=False)
class Source(UnboundedSource):
    """The source that Beam splits, one part per place, and that makes the readers.

    Attributes:
        reading: the settings of the run.
        number: the place of the run that its readers read, from 0.
    """

    reading: Reading
    number: int = 0

    def split(self, desired_num_splits: int, options: Any = None) -> list[UnboundedSource]:
        """One source per place, whatever number the engine desires."""
        return [Source(self.reading, number) for number in range(self.reading.readers)]

    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> UnboundedReader:
        """A new reader at the offsets of the mark; a feed without offsets delivers again what it must."""
        assert checkpoint_mark is None or isinstance(checkpoint_mark, Mark)
        return reader_in(self.reading, self.number, checkpoint_mark)

    def get_checkpoint_mark_coder(self) -> beam.coders.Coder:
        """The coder of marks, which hold a name and numbers: pickle."""
        return beam.coders.PickleCoder()

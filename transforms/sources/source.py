"""An unbounded source of reports on any feed, which acknowledges only what an engine has made durable.

Beam's own Pub/Sub reader acknowledges before it processes and takes the wall clock for the watermark on
local engines: a crash would lose reports, and a replay of last week would be late. This one runs on engines
with unbounded splittable reads: Prism and Flink.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.io.unbounded_source import (
    CheckpointMark,
    ReadFromUnboundedSource,
    UnboundedReader,
    UnboundedSource,
)

from ldpbeam.transforms.reports.batches import WATERMARK
from ldpbeam.transforms.reports.counts import COUNTS, IN, count, damaged_file
from ldpbeam.transforms.reports.dead_letters import DEAD, Disclosure, emit
from ldpbeam.transforms.sources.reader import Taken, reader_in
from ldpbeam.transforms.sources.reading import Reading

#: Seconds after which a bundle ends, so that what it read becomes durable and is acknowledged.
BUNDLE_SECONDS = 0.5
#: Seconds until a reader that had nothing is asked again.
POLL_SECONDS = 0.1


class ReadStream(beam.PTransform):
    """Decoded batches as they arrive.

    Outputs: the main one of decoded batches, whose schemas' metadata name the feed and the watermark; dead
    letters (``DEAD``) of what does not decode; and counts.
    """

    def __init__(self, reading: Reading, disclosure: Disclosure) -> None:
        super().__init__()
        self.reading = reading
        self.disclosure = disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Read batches of a feed, then part each into decoded batches, dead letters and counts."""
        return (
            pipeline
            | "Take"
            >> ReadFromUnboundedSource(
                Source(self.reading), poll_interval=POLL_SECONDS, max_read_time_seconds=BUNDLE_SECONDS
            )
            # taken : Taken
            | "Unpack" >> beam.ParDo(Unpack(self.disclosure)).with_outputs(DEAD, COUNTS, main="decoded")
            # decoded : RecordBatch
        )


class Unpack(beam.DoFn):
    """Batches of a feed to decoded batches, dead letters and counts.

    Args:
        disclosure: what dead letters may say of their inputs.
    """

    def __init__(self, disclosure: Disclosure) -> None:
        self.disclosure = disclosure

    def process(self, taken: Taken) -> Iterable[Any]:
        """Count every report, emit the dead letters, and write the watermark into each decoded batch."""
        arrived = taken.batch
        reports = sum(batch.num_rows for batch in arrived.batches)
        reports += sum(letter.reports for letter in arrived.letters)
        yield count(IN, reports)
        yield from map(damaged_file, arrived.damaged)
        yield from emit(arrived.letters, self.disclosure)
        for batch in arrived.batches:
            metadata = dict(batch.schema.metadata or {})
            if taken.watermark is not None:
                metadata[WATERMARK] = str(taken.watermark).encode()
            yield batch.replace_schema_metadata(metadata)


class Source(UnboundedSource):
    """What Beam splits into readers.

    Args:
        reading: what is read.
        number: which of the run's readers it makes.
    """

    def __init__(self, reading: Reading, number: int = 0) -> None:
        self.reading = reading
        self.number = number

    def split(self, desired_num_splits: int, options: Any = None) -> list[UnboundedSource]:
        """One source per reader, however many the engine desires."""
        return [Source(self.reading, number) for number in range(self.reading.readers)]

    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> UnboundedReader:
        """A reader; a mark is no place to resume from, as what was not acknowledged is sent again."""
        return reader_in(self.reading, self.number)

    def get_checkpoint_mark_coder(self) -> beam.coders.Coder:
        """Marks are pickled: they are a name and a number."""
        return beam.coders.PickleCoder()

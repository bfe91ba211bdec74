"""The unbounded pipeline, wired: from a subscription to panes in files, and published where asked."""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from ldpbeam.pipelines.estimates.write_panes import Publish, WritePane
from ldpbeam.pipelines.runs.output import ACCOUNTING, DEAD_LETTERS, Output
from ldpbeam.transforms.outputs.stream_write import WriteRunningAccounting, WriteStreamDeadLetters
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, PLAIN, Disclosure
from ldpbeam.transforms.reports.validate import ValidateReports
from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.sources.journal import RUNS, OpenWindow
from ldpbeam.transforms.sources.native_pubsub import ReadNative
from ldpbeam.transforms.sources.reading import Reading
from ldpbeam.transforms.sources.source import ReadStream
from ldpbeam.transforms.windows.panes import Panes
from ldpbeam.transforms.windows.unbounded import FoldStream


@dataclass(frozen=True)
class StreamJob(Output):
    """What one run of a stream reads, keeps and writes.

    Attributes:
        feed: what arrives.
        disorder: how much out of order it arrives at most, in milliseconds of event time.
        partitions: how many partitions of users; results do not depend on it.
        native: whether Beam's own transform pulls, as engines without unbounded reads need.
        stop_when_idle: end when nothing has arrived for so many milliseconds; None to go on.
        readers: how many readers pull, on engines that have room for several.
        stays: whether they stay when they have ended, for who waits to end the job.
        disclosure: what outputs may say of inputs, with the HMAC key for user ids.
        publish_to: a topic for estimates, None for none.
        incomplete: windows of which an earlier run may hold reports that nobody has any more.
    """

    feed: Feed
    disorder: int
    partitions: int
    native: bool = False
    stop_when_idle: int | None = None
    readers: int = 1
    stays: bool = False
    disclosure: Disclosure = PLAIN
    publish_to: str | None = None
    incomplete: frozenset[OpenWindow] = frozenset()

    def of_run(self, name: str) -> str:
        """A path below the run's own folder."""
        return str(FileSystems.join(self.path(RUNS), self.run, name))


def build(pipeline: beam.Pipeline, job: StreamJob) -> None:
    """Wire the whole of it into a pipeline."""
    study = job.study
    assert study.windows is not None
    if job.native:
        read = pipeline | "Read" >> ReadNative(job.feed, job.disclosure)
    else:
        reading = Reading(
            feed=job.feed,
            attributes=tuple(study.attributes),
            windows=study.windows,
            output=job.output,
            run=job.run,
            disorder=job.disorder,
            stop_when_idle=job.stop_when_idle,
            readers=job.readers,
            stays=job.stays,
        )
        read = pipeline | "Read" >> ReadStream(reading, job.disclosure)
    validated = read.decoded | "Validate" >> ValidateReports(study, disclosure=job.disclosure)
    # gains : (WindowKey, Statistics)
    gains, folded = validated.reports | "GroupUsers" >> FoldStream(study, job.partitions)
    estimates = gains | "Panes" >> Panes(study) | "WritePanes" >> beam.ParDo(WritePane(job, job.incomplete))
    if job.publish_to is not None:
        _ = estimates | "Publish" >> beam.ParDo(Publish(job.publish_to))
    _ = (
        (read[DEAD], validated[DEAD])
        | "DeadLetters" >> beam.Flatten()
        | "WriteDeadLetters" >> WriteStreamDeadLetters(job.of_run(DEAD_LETTERS))
    )
    _ = (
        (read[COUNTS], validated[COUNTS], folded)
        | "Counts" >> beam.Flatten()
        | "WriteAccounting" >> WriteRunningAccounting(job.of_run(ACCOUNTING))
    )

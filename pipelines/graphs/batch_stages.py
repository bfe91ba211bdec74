"""The stages of a batch run: from files or a span of a topic to snapshots, dead letters and accounting."""

from __future__ import annotations

from dataclasses import replace

import apache_beam as beam

from ldpbeam.folders.output import ACCOUNTING, DEAD_LETTERS, STATISTICS
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.transforms.outputs.accounting import WriteAccounting
from ldpbeam.transforms.outputs.dead_letters import WriteDeadLetters
from ldpbeam.transforms.outputs.write_snapshots import WriteSnapshots
from ldpbeam.transforms.reports.counts import COUNTS, DAMAGED
from ldpbeam.transforms.reports.dead_letters import DEAD
from ldpbeam.transforms.sources.read_input import ReadInput
from ldpbeam.transforms.statistics import BatchStatistics


def build(pipeline: beam.Pipeline, job: BatchJob) -> None:
    """Add the stages of a batch run to an empty pipeline.

    Args:
        pipeline: the pipeline; it is not run here.
        job: what the run reads and writes.
    """
    study = job.study
    read = pipeline | "Read" >> ReadInput(job.input, job.columns, job.disclosure)
    counted = read.decoded | "Statistics" >> BatchStatistics(
        study, job.user_shards, job.span, job.disclosure, job.keeping
    )
    damaged = (
        read[COUNTS]
        | "OfDamage" >> beam.Filter(lambda count: count[0].startswith(DAMAGED))
        | "DamagedFiles" >> beam.combiners.Count.Globally()
    )
    snapshots = counted.snapshots | "Judge" >> beam.Map(_judged, beam.pvalue.AsSingleton(damaged))
    _ = snapshots | "WriteStatistics" >> WriteSnapshots(study, job.path(STATISTICS), job.run)
    dead = read[DEAD], counted.dead_letters
    _ = dead | "WriteDeadLetters" >> WriteDeadLetters(job.path(DEAD_LETTERS))
    _ = (
        (read[COUNTS], counted.counts)
        | "Counts" >> beam.Flatten()
        | "WriteAccounting" >> WriteAccounting(job.path(ACCOUNTING))
    )


def _judged(window: tuple[str, list[Snapshot]], damaged: int) -> tuple[str, list[Snapshot]]:
    """Snapshots of a window, incomplete if any file is damaged: nobody knows the windows of what is lost."""
    attribute, snapshots = window
    return attribute, [replace(each, complete=False) for each in snapshots] if damaged else snapshots

"""The stages of a batch run: from files or a span of a topic to snapshots, dead letters and accounting."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace

import apache_beam as beam

from ldpbeam.answers.solve import sort_key
from ldpbeam.beam.solve_windows import Solve
from ldpbeam.folders.output import ACCOUNTING, DEAD_LETTERS, STATISTICS, WORKER_ESTIMATES
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.schemas.outputs.estimates import write_json_lines
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.accounting import WriteAccounting
from ldpbeam.transforms.outputs.dead_letters import WriteDeadLetters
from ldpbeam.transforms.outputs.write_snapshots import WriteSnapshots
from ldpbeam.transforms.reports.counts import COUNTS, DAMAGED
from ldpbeam.transforms.reports.dead_letters import DEAD
from ldpbeam.transforms.sources.read_input import ReadInput
from ldpbeam.transforms.statistics import BatchStatistics
from ldpbeam.transforms.storage import write_bytes


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
    counts = [read[COUNTS], counted.counts]
    _ = snapshots | "WriteStatistics" >> WriteSnapshots(study, job.path(STATISTICS), job.run)
    if job.estimate_on == "worker":
        solved, unsolved = snapshots | "Estimate" >> Solve(study)
        counts.append(unsolved)
        _ = (
            solved
            | "Flat" >> beam.FlatMap(lambda solved: solved.estimates)
            | "ToOne" >> beam.Map(lambda record: ("", record))
            | "Together" >> beam.GroupByKey()
            | "WriteEstimates" >> beam.Map(_write_estimates, study, job.path(WORKER_ESTIMATES))
        )
    dead = read[DEAD], counted.dead_letters
    _ = dead | "WriteDeadLetters" >> WriteDeadLetters(job.path(DEAD_LETTERS))
    _ = (
        tuple(counts)
        | "Counts" >> beam.Flatten()
        | "WriteAccounting" >> WriteAccounting(job.path(ACCOUNTING))
    )


def _judged(window: tuple[str, list[Snapshot]], damaged: int) -> tuple[str, list[Snapshot]]:
    """Snapshots of a window, incomplete if any file is damaged: nobody knows the windows of what is lost."""
    attribute, snapshots = window
    return attribute, [replace(each, complete=False) for each in snapshots] if damaged else snapshots


def _write_estimates(element: tuple[str, Iterable[EstimateRecord]], study: Study, path: str) -> None:
    """Write what the driver reads back, in the order of estimates."""
    lines = io.BytesIO()
    write_json_lines(lines, sorted(element[1], key=lambda record: sort_key(study, record)))
    write_bytes(path, lines.getvalue())

"""The stages of a batch run, from files or a span of a topic to snapshots, and running them to their end."""

from __future__ import annotations

from dataclasses import replace

import apache_beam as beam

from ldpbeam.errors import UserError, end_of, machine_problem
from ldpbeam.folders.output import ACCOUNTING, DEAD_LETTERS, STATISTICS
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.printing import progress_console
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.transforms.outputs.on_engines import WriteAccounting, WriteDeadLetters, WriteSnapshots
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


def run_pipeline(pipeline: beam.Pipeline, here: bool) -> None:
    """Run the pipeline to its end.

    Args:
        pipeline: the pipeline, with all its stages.
        here: whether the workers are in this process; then errors of our own code are raised as they are.

    Raises:
        UserError: if an engine elsewhere fails, its job server does not start, or a worker meets an error of
            the machine, such as a full disk.
    """
    try:
        with progress_console().status("reading reports"):
            pipeline.run().wait_until_finish()
    except Exception as error:  # each engine has errors of its own
        if _interrupted(error):
            raise KeyboardInterrupt from None
        problem = machine_problem(error)
        if problem is not None:
            raise UserError(problem) from None
        if here:
            raise
        raise UserError(f"the engine failed: {end_of(error)}") from None


def _interrupted(error: BaseException | None) -> bool:
    """Whether a step was interrupted: the engine in this process then raises an error of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None

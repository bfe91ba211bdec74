"""The batch pipeline: from files of reports to snapshots, dead letters and accounting."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam

from ldpbeam.pipelines.estimates.solve import solve, sort_key
from ldpbeam.pipelines.runs.output import ACCOUNTING, DEAD_LETTERS, STATISTICS, WORKER_ESTIMATES, Output
from ldpbeam.schemas.outputs.estimates import SolvedEstimate, estimate_fields, write_json_lines
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.joining.drop_report_ids import DropDuplicateIds
from ldpbeam.transforms.outputs.accounting import WriteAccounting
from ldpbeam.transforms.outputs.dead_letters import WriteDeadLetters
from ldpbeam.transforms.outputs.snapshots import WriteSnapshots
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, PLAIN, Disclosure
from ldpbeam.transforms.reports.validate import ValidateReports
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.files import BadFile, ReportFile
from ldpbeam.transforms.sources.read import ReadReports
from ldpbeam.transforms.storage import write_bytes
from ldpbeam.transforms.windows.bounded import Aggregate, FoldBatch
from ldpbeam.transforms.windows.spans import LeaveOutside
from ldpbeam.windows import EVERYTHING, Span

#: A partition of users holds about this many bytes of input.
PARTITION_BYTES = 24 * 2**20
FEWEST_PARTITIONS, MOST_PARTITIONS = 8, 4096


@dataclass(frozen=True)
class BatchJob(Output):
    """What one batch run reads, keeps and writes.

    Attributes:
        files: the input files.
        bad_files: malformed files, if the user asked to skip them.
        attribute: the attribute of reports that do not name one.
        service: the service of reports that do not name one.
        span: the event times to estimate: reports outside are out of range, and only the windows inside are
            estimated.
        disclosure: what outputs may reveal about inputs, with the HMAC key for user ids.
        partitions: the number of partitions of users; None for as many as the input's size needs.
        estimate_on: ``driver`` or ``worker``: where estimates are computed from snapshots.
    """

    files: tuple[ReportFile, ...] = ()
    bad_files: tuple[BadFile, ...] = ()
    attribute: str | None = None
    service: str | None = None
    span: Span = EVERYTHING
    disclosure: Disclosure = PLAIN
    partitions: int | None = None
    estimate_on: str = "driver"

    @property
    def user_partitions(self) -> int:
        """The number of partitions of users, from 8 to 4,096 by default; results do not depend on it."""
        if self.partitions is not None:
            return self.partitions
        size = sum(file.size for file in self.files)
        return max(FEWEST_PARTITIONS, min(MOST_PARTITIONS, -(-size // PARTITION_BYTES)))


def build(pipeline: beam.Pipeline, job: BatchJob) -> None:
    """Add the stages of a batch run to an empty pipeline.

    Args:
        pipeline: the pipeline; it is not run here.
        job: what the run reads and writes.
    """
    study = job.study
    columns = wanted_columns(study, job.attribute, job.service)
    # read.decoded : RecordBatch of one range of a file
    read = pipeline | "Read" >> ReadReports(list(job.files), list(job.bad_files), columns, job.disclosure)
    # validated.reports : RecordBatch of one channel
    validated = read.decoded | "Validate" >> ValidateReports(study, span=job.span, disclosure=job.disclosure)
    counts = [read[COUNTS], validated[COUNTS]]
    reports = validated.reports
    if study.duplicates == "drop":
        reports, repeats = reports | "DropDuplicateIds" >> DropDuplicateIds(study, job.user_partitions)
        counts.append(repeats)
        # A report outside the span can make one inside a duplicate, so it is dropped after duplicates are.
        if job.span.bounded:
            reports, outside = reports | "InSpan" >> LeaveOutside(job.span)
            counts.append(outside)
    # statistics : (WindowKey, Statistics)
    statistics, folded = reports | "GroupUsers" >> FoldBatch(study, job.user_partitions, job.span)
    counts.append(folded)
    # snapshots : (attribute, list[Snapshot] of one window)
    snapshots = statistics | "Aggregate" >> Aggregate(study)
    _ = snapshots | "WriteStatistics" >> WriteSnapshots(study, job.path(STATISTICS), job.run)
    if job.estimate_on == "worker":
        _ = (
            snapshots
            | "Estimate" >> beam.FlatMap(_solved, study)
            | "ToOne" >> beam.Map(lambda solved: ("", solved))
            | "Together" >> beam.GroupByKey()
            | "WriteEstimates" >> beam.Map(_write_estimates, study, job.path(WORKER_ESTIMATES))
        )
    # dead letters : RecordBatch of dead_letter.avsc
    _ = (
        (read[DEAD], validated[DEAD])
        | "DeadLetters" >> beam.Flatten()
        | "WriteDeadLetters" >> WriteDeadLetters(job.path(DEAD_LETTERS))
    )
    # counts : (name, reports)
    _ = (
        tuple(counts)
        | "Counts" >> beam.Flatten()
        | "WriteAccounting" >> WriteAccounting(job.path(ACCOUNTING))
    )


def _solved(element: tuple[str, list[Snapshot]], study: Study) -> list[SolvedEstimate]:
    return [solved for snapshot in element[1] for solved in solve(study, snapshot)]


def _write_estimates(element: tuple[str, Iterable[SolvedEstimate]], study: Study, path: str) -> None:
    """Write what the driver reads back, in the order of estimates."""
    found = sorted(element[1], key=lambda solved: sort_key(study, solved))
    lines = io.BytesIO()
    write_json_lines(lines, (estimate_fields(study, solved) for solved in found))
    write_bytes(path, lines.getvalue())

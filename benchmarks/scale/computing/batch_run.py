"""A day of users in one bounded run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.scale.computing.costs import WORKER_GB, cutting, overhead
from benchmarks.scale.measured import Measured
from benchmarks.scale.prices import GB_HOUR_BATCH, SHUFFLED_GB, VCPU_HOUR_BATCH
from benchmarks.scale.setting import KEY_WIDTH, study_of
from ldpbeam.pipelines.graphs import batch
from ldpbeam.schemas.encodings.avro_rows import BATCH_REPORTS
from ldpbeam.transforms.sources.files import RANGE_BYTES, ReportFile
from ldpbeam.transforms.windows.split import GATHERED_REPORTS


@dataclass(frozen=True)
class BatchRun:
    """What a bounded run would take.

    Attributes:
        partitions: of users.
        rows: reports in a piece of the shuffle before the join, in the mean.
        shuffled: bytes of reports written to shuffles.
        statistics: bytes of statistics written, where every partition is a bundle of its own.
        core_hours: of the core that was measured.
        memory: bytes that a partition of a window takes while it is joined.
    """

    partitions: int
    rows: float
    shuffled: float
    statistics: float
    core_hours: float
    memory: float

    @property
    def dollars(self) -> float:
        """On Dataflow: what is shuffled is counted written and read, without reductions."""
        hour = VCPU_HOUR_BATCH + WORKER_GB * GB_HOUR_BATCH
        return self.core_hours * hour + 2 * (self.shuffled + self.statistics) / 1e9 * SHUFFLED_GB


def partitions_of(size: float) -> int:
    """The partitions that a run makes of so many bytes of input."""
    files = (ReportFile("", math.ceil(size), "avro"),)
    return batch.BatchJob(study_of(2), "", "", files).user_partitions


def batch_run(
    m: Measured, users: float, *, windows: int = 1, mixed: bool = False, ids: bool = False
) -> BatchRun:
    """A day of users who tell two services, in one run; a bundle is taken for one range of a file.

    Args:
        m: what was measured.
        users: how many.
        windows: how many the day has.
        mixed: whether every file has reports of all of them, or of one.
        ids: whether reports have ids, which are compared first.
    """
    reports, width = 2 * users, m.avro + KEY_WIDTH * ids
    partitions = partitions_of(reports * width)
    a_report, rows = m.bytes_ids if ids else m.bytes_plain, RANGE_BYTES / width
    cost, pieces = cutting(m, partitions * (windows if mixed and not ids else 1), rows, BATCH_REPORTS)
    shuffled = a_report + m.bytes_piece * pieces
    if ids:
        cost += m.first + m.first_piece * pieces
        # Ids come together from everywhere, so from here on windows are mixed, and batches are what came out.
        rows = min(GATHERED_REPORTS, reports / partitions)
        in_batch = min(rows, 1 / (pieces * m.batches_after_first))
        again, pieces = cutting(m, partitions * windows, rows, in_batch)
        cost += again
        shuffled += a_report + m.bytes_piece * pieces
    cost += m.read + m.join + m.join_piece * pieces
    joins = partitions * windows
    return BatchRun(
        partitions=partitions,
        rows=1 / pieces,
        shuffled=reports * shuffled,
        statistics=joins * min(m.statistics["2 256"][0], 16 * reports / 2 / joins),
        core_hours=overhead(m) * (reports * cost + joins * (m.join_each + m.merge)) / 3.6e9,
        memory=reports / joins * m.memory,
    )

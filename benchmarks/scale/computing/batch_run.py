"""A day of users in one bounded run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.scale.computing.costs import WORKER_GB, cutting
from benchmarks.scale.measured import Measured
from benchmarks.scale.prices import GB_HOUR_BATCH, SHUFFLED_GB, VCPU_HOUR_BATCH
from benchmarks.scale.setting import KEY_WIDTH, study_of
from ldpbeam.pipelines.graphs import batch
from ldpbeam.schemas.encodings.avro import BATCH_REPORTS
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.files import RANGE_BYTES, ReportFile
from ldpbeam.transforms.sources.read import file_input
from ldpbeam.transforms.windows.split import GATHERED_REPORTS


@dataclass(frozen=True)
class BatchRun:
    """What a bounded run would take.

    Attributes:
        shards: of users.
        rows: reports in a piece of the shuffle before the join, in the mean.
        shuffled: bytes of reports written to shuffles.
        statistics: bytes of statistics written, where every shard is a bundle of its own.
        core_hours: of the core that was measured.
        memory: bytes that a shard takes while it is joined, at most: where all are of one window.
    """

    shards: int
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


def shards_of(size: float) -> int:
    """The shards that a run makes of so many bytes of input."""
    files = file_input((ReportFile("", math.ceil(size), "avro"),))
    return batch.BatchJob(study_of(2), "", "", files, Columns()).user_shards


def batch_run(m: Measured, users: float, *, windows: int = 1, ids: bool = False) -> BatchRun:
    """A day of users who tell two services, in one run; a bundle is taken for one range of a file.

    How windows lie in files does not matter, because a piece has the reports of all windows.

    Args:
        m: what was measured.
        users: how many.
        windows: how many the day has.
        ids: whether reports have ids, which are compared first.
    """
    reports, width = 2 * users, m.avro + KEY_WIDTH * ids
    shards = shards_of(reports * width)
    a_report = m.bytes_ids if ids else m.bytes_plain
    rows = RANGE_BYTES / width
    cost, pieces = cutting(m, shards, rows, BATCH_REPORTS)
    shuffled = a_report + m.bytes_piece * pieces
    if ids:
        cost += m.first + m.first_piece * pieces
        # Batches are what came out.
        rows = min(GATHERED_REPORTS, reports / shards)
        in_batch = min(rows, 1 / (pieces * m.batches_after_first))
        again, pieces = cutting(m, shards, rows, in_batch)
        cost += again
        shuffled += a_report + m.bytes_piece * pieces
    cost += m.read + (m.join if windows == 1 else m.join_hours) + m.join_piece * pieces
    joins = shards * windows
    return BatchRun(
        shards=shards,
        rows=1 / pieces,
        shuffled=reports * shuffled,
        statistics=joins * min(m.statistics["2 256"][0], 16 * reports / 2 / joins),
        core_hours=(reports * cost + joins * (m.join_each + m.merge)) / 3.6e9,
        memory=reports / shards * m.memory,
    )

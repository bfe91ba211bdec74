"""What a report costs until it is shuffled, and how a whole run compares with the sum of its steps."""

from __future__ import annotations

from benchmarks.scale.measured import Measured
from benchmarks.scale.setting import CHECKED_SHARDS, filled
from ldpbeam.pipelines.graphs import batch
from ldpbeam.schemas.encodings.avro_rows import BATCH_REPORTS
from ldpbeam.transforms.windows.split import GATHERED_REPORTS

#: Memory of a worker for each of its cores (n1-standard), in GB.
WORKER_GB = 3.75


def cutting(m: Measured, slots: float, rows: float, in_batch: float, local: bool) -> tuple[float, float]:
    """(microseconds to cut and shuffle, pieces) a report, of bundles of so many rows in batches.

    A local run spills pieces; other engines shuffle them.
    """
    pieces, slices = filled(slots, rows) / rows, filled(slots, in_batch) / in_batch
    a_report, a_piece = (m.spill, m.spill_piece) if local else (m.shuffle, m.shuffle_piece)
    return m.cut + m.cut_slice * slices + a_report + a_piece * pieces, pieces


def overhead(m: Measured) -> float:
    """How many times the sum of its steps a whole run takes."""
    cut, _ = cutting(m, batch.FEWEST_SHARDS, GATHERED_REPORTS, BATCH_REPORTS, local=True)
    return m.whole / (m.read + cut + m.join)


def check(m: Measured) -> float:
    """Seconds that the run that was checked would take by the other constants."""
    slices = filled(CHECKED_SHARDS, BATCH_REPORTS) / BATCH_REPORTS
    # Its one bundle has both services, whose pieces are apart.
    pieces = filled(2 * CHECKED_SHARDS, GATHERED_REPORTS) / GATHERED_REPORTS
    a_report = m.read + m.cut + m.cut_slice * slices + m.spill + m.join
    a_report += (m.spill_piece + m.join_piece) * pieces
    return overhead(m) * (2e6 * a_report + CHECKED_SHARDS * m.join_each) / 1e6

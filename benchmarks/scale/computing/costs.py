"""What a report costs until it is shuffled."""

from __future__ import annotations

from benchmarks.scale.measured import Measured
from benchmarks.scale.setting import filled

#: Memory of a worker for each of its cores (n1-standard), in GB.
WORKER_GB = 3.75


def cutting(m: Measured, slots: float, rows: float, in_batch: float) -> tuple[float, float]:
    """(microseconds to cut and shuffle, pieces) a report, of bundles of so many rows in batches."""
    pieces, slices = filled(slots, rows) / rows, filled(slots, in_batch) / in_batch
    return m.cut + m.cut_slice * slices + m.shuffle + m.shuffle_piece * pieces, pieces

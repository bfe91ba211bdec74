"""A partition in memory, in a process that has done nothing before."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from benchmarks.scale.measuring.meter import forget_peak, resident
from benchmarks.scale.measuring.reports import joined
from benchmarks.scale.setting import study_of
from ldpbeam.transforms.reports.emitted import BatchCoder


def measure(folder: Path) -> dict[str, Any]:
    """A partition in memory, in a process that has done nothing before."""
    study, process = study_of(2), resident()
    pieces = pickle.loads((folder / "partition").read_bytes())
    before = resident()
    forget_peak()
    batches = [BatchCoder().decode(piece) for piece in pieces]
    joined(study, batches)
    return {
        "process": process,
        "memory": (resident(peak=True) - before) / sum(part.num_rows for part in batches),
    }

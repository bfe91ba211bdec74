"""What a source does as time passes: it hands on batches, and its watermark moves on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ldpbeam.study import Study
from support.pane_reports import times_of


class Step(NamedTuple):
    """What a source does at once: its watermark is there, then these batches come.

    Attributes:
        watermark: in epoch milliseconds; never before that of the step before.
        batches: of a channel each.
    """

    watermark: int
    batches: list[pa.RecordBatch]


def in_time(study: Study, script: Iterable[Step]) -> tuple[list[pa.RecordBatch], int]:
    """The reports of a script that come before their last window closes, and how many do not."""
    period = study.windows.period
    kept, late = [], 0
    for watermark, batches in script:
        for batch in batches:
            ends = [time // period * period + study.windows.size for time in times_of(batch)]
            comes = np.array([end + study.windows.allowed_lateness > watermark for end in ends])
            kept.append(batch.filter(pa.array(comes)))
            late += int((~comes).sum())
    return [batch for batch in kept if batch.num_rows], late


def reports_in(script: Iterable[Step]) -> int:
    """How many reports come."""
    return sum(batch.num_rows for step in script for batch in step.batches)

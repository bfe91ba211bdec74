"""The event times of a batch that arrived."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.reports.event_times import problems
from ldpbeam.transforms.sources.feeds import FeedBatch


def event_times(arrived: FeedBatch) -> NDArray[np.int64]:
    """The valid event times in epoch milliseconds, one per report that has one."""
    return np.concatenate([np.empty(0, dtype=np.int64), *map(_plausible_times, arrived.batches)])


def _plausible_times(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The event times that validation accepts."""
    times = batch.column("event_time").drop_null().to_numpy()
    return np.asarray(times[problems(times) == 0])

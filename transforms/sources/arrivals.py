"""The event times of a batch that arrived, and the windows that its reports open."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.reports.columns import DELIVERY
from ldpbeam.schemas.reports.event_times import problems
from ldpbeam.transforms.reports.batches import Arrival, out_of_range
from ldpbeam.transforms.reports.validation import rows_by
from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.watermark import LIARS, thinned
from ldpbeam.transforms.state.records import OpenWindow
from ldpbeam.windows import Windows


def event_times(arrived: FeedBatch) -> NDArray[np.int64]:
    """The valid event times in epoch milliseconds, one per report that has one."""
    return np.concatenate([np.empty(0, dtype=np.int64), *map(_plausible_times, arrived.batches)])


#: A batch has at most so many anchors of its own, each for as many messages as one liar is among.
MOST_ANCHORS = 40


def anchors_of(arrived: FeedBatch) -> NDArray[np.int64]:
    """The event times around which the messages of a batch lie, spread evenly among them; none of a file.

    A message counts once, by its first report, however many windows it has reports of.
    """
    firsts = [
        _plausible_times(batch.filter(pc.equal(batch.column("row"), 0)))
        for batch in arrived.batches
        if arrived.offsets is not None or DELIVERY in batch.schema.names
    ]
    times = np.concatenate([np.empty(0, dtype=np.int64), *firsts])
    return thinned(times, min(MOST_ANCHORS, len(times) // LIARS))


def opened_windows(
    arrived: FeedBatch, attributes: Collection[str], windows: Windows, arrival: Arrival
) -> Iterator[OpenWindow]:
    """The windows that hold reports of the attributes. A window may be yielded more than once.

    Args:
        arrived: decoded batches, before validation.
        attributes: the attributes of the study; reports of others open no window.
        windows: the windows of the study.
        arrival: how they came; reports that are out of range open no window.
    """
    for batch in arrived.batches:
        # By the study's attributes: a batch may name as many others as it has reports.
        for attribute, rows in rows_by(batch, "attribute", list(attributes)).items():
            if not attribute:
                continue
            times = _plausible_times(batch.select(["event_time"]).filter(pa.array(rows)))
            times = times[~out_of_range(windows, times, arrival)[0]]
            for step in np.unique(windows.steps.numbers(times)).tolist():
                for window in windows.of_step(step):
                    yield OpenWindow(attribute, *window)
                    if windows.joined is not None:
                        yield OpenWindow(attribute, *windows.longer(window))


def _plausible_times(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The event times that validation accepts."""
    times = batch.column("event_time").drop_null().to_numpy()
    return np.asarray(times[problems(times) == 0])

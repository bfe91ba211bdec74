"""Window-pure batches: reports split by window step and by key, gathered again per bundle.

A step is the greatest common divisor of the windows' size and period, so all reports of a step fall in
the same windows, and a batch of one step, carrying that step's time, is windowed exactly as its reports
would be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from ldpbeam.transforms.reports.batches import attribute_name, version_index
from ldpbeam.transforms.reports.partitions import partition, split_by
from ldpbeam.windows import Bounds, Windows

#: A bundle hands its pieces on whenever it has gathered this many reports.
GATHERED_REPORTS = 2**20
#: A sliding window this many times its period would copy every report as often into its joins.
MOST_OVERLAP = 60


def beam_windows(windows: Windows | None, joined: bool = True) -> window.WindowFn:
    """The window function of a study, whose users are joined or not.

    Raises:
        ValueError: if sliding windows overlap too often for joins.
    """
    if windows is None:
        return window.GlobalWindows()
    # In whole microseconds: a float of seconds would lose some to rounding.
    size = Duration(micros=1000 * windows.size)
    if not windows.slides:
        return window.FixedWindows(size)
    if joined and windows.size > MOST_OVERLAP * windows.period:
        raise ValueError(
            f"windows.size is {windows.size / windows.period:.0f} times windows.period; every report "
            f"would be joined that often, and {MOST_OVERLAP} is the most: raise period or lower size"
        )
    return window.SlidingWindows(size, Duration(micros=1000 * windows.period))


def window_bounds(bounds: window.BoundedWindow) -> Bounds | None:
    """(start, end) of a window in epoch milliseconds, None for the global one."""
    if isinstance(bounds, window.IntervalWindow):
        return bounds.start.micros // 1000, bounds.end.micros // 1000
    return None


class SplitByStepAndKey(beam.DoFn):
    """Batches of a channel to (key, batch) of one step each, its time the element's timestamp.

    Args:
        windows: of the study.
        column: whose partition is the key: ``user`` or ``report_id``.
        partitions: how many partitions there are.
    """

    def __init__(self, windows: Windows | None, column: str, partitions: int) -> None:
        self.step = windows.step if windows else None
        self.column = column
        self.partitions = partitions
        self._gathered: defaultdict[tuple[int, str, int, pa.Schema], list[pa.RecordBatch]]

    def start_bundle(self) -> None:
        """Nothing is gathered yet."""
        self._clear()

    def _clear(self) -> None:
        self._gathered = defaultdict(list)
        self._reports = 0

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        """Gather the batch's pieces; hand all on when there are many."""
        attribute = attribute_name(batch)
        for at, piece in self._by_step(batch):
            for code, part in split_by(piece, partition(piece.column(self.column), self.partitions)):
                key = (at, f"{attribute}/{code}", version_index(batch), batch.schema)
                self._gathered[key].append(part)
        self._reports += batch.num_rows
        if self._reports >= GATHERED_REPORTS:
            for time, place, piece in self._pieces():
                yield window.TimestampedValue((place, piece), time)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Hand on what is left."""
        for time, key, piece in self._pieces():
            yield WindowedValue((key, piece), time, [window.GlobalWindow()])

    def _by_step(self, batch: pa.RecordBatch) -> Iterable[tuple[int, pa.RecordBatch]]:
        if self.step is None:
            return [(0, batch)]
        steps: NDArray[np.int64] = batch.column("event_time").to_numpy() // self.step
        if (steps == steps[0]).all():
            return [(int(steps[0]) * self.step, batch)]
        return [(code * self.step, piece) for code, piece in split_by(batch, steps)]

    def _pieces(self) -> Iterator[tuple[Timestamp, str, pa.RecordBatch]]:
        for (at, key, _, _), parts in self._gathered.items():
            piece = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            yield Timestamp(micros=at * 1000), key, piece
        self._clear()

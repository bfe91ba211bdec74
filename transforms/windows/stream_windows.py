"""A stream's batches cut by window and partition; what comes too late is counted.

Windows are part of the key here, not Beam's: of the engines that hold state, Prism drops a window's state at
its end whatever lateness is allowed, and all drop late elements without a count. In one global window no
engine drops anything, and what is late is decided by the watermark of the source, which a batch carries.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.transforms.reports.batches import WATERMARK, attribute_name, version_index
from ldpbeam.transforms.reports.counts import COUNTS, LATE, LATE_IN_WINDOWS, OUT_OF_RANGE, count
from ldpbeam.transforms.reports.partitions import partition, split_by
from ldpbeam.transforms.windows.cut import GATHERED_REPORTS
from ldpbeam.windows import FUTURE, Windows


def window_key(place: str, bounds: tuple[int, int]) -> str:
    """The key of a place (an attribute, or a partition of its users) in one window."""
    return f"{place}/{bounds[0]}/{bounds[1]}"


def place_and_window(key: str) -> tuple[str, tuple[int, int]]:
    """The inverse of :func:`window_key`."""
    place, start, end = key.rsplit("/", 2)
    return place, (int(start), int(end))


class SplitByWindow(beam.DoFn):
    """Batches of a channel to (key of attribute, partition and window, batch), gathered again per bundle.

    Outputs: the main one, and counts of reports that are late: those whose every window closed, with the
    lateness that is allowed, before the source's watermark when they came; and of reports from the future.

    Args:
        windows: of the study.
        partitions: how many partitions of users there are.
    """

    def __init__(self, windows: Windows, partitions: int) -> None:
        self.windows = windows
        self.partitions = partitions
        self._gathered: defaultdict[tuple[str, int, pa.Schema], list[pa.RecordBatch]]

    def start_bundle(self) -> None:
        """Nothing is gathered yet."""
        self._clear()

    def _clear(self) -> None:
        self._gathered = defaultdict(list)
        self._reports = 0

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        """Gather the batch's pieces; hand all on when there are many."""
        metadata = dict(batch.schema.metadata)
        watermark = int(metadata.pop(WATERMARK, -(2**62)))
        batch = batch.replace_schema_metadata(metadata)
        times = batch.column("event_time").to_numpy()
        future = times >= time.time_ns() // 1_000_000 + FUTURE
        if future.any():
            yield count(OUT_OF_RANGE, int(future.sum()))
            batch = batch.filter(pa.array(~future))
            times = times[~future]
        if not len(times):
            return
        size = self.windows.step
        late = late_in_windows = 0
        for code, piece in split_by(batch, times // size):
            bounds = self.windows.windows_of(code * size)
            is_open = [own for own in bounds if own[1] + self.windows.allowed_lateness > watermark]
            late_in_windows += piece.num_rows * (len(bounds) - len(is_open))
            if not is_open:
                late += piece.num_rows
                continue
            place = attribute_name(piece)
            for part, users in split_by(piece, partition(piece.column("user"), self.partitions)):
                for own in is_open:
                    key = window_key(f"{place}/{part}", own)
                    self._gathered[key, version_index(users), users.schema].append(users)
                    self._reports += users.num_rows
        if late:
            yield count(LATE, late)
        if self.windows.slides and late_in_windows:
            yield count(LATE_IN_WINDOWS, late_in_windows)
        if self._reports >= GATHERED_REPORTS:
            for at, key, piece in self._pieces():
                yield window.TimestampedValue((key, piece), at)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Hand on what is left."""
        for at, key, piece in self._pieces():
            yield WindowedValue((key, piece), at, [window.GlobalWindow()])

    def _pieces(self) -> Iterator[tuple[Timestamp, str, pa.RecordBatch]]:
        for (key, _, _), parts in self._gathered.items():
            piece = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            # The earliest event time of it: until it is taken up, no window of it can close.
            earliest = int(piece.column("event_time").to_numpy().min())
            yield Timestamp(micros=1000 * earliest), key, piece
        self._clear()


class StreamWindows(beam.PTransform):
    """Batches of a channel to (key of attribute, partition and window, batch), and counts of the late."""

    def __init__(self, windows: Windows, partitions: int) -> None:
        super().__init__()
        self.function = SplitByWindow(windows, partitions)

    def expand(self, reports: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Wire the stage."""
        split = reports | "SplitByWindow" >> beam.ParDo(self.function).with_output_types(
            tuple[str, pa.RecordBatch]
        ).with_outputs(COUNTS, main="pieces")
        return split.pieces, split[COUNTS]

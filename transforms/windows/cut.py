"""Cutting batches of a channel by window and partition, and gathering the pieces of a bundle, for both flows.

A step is the greatest common divisor of the windows' size and period, so all reports of a step fall in the
same windows. A run is a sequence of consecutive windows. A piece of a batch goes to one or several runs. How
long the runs are depends on the flow:

- :func:`each_window`: a run for each window, whose state the engine keeps until the window is due.
- :func:`within_size`: one run for all windows that start within one window size, so that a shuffle copies a
  report twice at most, however often windows overlap.
- :func:`together`: one run for all windows that hold the reports, if no report is compared with another.

The windows are part of the key; Beam's own windows are not used. With those, Prism drops a window's state at
its end whatever lateness is allowed, and every engine drops late elements without counting them. In Beam's
global window no engine drops anything.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from ldpbeam.times import format_duration
from ldpbeam.transforms.reports.batches import WATERMARK, attribute_name, version_index
from ldpbeam.transforms.reports.counts import COUNTS, LATE, LATE_IN_WINDOWS, OUT_OF_RANGE, count
from ldpbeam.transforms.reports.partitions import partition, split_by
from ldpbeam.transforms.sources.watermark import timestamp
from ldpbeam.transforms.windows.keys import PieceKey, Run
from ldpbeam.windows import EVERYTHING, FUTURE, Bounds, Span, Windows

#: Pieces are emitted when a bundle has gathered this many reports, and at its end.
GATHERED_REPORTS = 2**20
#: The most windows that may hold the same report if users are joined, since each of them joins it again.
MOST_OVERLAP = 60


def explain(windows: Windows | None) -> str:
    """A sentence on how reports are cut by event time."""
    if windows is None:
        return "There are no windows: all reports are one."
    sliding = f", one starting every {format_duration(windows.period)}" if windows.slides else ""
    early = (
        f", and an early estimate of a window comes each time {windows.early_reports:,} more of its reports "
        "are in"
        if windows.early_reports
        else ""
    )
    return (
        f"Reports are cut by event time into windows of {format_duration(windows.size)}{sliding}; in a "
        f"stream they may be up to {format_duration(windows.allowed_lateness)} late{early}."
    )


#: A function of the study's windows and of those that hold some reports, latest first; it gives their runs.
Runs = Callable[[Windows, Sequence[Bounds]], Sequence[Run]]


def each_window(_: Windows, held: Sequence[Bounds]) -> Sequence[Run]:
    """One run for each window."""
    return [(start, start) for start, _ in held]


def together(_: Windows, held: Sequence[Bounds]) -> Sequence[Run]:
    """One run of all windows; none if there is no window."""
    return [(held[-1][0], held[0][0])] if held else []


def within_size(windows: Windows, held: Sequence[Bounds]) -> Sequence[Run]:
    """For each block of one window size in which a window starts, the run of all that start in it."""
    size, period = windows.size, windows.period
    blocks = sorted({start // size for start, _ in held})
    return [
        (-(-block * size // period) * period, ((block + 1) * size - 1) // period * period) for block in blocks
    ]


def windows_in(windows: Windows, run: Run) -> list[Bounds]:
    """The windows of a run, [start, end) in epoch milliseconds, earliest first."""
    return [(start, start + windows.size) for start in range(run[0], run[1] + 1, windows.period)]


def check_overlap(windows: Windows | None) -> None:
    """Check that windows do not overlap too often to join users.

    Raises:
        ValueError: if more than :data:`MOST_OVERLAP` windows may hold the same report.
    """
    if windows is not None and windows.size > MOST_OVERLAP * windows.period:
        raise ValueError(
            f"windows.size is {windows.size / windows.period:.0f} times windows.period; every report "
            f"would be joined that often, and {MOST_OVERLAP} is the most: raise period or lower size"
        )


class Cut(beam.PTransform):
    """Cut batches of a channel into (:class:`PieceKey`, batch); count reports that are late or out of range.

    Args:
        function: cuts the batches of a bundle.
    """

    def __init__(self, function: Split) -> None:
        super().__init__()
        self.function = function

    def expand(self, reports: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Cut the batches of each bundle; give the pieces, and counts."""
        # pieces : (PieceKey, RecordBatch)
        split = reports | "Split" >> beam.ParDo(self.function).with_output_types(
            tuple[PieceKey, pa.RecordBatch]
        ).with_outputs(COUNTS, main="pieces")
        return split.pieces, split[COUNTS]


class Split(beam.DoFn):
    """How batches of a channel are cut, by window and by the partition of a column.

    A report is late if the source's watermark had passed the end of all its windows by the allowed lateness
    when it arrived. A batch carries that watermark; in a batch without one, no report is late.

    Args:
        windows: the windows of the study; None for one window over everything.
        partitions: the number of partitions.
        runs: gives the runs of the windows that hold a report; see above.
        column: the column whose partition is in the key: ``user`` or ``report_id``.
        span: windows that do not lie inside the span are left out.
        clock: whether reports dated a day or more ahead of this machine's clock are out of range.
    """

    def __init__(
        self,
        windows: Windows | None,
        partitions: int,
        runs: Runs,
        *,
        column: str = "user",
        span: Span = EVERYTHING,
        clock: bool = False,
    ) -> None:
        self.windows = windows
        self.partitions = partitions
        self.runs = runs
        self.column = column
        self.span = span
        self.clock = clock
        self._gathered: defaultdict[tuple[PieceKey, int, pa.Schema], list[pa.RecordBatch]]

    def start_bundle(self) -> None:
        """Start with no gathered pieces."""
        self._clear()

    def _clear(self) -> None:
        self._gathered = defaultdict(list)
        self._reports = 0

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        """Gather the pieces of a batch; emit all when there are :data:`GATHERED_REPORTS` reports."""
        metadata = dict(batch.schema.metadata)
        watermark = int(metadata.pop(WATERMARK, -(2**62)))
        batch = batch.replace_schema_metadata(metadata)
        if self.clock:
            future = batch.column("event_time").to_numpy() >= time.time_ns() // 1_000_000 + FUTURE
            if future.any():
                yield count(OUT_OF_RANGE, int(future.sum()))
                batch = batch.filter(pa.array(~future))
        if not batch.num_rows:
            return
        if self.windows is None:
            self._gather(batch, [None])
        else:
            yield from self._by_runs(self.windows, batch, watermark)
        if self._reports >= GATHERED_REPORTS:
            for at, key, piece in self._pieces():
                yield window.TimestampedValue((key, piece), at)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Emit the pieces that are left."""
        for at, key, piece in self._pieces():
            yield WindowedValue((key, piece), at, [window.GlobalWindow()])

    def _by_runs(self, windows: Windows, batch: pa.RecordBatch, watermark: int) -> Iterator[Any]:
        """Gather the reports that go to the same runs; emit counts of late reports."""
        places: dict[tuple[Run, ...], int] = {}
        late = late_in_windows = 0
        steps, inverse, reports = _distinct(batch.column("event_time").to_numpy() // windows.step)
        codes = np.empty(len(steps), dtype=np.int64)
        for place, (step, of_step) in enumerate(zip(steps, reports, strict=True)):
            held = [own for own in windows.windows_of(step * windows.step) if self.span.holds(own)]
            still = [own for own in held if own[1] + windows.allowed_lateness > watermark]
            late_in_windows += of_step * (len(held) - len(still))
            late += of_step if held and not still else 0
            codes[place] = places.setdefault(tuple(self.runs(windows, still)), len(places))
        lists = list(places)
        for code, piece in split_by(batch, codes[inverse]):
            self._gather(piece, lists[code])
        if late:
            yield count(LATE, late)
        if windows.slides and late_in_windows:
            yield count(LATE_IN_WINDOWS, late_in_windows)

    def _gather(self, batch: pa.RecordBatch, runs: Sequence[Run | None]) -> None:
        if not runs:
            return
        attribute, version = attribute_name(batch), version_index(batch)
        for part, piece in split_by(batch, partition(batch.column(self.column), self.partitions)):
            for run in runs:
                self._gathered[PieceKey(attribute, part, run), version, piece.schema].append(piece)
                self._reports += piece.num_rows

    def _pieces(self) -> Iterator[tuple[Timestamp, PieceKey, pa.RecordBatch]]:
        for (key, _, _), parts in self._gathered.items():
            piece = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            # The timestamp is the earliest event time: it holds the watermark, so that no window of the piece
            # closes before the piece is processed. Without windows event times are not checked.
            earliest = 0 if self.windows is None else int(piece.column("event_time").to_numpy().min())
            yield timestamp(earliest), key, piece
        self._clear()


def _distinct(numbers: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64], list[int]]:
    """(the distinct numbers, the index of each number among them, how often each occurs)."""
    encoded = pa.array(numbers).dictionary_encode()
    places = encoded.indices.to_numpy()
    return encoded.dictionary.to_pylist(), places, np.bincount(places).tolist()

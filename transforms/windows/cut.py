"""Cutting batches of a channel by window and shard, and gathering the pieces of a bundle, for both flows.

A batch run that compares reports cuts them by shard alone. The fold cuts a shard by window, so that a
piece has the reports of all windows: a file with the reports of a day makes as many pieces as one with those
of an hour, and a report is shuffled once, however often windows overlap.

Elsewhere the windows are part of the key. A step is the greatest common divisor of the windows' size and
period, so all reports of a step fall in the same windows. A run is a sequence of consecutive windows. A piece
of a batch goes to one or several runs:

- :func:`each_window`: a run for each window, whose state the engine keeps until the window is due.
- :func:`each_longer`: a run for each of the longer windows in which users are joined over several windows.
- :func:`together`: one run for all windows that hold the reports, if no report is compared with another.

Beam's own windows are not used. With those, one engine drops a window's state at
its end whatever lateness is allowed, and every engine drops late elements without counting them. In Beam's
global window no engine drops anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.cells import Cells
from ldpbeam.schemas.reports.columns import DELIVERY
from ldpbeam.times import UNITS, format_duration
from ldpbeam.transforms.joining.kept import Alike, can_be_kept
from ldpbeam.transforms.joining.pairs import InPairs, with_pairs
from ldpbeam.transforms.reports.batches import (
    WATERMARK,
    attribute_name,
    shard_of,
    split_by,
    version_index,
)
from ldpbeam.transforms.reports.counts import LATE, LATE_IN_WINDOWS
from ldpbeam.transforms.windows.piece_keys import PieceKey, Run
from ldpbeam.windows import EVERYTHING, FAR, Bounds, Span, Windows

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: The most windows that may hold the same report if users are joined, since each of them joins it again.
MOST_OVERLAP = 60


def explain(windows: Windows | None) -> str:
    """A sentence on how reports are cut by event time."""
    if windows is None:
        return "There are no windows: all reports are estimated together."
    sliding = f", one starting every {format_duration(windows.period)}" if windows.slides else ""
    early = (
        f", and an early estimate of a window is emitted after each {windows.early_reports:,} more of its "
        "reports"
        if windows.early_reports
        else ""
    )
    longer = ""
    if windows.joined is not None:
        longer = (
            f" Beside them, the reports of a user in the {windows.each_joined:,} windows of "
            f"{format_duration(windows.joined)} are brought together: errors and intervals of "
            f"{format_duration(windows.joined)} then hold however the reports of a user depend on each other."
        )
    return (
        f"Reports are cut by event time into windows of {format_duration(windows.size)}{sliding}"
        f"{_begin(windows)}; in a stream they may be up to {format_duration(windows.allowed_lateness)} "
        f"late{early}.{longer}"
    )


def _begin(windows: Windows) -> str:
    """When windows begin, in words, where it is not with the hours and days of UTC."""
    said = "" if windows.clock is None else f", by the clocks of {windows.clock.zone}"
    weeks = [windows.cells(of) for of in (windows.joined, windows.size) if of and of % UNITS["w"] == 0]
    if weeks:
        start = weeks[0].start(0)
        first = start if windows.clock is None else int(windows.clock.shows(np.array([start]))[0])
        said += f", in weeks that begin on {DAYS[(first // UNITS['d'] + 3) % 7]}"
    rest = windows.offset % UNITS["d"] if weeks else windows.offset
    return said + (f", each {format_duration(rest)} later" if rest else "")


#: A function that gives the runs of some reports, from the study's windows and from the windows that hold
#: these reports, latest first.
Runs = Callable[[Windows, Sequence[Bounds]], Sequence[Run]]


def each_window(_: Windows, held: Sequence[Bounds]) -> Sequence[Run]:
    """One run for each window."""
    return [(start, start) for start, _ in held]


def together(_: Windows, held: Sequence[Bounds]) -> Sequence[Run]:
    """One run of all windows; none if there is no window."""
    return [(held[-1][0], held[0][0])] if held else []


def each_longer(windows: Windows, held: Sequence[Bounds]) -> Sequence[Run]:
    """One run for each longer window, in which users are joined over the windows inside."""
    return [(start, start) for start in sorted({windows.longer(window)[0] for window in held})]


def windows_in(windows: Windows, run: Run) -> list[Bounds]:
    """The windows of a run, [start, end) in epoch milliseconds, earliest first."""
    return windows.between(*run)


def check_overlap(windows: Windows | None) -> None:
    """Check that windows do not overlap too often to join users.

    Raises:
        ValueError: if more than :data:`MOST_OVERLAP` windows may hold the same report.
    """
    if windows is not None and windows.size > MOST_OVERLAP * windows.period:
        raise ValueError(
            f"windows.size is {windows.size / windows.period:.0f} times windows.period; every report would "
            f"be counted that often, and {MOST_OVERLAP} is the most: raise period or lower size"
        )


_Together = tuple[str, int, tuple[Run | None, ...], int, pa.Schema]


class Pieces:
    """Gathers the pieces of batches of a channel by key.

    A report is late if the source's watermark had passed the end of all its windows by the allowed lateness
    when it arrived. A batch carries that watermark; in a batch without one, no report is late.

    Args:
        windows: the windows of the study; None to cut by shard alone.
        shards: the number of shards.
        runs: gives the runs of the windows that hold a report; see above.
        column: the column whose shard is in the key: ``user`` or ``report_id``. Of reports without users
            those that can be duplicates have one shard.
        span: windows that do not lie inside the span are left out.
        alike: of which reports of an attribute one is kept, so that pieces are cut without most others; None
            if all are kept.
        in_pairs: the pairs that attributes are in, which get a piece of their own of the same reports.
    """

    def __init__(
        self,
        windows: Windows | None,
        shards: int,
        runs: Runs = together,
        *,
        column: str = "user",
        span: Span = EVERYTHING,
        alike: Callable[[str], Alike] | None = None,
        in_pairs: InPairs | None = None,
    ) -> None:
        self.alike = alike
        self.in_pairs = in_pairs or {}
        self.windows = windows
        self.shards = shards
        self.runs = runs
        self.column = column
        self.span = span
        self.reports = 0
        #: The least watermark of the batches gathered.
        self.watermark = FAR
        #: Reports that go to the same runs, by attribute, shard, runs, version and schema.
        self._gathered: defaultdict[_Together, list[pa.RecordBatch]] = defaultdict(list)

    def gather(self, batch: pa.RecordBatch) -> Iterator[tuple[str, int]]:
        """Gather the pieces of a batch; give the counts of its late reports."""
        metadata = dict(batch.schema.metadata)
        watermark = int(metadata.pop(WATERMARK, -FAR))
        self.watermark = min(self.watermark, watermark)
        batch = batch.replace_schema_metadata(metadata)
        if not batch.num_rows:
            return
        if self.windows is None:
            self._gather(batch, [None])
        else:
            yield from self._by_runs(self.windows, batch, watermark)

    def _by_runs(self, windows: Windows, batch: pa.RecordBatch, watermark: int) -> Iterator[tuple[str, int]]:
        """Gather the reports that go to the same runs; emit counts of late reports."""
        places: dict[tuple[Run, ...], int] = {}
        late = late_in_windows = 0
        steps, inverse, reports = _distinct(windows.steps, batch.column("event_time").to_numpy())
        codes = np.empty(len(steps), dtype=np.int64)
        for index, (step, of_step) in enumerate(zip(steps, reports, strict=True)):
            held = [window for window in windows.of_step(step) if self.span.holds(window)]
            still = [window for window in held if window[1] + windows.allowed_lateness > watermark]
            late_in_windows += of_step * (len(held) - len(still))
            late += of_step if held and not still else 0
            codes[index] = places.setdefault(tuple(self.runs(windows, still)), len(places))
        lists = list(places)
        for code, piece in split_by(batch, codes[inverse]):
            self._gather(piece, lists[code])
        if late:
            yield LATE, late
        if windows.slides and late_in_windows:
            yield LATE_IN_WINDOWS, late_in_windows

    def _gather(self, batch: pa.RecordBatch, runs: Sequence[Run | None]) -> None:
        if not runs:
            return
        for part, piece in split_by(batch, self._shards(batch)):
            for reports in with_pairs(piece, self.in_pairs):
                key = attribute_name(reports), part, tuple(runs), version_index(reports), reports.schema
                self._gathered[key].append(reports)
                self.reports += reports.num_rows * len(runs)

    def _shards(self, batch: pa.RecordBatch) -> NDArray[np.uint16]:
        if self.shards == 1:
            return np.zeros(batch.num_rows, dtype=np.uint16)
        names = ("report_id", DELIVERY) if self.column not in batch.schema.names else (self.column,)
        keys = [batch.column(name) for name in names if name in batch.schema.names]
        return shard_of(pc.coalesce(*keys) if len(keys) > 1 else keys[0], self.shards)

    def leave_out_repeats(self) -> Iterator[tuple[Alike, Run | None, int]]:
        """Drop the reports that no fold can keep, before the reports of all windows become one piece.

        Gives (of which reports one is kept, the first of their runs, how many were left out) of reports that
        go to the same runs. Of :func:`each_window` that is the window which counts them.
        """
        if self.alike is None:
            return
        for (attribute, _, runs, _, _), parts in self._gathered.items():
            alike, every = self.alike(attribute), parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            parts[:] = [can_be_kept(every, alike)]
            yield alike, runs[0], every.num_rows - parts[0].num_rows

    def taken(self) -> Iterator[tuple[PieceKey, list[pa.RecordBatch]]]:
        """(key, batches of one channel and schema) for everything gathered so far, which is forgotten."""
        gathered, self._gathered, self.reports = self._gathered, defaultdict(list), 0
        self.watermark = FAR
        pieces: defaultdict[tuple[PieceKey, int, pa.Schema], list[pa.RecordBatch]] = defaultdict(list)
        for (attribute, shard, runs, version, schema), parts in gathered.items():
            for run in runs:
                pieces[PieceKey(attribute, shard, run), version, schema] += parts
        for (key, _, _), parts in pieces.items():
            yield key, parts


def _distinct(cells: Cells, times: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64], list[int]]:
    """(the distinct cells that hold some times, the index of that of each time, how many each holds)."""
    ends = cells.numbers(np.array([times.min(), times.max()])).tolist()
    if ends[0] == ends[1]:
        return ends[:1], np.zeros(len(times), dtype=np.int64), [len(times)]
    encoded = pa.array(cells.numbers(times)).dictionary_encode()
    places = encoded.indices.to_numpy()
    return encoded.dictionary.to_pylist(), places, np.bincount(places).tolist()

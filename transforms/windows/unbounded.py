"""The flow of a stream: a partition's reports in a window are state, folded whenever a timer says it is due.

A late report moves its user from one cell of the joint histogram to another, which no sum of increments could
say. So a partition of a window keeps its reports. Whenever the window is due it folds all of them, as a batch
run does, and hands on what its statistics gained and lost since the window was due last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.study import Study
from ldpbeam.transforms.reports.batches import BatchCoder
from ldpbeam.transforms.reports.counts import COUNTS, LATE, LATE_IN_WINDOWS, count
from ldpbeam.transforms.windows.coders import Statistics, StatisticsCoder
from ldpbeam.transforms.windows.cut import Cut, each_window, together
from ldpbeam.transforms.windows.fold import Fold, FoldEach, Folded, counted
from ldpbeam.transforms.windows.groups import gains
from ldpbeam.transforms.windows.keys import PieceKey, WindowKey
from ldpbeam.windows import Bounds


class FoldStream(beam.PTransform):
    """Batches of a channel to what the statistics of windows gained and lost.

    Where no report is compared with another, nothing is kept and every batch is a gain.

    Gives (:class:`WindowKey`, gains of its groups), and counts.
    """

    def __init__(self, study: Study, partitions: int) -> None:
        super().__init__()
        fold = Fold(study, report_ids=study.duplicates == "drop")
        self.cut = (
            Cut(study.windows, partitions, each_window, clock=True)
            if fold.compares
            else Cut(study.windows, 1, together, clock=True)
        )
        self.function = FoldWindow(fold, partitions) if fold.compares else FoldEach(fold)

    def expand(self, reports: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Cut by window and partition, keep, fold when due."""
        pieces, late = reports | "CutByWindow" >> self.cut
        typed = beam.ParDo(self.function).with_input_types(tuple[PieceKey, pa.RecordBatch])
        folded = pieces | "JoinWindows" >> typed.with_output_types(tuple[WindowKey, Statistics]).with_outputs(
            COUNTS, main="gains"
        )
        return folded.gains, (late, folded[COUNTS]) | "FoldCounts" >> beam.Flatten()


class _Progress(NamedTuple):
    """What a partition of a window has emitted so far.

    Attributes:
        waiting: reports since it last emitted anything.
        used: its reports that are kept, as emitted; likewise the two others.
        duplicates: see :class:`Folded`.
        in_window: see :class:`Folded`.
        closed: 1 when later reports are late.
    """

    waiting: int = 0
    used: int = 0
    duplicates: int = 0
    in_window: int = 0
    closed: int = 0


_PROGRESS_CODER = beam.coders.TupleCoder([beam.coders.VarIntCoder()] * len(_Progress._fields))


class FoldWindow(beam.DoFn):
    """The state of one partition of users of one attribute in one window.

    A timer at the window's end says that it is due; set again after that, it fires at once, so what is late
    is folded a bundle at a time. After the lateness allowed it lets go of the reports. It is one timer, set
    again each time: of several that are due, as when the watermark leaps, engines may fire the later ones
    first.
    """

    REPORTS = BagStateSpec("reports", BatchCoder())
    EMITTED = ReadModifyWriteStateSpec("emitted", StatisticsCoder())
    PROGRESS = ReadModifyWriteStateSpec("progress", _PROGRESS_CODER)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, fold: Fold, partitions: int) -> None:
        assert fold.study.windows is not None
        self.fold = fold
        self.windows = fold.study.windows
        early = self.windows.early_reports
        self.early = None if early is None else -(-early // partitions)

    def process(
        self,
        element: tuple[PieceKey, pa.RecordBatch],
        reports: Any = beam.DoFn.StateParam(REPORTS),
        emitted: Any = beam.DoFn.StateParam(EMITTED),
        progress: Any = beam.DoFn.StateParam(PROGRESS),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[Any]:
        """Keep a batch, unless it is too late."""
        key, batch = element
        window = self._window(key)
        before = _Progress(*(progress.read() or ()))
        if before.closed:
            yield from self._late(batch, window)
            return
        reports.add(batch)
        due.set(_timestamp(window[1]))
        now = before._replace(waiting=before.waiting + batch.num_rows)
        progress.write(now)
        if self.early is not None and now.waiting >= self.early:
            yield from self._emit(key, reports, emitted, progress)

    @on_timer(DUE)
    def on_due(
        self,
        key: PieceKey = beam.DoFn.KeyParam,
        time: Timestamp = beam.DoFn.TimestampParam,
        reports: Any = beam.DoFn.StateParam(REPORTS),
        emitted: Any = beam.DoFn.StateParam(EMITTED),
        progress: Any = beam.DoFn.StateParam(PROGRESS),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[Any]:
        """Emit at the window's end and later; let go of the reports at its expiry, then of the mark."""
        last = self._window(key)[1] + self.windows.allowed_lateness
        expired, forgotten = _timestamp(last + 1), _timestamp(last + self.windows.remembered)
        if time >= forgotten:
            progress.clear()
            return
        yield from self._emit(key, reports, emitted, progress)
        if time < expired:
            due.set(expired)
            return
        reports.clear()
        emitted.clear()
        progress.write(_Progress(closed=1))
        due.set(forgotten)

    def _window(self, key: PieceKey) -> Bounds:
        """The one window of a key's run."""
        assert key.run is not None
        return key.run[0], key.run[0] + self.windows.size

    def _emit(self, key: PieceKey, reports: Any, emitted: Any, progress: Any) -> Iterator[Any]:
        """What changed since the reports were folded last."""
        before = _Progress(*(progress.read() or ()))
        if not before.waiting:
            return
        for window, folded in self.fold.fold(key, list(reports.read())):
            yield from self.fold.told(
                window,
                Folded(
                    gains(self.fold.study, folded.statistics, emitted.read() or Statistics()),
                    folded.used - before.used,
                    folded.duplicates - before.duplicates,
                    folded.in_window - before.in_window,
                ),
            )
            emitted.write(folded.statistics)
            progress.write(_Progress(0, folded.used, folded.duplicates, folded.in_window))

    def _late(self, batch: pa.RecordBatch, window: Bounds) -> Iterator[Any]:
        if self.windows.slides:
            yield count(LATE_IN_WINDOWS, batch.num_rows)
        here = counted(self.windows, [batch], window)
        if here:
            yield count(LATE, here)


def _timestamp(milliseconds: int) -> Timestamp:
    return Timestamp(micros=1000 * milliseconds)

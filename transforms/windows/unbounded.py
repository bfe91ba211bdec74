"""The flow of a stream: the reports of a shard in a window are state, and a timer folds them.

A late report moves its user from one cell of the joint histogram to another, which no increment of counts can
express. So the state of a shard and window keeps its reports. Each time the timer fires, all of them are
folded as in a batch run, and the change of the statistics since the last time is emitted.
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
from ldpbeam.transforms.joining.kept import can_be_kept, concatenated
from ldpbeam.transforms.reports.counts import COUNTS, LATE, LATE_IN_WINDOWS
from ldpbeam.transforms.reports.emitted import BatchCoder, count
from ldpbeam.transforms.windows.coders import KeyCoder, StatisticsCoder
from ldpbeam.transforms.windows.cut import Pieces, each_longer, each_window, together
from ldpbeam.transforms.windows.fold import Fold, Folded, JoinedFold, counted
from ldpbeam.transforms.windows.groups import GroupStatistics, gains
from ldpbeam.transforms.windows.piece_keys import PieceKey, WindowKey
from ldpbeam.transforms.windows.split import Cut, FoldPieces, beside, outputs, parted, timestamp
from ldpbeam.windows import Bounds

#: Repeated reports are removed from the state of a shard and window at this many reports, and at each
#: doubling.
HELD_REPORTS = 2**18


class FoldStream(beam.PTransform):
    """Fold batches of a channel into gains: the changes of the statistics of each window.

    Reports that are compared with none have no state, and the statistics of every batch of them are a gain.

    Gives (:class:`WindowKey`, gains of its groups), and counts.
    """

    def __init__(self, study: Study, shards: int) -> None:
        super().__init__()
        windows = study.windows
        self.fold = Fold(study, report_ids=study.duplicates == "drop")
        compared = Pieces(windows, shards, each_window, alike=self.fold.alike, in_pairs=study.in_pairs)
        self.cut = Cut(compared, clock=True)
        self.function = FoldWindow(self.fold, shards)
        self.cut_alone = Cut(Pieces(windows, 1, together), clock=True)
        self.alone = FoldPieces(Fold(study))
        self.longer = None
        if study.windows_joined > 1:
            longer = Pieces(windows, shards, each_longer, alike=self.fold.alike)
            self.cut_longer = Cut(longer, clock=True)
            self.longer = FoldWindow(JoinedFold(study), shards, early=False)

    def expand(
        self, reports: beam.PCollection[pa.RecordBatch]
    ) -> tuple[beam.PCollection[tuple[WindowKey, GroupStatistics]], beam.PCollection[tuple[str, int]]]:
        """Cut by window and shard, keep the pieces in state, and fold them when the timer fires."""
        gains, counts = [], []
        compared, alone = parted(self.fold, (reports,))
        for (batches,) in filter(None, [compared]):
            pieces, late = batches | "CutByWindow" >> self.cut
            folded = pieces | "JoinWindows" >> _typed(self.function)
            gains.append(folded.gains)
            counts += [late, folded[COUNTS]]
        for (batches,) in filter(None, [alone]):
            pieces, late = batches | "CutAlone" >> self.cut_alone
            folded = pieces | "Tally" >> _typed(self.alone)
            gains.append(folded.gains)
            counts += [late, folded[COUNTS]]
        if self.longer is not None:
            # The windows inside count what became of the reports.
            inside, _ = reports | "CutByLongerWindow" >> self.cut_longer
            gains.append((inside | "JoinLonger" >> _typed(self.longer)).gains)
        return beside(gains, "Gains"), counts | "FoldCounts" >> beam.Flatten()


def _typed(function: beam.DoFn) -> beam.PTransform:
    """The ParDo of a fold with the types of its input and of its outputs: ``gains``, and counts."""
    typed = beam.ParDo(function).with_input_types(tuple[PieceKey, pa.RecordBatch])
    return typed.with_output_types(tuple[WindowKey, GroupStatistics]).with_outputs(COUNTS, main="gains")


class _Progress(NamedTuple):
    """What the state of a shard and window has emitted so far.

    Attributes:
        waiting: how many reports arrived since it last emitted; without early panes, 1 or more if any did.
        closed: 1 once all further reports are late.
        used: ``used`` of the last :class:`Folded` that was emitted; its other counts follow in their order.
    """

    waiting: int = 0
    closed: int = 0
    used: int = 0
    duplicates: int = 0
    in_window: int = 0
    beyond_most: int = 0


class FoldWindow(beam.DoFn):
    """The state of one shard of users of one attribute in one window.

    A timer fires at the window's end. If it is set again after that, it fires at once, so late reports are
    folded bundle by bundle. After the allowed lateness the reports are deleted. There is only one timer, set
    again each time: if several timers are due, as when the watermark leaps, engines may fire the later ones
    first.
    """

    REPORTS = BagStateSpec("reports", BatchCoder())
    EMITTED = ReadModifyWriteStateSpec("emitted", StatisticsCoder())
    PROGRESS = ReadModifyWriteStateSpec("progress", KeyCoder(_Progress))
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, fold: Fold, shards: int, *, early: bool = True) -> None:
        assert fold.study.windows is not None
        self.fold = fold
        self.windows = fold.study.windows
        often = self.windows.early_reports if early else None
        self.early = None if often is None else -(-often // shards)
        # Before anything is emitted, the number that waits is written only where early panes need it.
        self.first = _Progress(waiting=int(self.early is None))
        #: By key: how many reports its state has, and how many it had when repeated ones were last removed.
        self.held: dict[PieceKey, tuple[int, int]] = {}

    def process(
        self,
        element: tuple[PieceKey, pa.RecordBatch],
        reports: Any = beam.DoFn.StateParam(REPORTS),
        emitted: Any = beam.DoFn.StateParam(EMITTED),
        progress: Any = beam.DoFn.StateParam(PROGRESS),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[Any]:
        """Keep a batch in state and set the timer; if the window is closed, count its reports as late."""
        key, batch = element
        window = self._window(key)
        before = self._before(progress)
        if before.closed:
            if not self.fold.study.is_pair(key.attribute):
                yield from self._late(batch, window)
            return
        reports.add(batch)
        due.set(timestamp(window[1]))
        now = before._replace(waiting=before.waiting + batch.num_rows)
        size, looked = self.held.get(key, (0, 0))
        self.held[key] = size + batch.num_rows, looked
        if size + batch.num_rows >= max(HELD_REPORTS, 2 * looked):
            yield from self._without_repeats(key, reports)
        if self.early is not None or not before.waiting:
            progress.write(now)
        if self.early is not None and now.waiting >= self.early:
            yield from self._emit(key, now, reports, emitted, progress)

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
        """Emit at the window's end and later; at its expiry delete the reports, later the ``closed`` mark."""
        last = self._window(key)[1] + self.windows.allowed_lateness
        expired, forgotten = timestamp(last + 1), timestamp(last + self.windows.remembered)
        if time >= forgotten:
            progress.clear()
            return
        yield from self._emit(key, self._before(progress), reports, emitted, progress)
        if time < expired:
            due.set(expired)
            return
        reports.clear()
        self.held.pop(key, None)
        emitted.clear()
        progress.write(_Progress(closed=1))
        due.set(forgotten)

    def _before(self, progress: Any) -> _Progress:
        return progress.read() or self.first

    def _window(self, key: PieceKey) -> Bounds:
        """The window of a key; its run has only one."""
        assert key.run is not None
        return self.fold.window_at(key.run[0])

    def _emit(
        self, key: PieceKey, before: _Progress, reports: Any, emitted: Any, progress: Any
    ) -> Iterator[Any]:
        """Fold the reports, and emit the gains and counts since the last time; nothing if no report came."""
        if not before.waiting:
            return
        has_emitted = before.in_window or self.fold.study.is_pair(key.attribute)
        statistics = (has_emitted and emitted.read()) or GroupStatistics()
        for window, folded in self.fold.fold(key, list(reports.read())):
            gained = gains(self.fold.study, folded.statistics, statistics)
            apart = (now - then for now, then in zip(folded[1:], before[2:], strict=True))
            yield from outputs(self.fold.study, window, Folded(gained, *apart))
            emitted.write(folded.statistics)
            progress.write(_Progress(0, 0, *folded[1:]))

    def _without_repeats(self, key: PieceKey, reports: Any) -> Iterator[Any]:
        """Make the state smaller, if many of its reports can never be kept, and count these."""
        held, alike = list(concatenated(reports.read())), self.fold.alike(key.attribute)
        few = [can_be_kept(batch, alike) for batch in held]
        size = sum(batch.num_rows for batch in few)
        self.held[key] = size, size
        if all(one is other for one, other in zip(few, held, strict=True)):
            return
        reports.clear()
        for batch in few:
            reports.add(batch)
        window = self._window(key)
        left_out = counted(self.windows, held, window) - counted(self.windows, few, window)
        yield from (count(name, reports) for name, reports in alike.counts(left_out))

    def _late(self, batch: pa.RecordBatch, window: Bounds) -> Iterator[Any]:
        if self.windows.slides:
            yield count(LATE_IN_WINDOWS, batch.num_rows)
        here = counted(self.windows, [batch], window)
        if here:
            yield count(LATE, here)

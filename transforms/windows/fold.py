"""The fold: all reports of some users in a window to statistics. Batch and stream differ in when it runs.

All else in which the two may differ are its arguments. A batch run compares report ids over everything before
it folds, a stream among the reports of a window. A batch run may leave out windows (``--from``, ``--to``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from ldpbeam.attributes import Attribute
from ldpbeam.study import Study
from ldpbeam.transforms.joining.join import join, without_join
from ldpbeam.transforms.joining.report_ids import without_repeats
from ldpbeam.transforms.reports.counts import DUPLICATES, IN_WINDOWS, USED, count
from ldpbeam.transforms.windows.coders import Statistics
from ldpbeam.transforms.windows.cut import windows_in
from ldpbeam.transforms.windows.groups import by_window, tallied
from ldpbeam.transforms.windows.keys import PieceKey
from ldpbeam.windows import EVERYTHING, Bounds, Span, Windows, counted_until


class Folded(NamedTuple):
    """What the reports of one partition and window come to.

    Attributes:
        statistics: by attribute and group.
        used: the reports that are kept and counted in this window.
        duplicates: those counted in this window that are dropped.
        in_window: the reports that are kept, wherever they are counted.
    """

    statistics: Statistics
    used: int
    duplicates: int
    in_window: int


@dataclass(frozen=True)
class Fold:
    """How reports become statistics.

    Attributes:
        study: what is estimated.
        span: the windows that lie outside are left out.
        report_ids: whether report ids are compared here, among the reports of one partition and window.
    """

    study: Study
    span: Span = EVERYTHING
    report_ids: bool = False

    @property
    def compares(self) -> bool:
        """Whether reports are compared with each other, so that all of a window must be there."""
        return self.study.group_users or self.report_ids

    def fold(
        self, key: PieceKey, batches: Sequence[pa.RecordBatch]
    ) -> Iterator[tuple[Bounds | None, Folded]]:
        """What the reports of a key come to, in each window of its run that holds any.

        Args:
            key: an attribute, a partition of its users, and a run of windows.
            batches: their reports in any order. Where reports are compared, all that lie in a window of the
                run; where they are not, any that lie in all windows of the run.
        """
        attribute = self.study.attribute(key.attribute)
        windows = self._windows(key)
        if self.compares:
            # Where a run is of one window, only reports of it come.
            alone = key.run is None or key.run[0] == key.run[1]
            parts = [(window, batches) for window in windows] if alone else _by_window(windows, batches)
            for window, inside in parts:
                yield window, self.fold_window(attribute, inside, window)
            return
        statistics = tallied(
            self.study, attribute, (users for batch in batches for users in without_join(batch, attribute))
        )
        reports = sum(batch.num_rows for batch in batches)
        for window in windows:
            yield (
                window,
                Folded(statistics, counted(self.study.windows, batches, window, self.span), 0, reports),
            )

    def fold_window(
        self, attribute: Attribute, batches: Sequence[pa.RecordBatch], window: Bounds | None
    ) -> Folded:
        """What all reports of some users in one window come to."""
        here = counted(self.study.windows, batches, window, self.span)
        if self.report_ids:
            batches, _ = without_repeats(attribute, batches)
        if self.study.group_users:
            until = counted_until(self.study.windows, window, self.span)
            rows, used, _ = join(attribute, batches, until)
        else:
            rows = [users for batch in batches for users in without_join(batch, attribute)]
            used = counted(self.study.windows, batches, window, self.span)
        in_window = sum(users.reports for users in rows)
        return Folded(tallied(self.study, attribute, rows), used, here - used, in_window)

    def _windows(self, key: PieceKey) -> list[Bounds | None]:
        if key.run is None:
            return [None]
        assert self.study.windows is not None
        return [window for window in windows_in(self.study.windows, key.run) if self.span.holds(window)]

    def told(self, window: Bounds | None, folded: Folded) -> Iterator[Any]:
        """What a DoFn emits: (:class:`WindowKey`, statistics of its groups), and counts."""
        yield from by_window(folded.statistics, window)
        if folded.used:
            yield count(USED, folded.used)
        if folded.duplicates:
            yield count(DUPLICATES, folded.duplicates)
        if self.study.windows and self.study.windows.slides and folded.in_window:
            yield count(IN_WINDOWS, folded.in_window)


def counted(
    windows: Windows | None,
    batches: Iterable[pa.RecordBatch],
    window: Bounds | None,
    span: Span = EVERYTHING,
) -> int:
    """How many reports of a window are counted in it, and not in a later one."""
    until = counted_until(windows, window, span)
    return sum(int((batch.column("event_time").to_numpy() < until).sum()) for batch in batches)


class FoldEach(beam.DoFn):
    """Every piece by itself, as soon as it is there: no report is compared with another."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold

    def process(self, element: tuple[PieceKey, pa.RecordBatch]) -> Iterable[Any]:
        """What the piece comes to in each of its windows."""
        key, batch = element
        for window, folded in self.fold.fold(key, [batch]):
            yield from self.fold.told(window, folded)


def _by_window(
    windows: Sequence[Bounds | None], batches: Sequence[pa.RecordBatch]
) -> Iterator[tuple[Bounds | None, Sequence[pa.RecordBatch]]]:
    """Each window that holds any of some reports, and those."""
    ordered = [_by_time(batch) for batch in batches]
    for window in windows:
        inside = []
        for times, batch in ordered:
            first, last = np.searchsorted(times, np.array(window)).tolist()
            if first < last:
                inside.append(batch.slice(first, last - first))
        if inside:
            yield window, inside


def _by_time(batch: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
    """A batch by ascending event time, and those times."""
    times = batch.column("event_time").to_numpy()
    order = np.argsort(times, kind="stable")
    return times[order], batch.take(pa.array(order))

"""The fold: all reports of a shard of users in a window become statistics, in batch and in stream.

Batch and stream differ in when the fold runs, and in its arguments. A batch run compares the report ids of
all reports before it folds; a stream compares those in the same window. A batch run may leave out windows
(``--from``, ``--to``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.cells import Cells
from ldpbeam.domains import Pair, Vector
from ldpbeam.lone_reports import tally_each
from ldpbeam.study import MOST_GROUPS, Study
from ldpbeam.transforms.joining.gathered import column_or_nulls, payloads_of
from ldpbeam.transforms.joining.join import join, without_join
from ldpbeam.transforms.joining.kept import (
    Alike,
    at_most,
    codes_of,
    concatenated,
    filtered,
    users_alike,
)
from ldpbeam.transforms.joining.report_ids import IDENTIFIED, by_report_id, without_duplicate_ids
from ldpbeam.transforms.reports.batches import attribute_name, version_index
from ldpbeam.transforms.reports.counts import BEYOND_MOST, DUPLICATES, IN_WINDOWS, USED
from ldpbeam.transforms.windows.cut import windows_in
from ldpbeam.transforms.windows.groups import GroupStatistics, tallied
from ldpbeam.transforms.windows.piece_keys import GroupKey, PieceKey
from ldpbeam.windows import EVERYTHING, Bounds, Span, Windows, counted_until


class Folded(NamedTuple):
    """The result of the fold for one shard and window.

    A report lies in several sliding windows, but one of them counts it.

    Attributes:
        statistics: the statistics by attribute and group.
        used: how many reports are kept and counted in this window.
        duplicates: how many reports counted in this window are dropped as duplicates.
        in_window: how many reports are kept, whichever window counts them.
        beyond_most: how many of the duplicates are beyond the most reports of a user.
    """

    statistics: GroupStatistics
    used: int
    duplicates: int
    in_window: int
    beyond_most: int = 0

    def counts(self, study: Study) -> Iterator[tuple[str, int]]:
        """The counts that are not zero, by name."""
        slides = study.windows is not None and study.windows.slides
        for name, reports in zip((USED, DUPLICATES, IN_WINDOWS, BEYOND_MOST), self[1:], strict=True):
            if reports and (name != IN_WINDOWS or slides):
                yield name, reports


@dataclass(frozen=True)
class Fold:
    """How reports become statistics.

    Attributes:
        study: the study that is estimated.
        span: windows that do not lie inside the span are left out.
        report_ids: whether report ids are compared here, among the reports of one shard and window.
    """

    study: Study
    span: Span = EVERYTHING
    report_ids: bool = False

    def compares(self, attribute: Attribute) -> bool:
        """Whether reports of an attribute are compared, so that the fold needs all of them in a window."""
        return attribute.group_users or self.report_ids

    def alike(self, attribute: str) -> Alike:
        """Of which reports of an attribute one is kept, or some, whatever the window."""
        if self.study.is_pair(attribute):
            return users_alike(self.study)._replace(counted=False)
        return users_alike(self.study) if self.study.attribute(attribute).has_users else IDENTIFIED

    def apart(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """(the reports of a channel that are compared with others, those that are folded as they come)."""
        attribute, nothing = self.study.attribute(attribute_name(batch)), batch.slice(0, 0)
        if not self.compares(attribute):
            return nothing, batch
        return (batch, nothing) if attribute.has_users else by_report_id(batch)

    @property
    def compares_all(self) -> bool | None:
        """Whether all reports are compared with others, or none; None if that depends on the report."""
        attributes = [self.study.attribute(name) for name in self.study.attributes]
        some = any(map(self.compares, attributes))
        every = all(self.compares(attribute) and attribute.has_users for attribute in attributes)
        return None if some and not every else some

    @property
    def most_groups(self) -> int:
        """How many groups of a fold have statistics of their own; the rest are merged."""
        return max(MOST_GROUPS, 2 * self.study.groups.at_most) if self.study.groups else MOST_GROUPS

    def fold(
        self, key: PieceKey, batches: Sequence[pa.RecordBatch]
    ) -> Iterator[tuple[Bounds | None, Folded]]:
        """Fold the reports of a key: (window, result) for each window of its run that holds a report.

        Args:
            key: an attribute, a shard of its users, and a run of windows.
            batches: their reports in any order. If reports are compared, all that lie in a window of the run,
                which is one window or all of them; if not, any reports that lie in all windows of the run.
        """
        attribute = self.study.attribute(key.attribute)
        if self.compares(attribute):
            lone, batches = self.lone(attribute, key, batches)
            for batch in lone:
                yield from self._fold_each(attribute, batch)
            for window, inside in self._parts(key, batches):
                yield window, self.fold_window(attribute, inside, window)
            return
        statistics = tallied(
            self.study,
            attribute,
            (users for batch in batches for users in without_join(batch, attribute, self.most_groups)),
        )
        reports = sum(batch.num_rows for batch in batches)
        for window in self._windows(key):
            yield (
                window,
                Folded(statistics, counted(self.study.windows, batches, window, self.span), 0, reports),
            )

    def fold_window(
        self, attribute: Attribute, batches: Sequence[pa.RecordBatch], window: Bounds | None
    ) -> Folded:
        """Fold all reports of a shard of users in one window, and no others."""
        here = counted(self.study.windows, batches, window, self.span)
        few = here
        if self.report_ids:
            batches = at_most(batches, self.alike(attribute.name), attribute)
            few = counted(self.study.windows, batches, window, self.span)
            batches, _ = without_duplicate_ids(attribute, batches)
        if attribute.group_users:
            until = counted_until(self.study.windows, window, self.span)
            rows, used = join(attribute, batches, until, self.most_groups)
        else:
            rows = [users for batch in batches for users in without_join(batch, attribute, self.most_groups)]
            used = counted(self.study.windows, batches, window, self.span)
        if self.study.is_pair(attribute.name):
            # Its attributes count the reports.
            return Folded(tallied(self.study, attribute, rows), 0, 0, 0)
        in_window = sum(users.reports for users in rows)
        return Folded(tallied(self.study, attribute, rows), used, here - used, in_window, here - few)

    def lone(
        self, attribute: Attribute, key: PieceKey, batches: Sequence[pa.RecordBatch]
    ) -> tuple[Sequence[pa.RecordBatch], Sequence[pa.RecordBatch]]:
        """(reports that are alone in their windows, the others); only searched if there can be many."""
        windows = self.study.windows
        if (
            windows is None
            or windows.slides
            or key.run is not None
            or isinstance(attribute.domain, Vector | Pair)
        ):
            return [], batches
        return lone_in_steps(windows.steps, batches)

    def _fold_each(
        self, attribute: Attribute, batch: pa.RecordBatch
    ) -> Iterator[tuple[Bounds | None, Folded]]:
        """Fold reports of a channel that are alone in their windows."""
        assert self.study.windows is not None
        steps = self.study.windows.steps
        numbers = steps.numbers(batch.column("event_time").to_numpy())
        starts, ends = steps.starts(numbers).tolist(), steps.starts(numbers + 1).tolist()
        groups = column_or_nulls([batch], "group", pa.string()).to_pylist()
        statistics = tally_each(attribute, version_index(batch), payloads_of(attribute, batch))
        for start, end, group, statistic in zip(starts, ends, groups, statistics, strict=True):
            if self.span.holds((start, end)):
                tallied = GroupStatistics({GroupKey(attribute.name, group): statistic})
                yield (start, end), Folded(tallied, used=1, duplicates=0, in_window=1)

    def window_at(self, start: int) -> Bounds:
        """The window that starts at a time."""
        assert self.study.windows is not None
        return self.study.windows.windows_of(start)[0]

    def windows_of(self, time: int) -> list[Bounds]:
        """The windows inside the span that hold an event time."""
        assert self.study.windows is not None
        return [window for window in self.study.windows.windows_of(time) if self.span.holds(window)]

    def _parts(
        self, key: PieceKey, batches: Sequence[pa.RecordBatch]
    ) -> Iterable[tuple[Bounds | None, Sequence[pa.RecordBatch]]]:
        """(window, the reports in it) for each window of a key's run that holds a report."""
        if self.study.windows is None:
            return [(None, batches)]
        if key.run is not None:
            return [(self.window_at(key.run[0]), batches)]
        return _by_window(self.study.windows.steps, self.windows_of, batches)

    def _windows(self, key: PieceKey) -> list[Bounds | None]:
        if key.run is None:
            return [None]
        assert self.study.windows is not None
        return [window for window in windows_in(self.study.windows, key.run) if self.span.holds(window)]


def counted(
    windows: Windows | None,
    batches: Iterable[pa.RecordBatch],
    window: Bounds | None,
    span: Span = EVERYTHING,
) -> int:
    """How many of the reports of a window are counted in it, and not in a later window."""
    until = counted_until(windows, window, span)
    return sum(int((batch.column("event_time").to_numpy() < until).sum()) for batch in batches)


#: Look for lone reports only if there is at least one step per this many reports.
_MANY = 32


def lone_in_steps(
    steps: Cells, batches: Sequence[pa.RecordBatch]
) -> tuple[Sequence[pa.RecordBatch], Sequence[pa.RecordBatch]]:
    """(the reports that are alone in their steps, the others); none is alone where steps are few."""
    times = [batch.column("event_time").to_numpy() for batch in batches if batch.num_rows]
    if not times:
        return [], batches
    ends = np.array([min(map(np.min, times)), max(map(np.max, times))])
    first, last = steps.numbers(ends).tolist()
    if first == last or _MANY * (last - first + 1) < sum(map(len, times)):
        return [], batches
    batches = list(concatenated(batches))
    numbers = [steps.numbers(batch.column("event_time").to_numpy()) for batch in batches]
    codes, _ = codes_of(pa.array(np.concatenate(numbers)))
    alone = np.bincount(codes)[codes] == 1
    return filtered(batches, alone), filtered(batches, ~alone)


def _by_window(
    steps: Cells, windows_of: Callable[[int], Iterable[Bounds]], batches: Sequence[pa.RecordBatch]
) -> Iterator[tuple[Bounds, Sequence[pa.RecordBatch]]]:
    """(window, the reports in it) for each window that holds a report, earliest first.

    Args:
        steps: all reports of a step lie in the same windows.
        windows_of: gives the windows that hold an event time.
        batches: reports in any order.
    """
    if not batches:
        return
    times = [batch.column("event_time").to_numpy() for batch in batches]
    extremes = {int(end) for each in times if len(each) for end in (each.min(), each.max())}
    numbers = np.unique(steps.numbers(np.array(sorted(extremes), np.int64)))
    if len(numbers) == 1:
        start = int(steps.starts(numbers)[0])
        yield from ((window, batches) for window in sorted(windows_of(start)))
        return
    distinct = np.unique(np.concatenate([np.unique(steps.numbers(of_batch)) for of_batch in times]))
    starts = steps.starts(distinct).tolist()
    windows = sorted({window for start in starts for window in windows_of(start)})
    ordered = [_by_step(batch, steps) for batch in concatenated(batches)]
    for window in windows:
        inside = []
        ends = steps.numbers(np.array(window))
        for steps_of_batch, batch in ordered:
            first, last = np.searchsorted(steps_of_batch, ends).tolist()
            if first < last:
                inside.append(batch.slice(first, last - first))
        yield window, inside


def _by_step(batch: pa.RecordBatch, cells: Cells) -> tuple[NDArray[np.int64], pa.RecordBatch]:
    """(the step of each report in ascending order, the batch in that order)."""
    steps = cells.numbers(batch.column("event_time").to_numpy())
    # Sorting numbers of at most 16 bits takes a tenth of the time.
    small = steps - steps.min()
    order = np.argsort(small.astype(np.min_scalar_type(small.max())), kind="stable")
    return steps[order], batch.take(pa.array(order))


@dataclass(frozen=True)
class JoinedFold(Fold):
    """How the reports of a user in several windows become the statistic of the longer window.

    It stands beside the fold of the windows themselves, which counts the reports: here none is counted again.
    It keeps the reports that the windows keep, because the first report of a user in a window is the first
    one whether or not duplicates by report id are still there.
    """

    def lone(
        self, attribute: Attribute, key: PieceKey, batches: Sequence[pa.RecordBatch]
    ) -> tuple[Sequence[pa.RecordBatch], Sequence[pa.RecordBatch]]:
        """No report is counted by itself: longer windows have statistics of another kind."""
        return [], batches

    @property
    def most_groups(self) -> int:
        """How many groups have joined statistics, which are larger than those of windows."""
        return 2 * self.study.groups.at_most if self.study.groups else 1

    def window_at(self, start: int) -> Bounds:
        """The longer window that holds a time."""
        assert self.study.windows is not None
        return self.study.windows.longer((start, start))

    def fold_window(
        self, attribute: Attribute, batches: Sequence[pa.RecordBatch], window: Bounds | None
    ) -> Folded:
        """Fold all reports of a shard of users in one longer window, and no others."""
        windows = self.study.windows
        assert windows is not None
        rows, _ = join(attribute, batches, most_groups=self.most_groups, windows=windows.steps)
        kept = sum(users.reports for users in rows)
        return Folded(tallied(self.study, attribute, rows, windows.each_joined), 0, 0, kept)

    def windows_of(self, time: int) -> list[Bounds]:
        """The longer window that holds an event time, if it lies inside the span."""
        window = self.window_at(time)
        return [window] if self.span.holds(window) else []

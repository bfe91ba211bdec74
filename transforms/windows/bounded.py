"""The flow of a batch run: a shuffle brings the reports of a partition together, then they are folded."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.windows.combine import CombineGroups
from ldpbeam.transforms.windows.cut import Pieces, each_longer, together, within_size
from ldpbeam.transforms.windows.fold import Fold
from ldpbeam.transforms.windows.fold_each import FoldEach, outputs
from ldpbeam.transforms.windows.group_statistics import GroupStatistics, added_up
from ldpbeam.transforms.windows.groups import snapshots
from ldpbeam.transforms.windows.joined import JoinedFold
from ldpbeam.transforms.windows.keys import PieceKey, WindowGroupKey, WindowKey
from ldpbeam.transforms.windows.split import Cut
from ldpbeam.windows import EVERYTHING, Span


class FoldBatch(beam.PTransform):
    """Fold batches of a channel into statistics by window.

    If no report is compared with another, there is no shuffle. Windows that do not lie inside the span are
    left out; every report must lie in a window that does.

    Gives (:class:`WindowKey`, statistics of its groups), and counts.
    """

    def __init__(self, study: Study, partitions: int, span: Span = EVERYTHING) -> None:
        super().__init__()
        self.fold = Fold(study, span)
        self.partitions = partitions

    def expand(
        self, reports: beam.PCollection[pa.RecordBatch]
    ) -> tuple[beam.PCollection[tuple[WindowKey, GroupStatistics]], beam.PCollection[tuple[str, int]]]:
        """Cut by window and partition, bring the pieces of a key together, and fold them."""
        fold, windows, span = self.fold, self.fold.study.windows, self.fold.span
        if not fold.compares:
            pieces, _ = reports | "CutByStep" >> Cut(Pieces(windows, 1, together, span=span))
            folding = beam.ParDo(FoldEach(fold))
        else:
            cut = Cut(Pieces(windows, self.partitions, within_size, span=span))
            pieces, _ = reports | "CutByWindowAndUser" >> cut
            pieces = pieces | "GroupPartitions" >> beam.GroupByKey()
            folding = beam.ParDo(_FoldPartition(fold))
        folded = pieces | "JoinUsers" >> _typed(folding)
        if fold.study.windows_joined == 1:
            return folded.statistics, folded[COUNTS]
        inside, _ = reports | "CutByLongerWindow" >> Cut(
            Pieces(windows, self.partitions, each_longer, span=span)
        )
        inside = inside | "GroupLongerPartitions" >> beam.GroupByKey()
        # The windows inside have counted the reports.
        longer = inside | "JoinWindows" >> _typed(beam.ParDo(_FoldPartition(JoinedFold(fold.study, span))))
        return (folded.statistics, longer.statistics) | "BesideLonger" >> beam.Flatten(), folded[COUNTS]


def _typed(folding: beam.ParDo) -> beam.PTransform:
    """A fold with the types of its outputs: ``statistics``, and counts."""
    return folding.with_output_types(tuple[WindowKey, GroupStatistics]).with_outputs(
        COUNTS, main="statistics"
    )


class _FoldPartition(beam.DoFn):
    """Folds all reports of a partition in a run of windows, window by window."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._milliseconds = beam.metrics.Metrics.distribution("ldpbeam", "join_milliseconds")

    def process(self, element: tuple[PieceKey, Iterable[pa.RecordBatch]]) -> Iterable[Any]:
        key, batches = element
        started = time.monotonic()
        for window, folded in self.fold.fold(key, list(batches)):
            yield from outputs(self.fold.study, window, folded)
        self._milliseconds.update(int(1000 * (time.monotonic() - started)))


class Aggregate(beam.PTransform):
    """Add up the statistics of each window into (attribute, snapshots of the window).

    Each group has a key of its own while it is added up, since there may be very many groups. Then the groups
    of a window are brought together, and those beyond the cap are merged.
    """

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def expand(
        self, statistics: beam.PCollection[tuple[WindowKey, GroupStatistics]]
    ) -> beam.PCollection[tuple[str, list[Snapshot]]]:
        """Add up by group, bring the groups of a window together, and cap them."""
        return (
            statistics
            | "KeyByGroup"
            >> beam.FlatMap(_by_group).with_output_types(tuple[WindowGroupKey, GroupStatistics])
            | "Combine" >> beam.CombinePerKey(CombineGroups())
            | "KeyByWindow" >> beam.Map(_by_window).with_output_types(tuple[WindowKey, GroupStatistics])
            | "GroupsOfWindow" >> beam.GroupByKey()
            | "CapGroups" >> beam.Map(_pane, self.study).with_output_types(tuple[str, list[Snapshot]])
        )


def _by_group(element: tuple[WindowKey, GroupStatistics]) -> Iterable[tuple[WindowGroupKey, GroupStatistics]]:
    key, statistics = element
    for group, statistic in statistics.items():
        yield WindowGroupKey(*key, group.group), GroupStatistics({group: statistic})


def _by_window(element: tuple[WindowGroupKey, GroupStatistics]) -> tuple[WindowKey, GroupStatistics]:
    key, statistics = element
    return WindowKey(key.attribute, key.window), statistics


def _pane(element: tuple[WindowKey, Iterable[GroupStatistics]], study: Study) -> tuple[str, list[Snapshot]]:
    key, groups = element
    return key.attribute, snapshots(study, key, added_up(list(groups)))

"""The flow of a batch run: shuffles bring equal ids, and the reports of a shard, together to be folded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.joining.report_ids import compared, compared_by_id, first_of_ids
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.windows.coders import CombineGroups
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.fold import Fold, JoinedFold
from ldpbeam.transforms.windows.groups import GroupStatistics, added_up, snapshots
from ldpbeam.transforms.windows.piece_keys import PieceKey, WindowGroupKey, WindowKey
from ldpbeam.transforms.windows.split import Cut, FoldPieces, GroupPieces, beside, parted
from ldpbeam.windows import EVERYTHING, Span


@dataclass(eq=False)
class FoldBatch(beam.PTransform):
    """Fold batches of a channel, in a tuple of collections, into statistics by window.

    Reports that are compared with no other are not shuffled. Windows that do not lie inside the span are
    left out; every report must lie in a window that does.

    Gives (:class:`WindowKey`, statistics of its groups), and counts.
    """

    study: Study
    shards: int
    span: Span = EVERYTHING

    def expand(
        self, reports: tuple[beam.PCollection[pa.RecordBatch], ...]
    ) -> tuple[beam.PCollection[tuple[WindowKey, GroupStatistics]], beam.PCollection[tuple[str, int]]]:
        """Cut by shard, bring the pieces of a shard together, and fold them window by window."""
        fold, windows, span = Fold(self.study, self.span), self.study.windows, self.span
        compared, alone = parted(fold, reports)
        statistics, counts = [], []
        for number, branch in enumerate(alone, 1):
            pieces, _ = branch | f"CutByStep{number}" >> Cut(Pieces(windows, 1, span=span))
            folded = pieces | f"Tally{number}" >> _folding(fold)
            statistics.append(folded.statistics)
            counts.append(folded[COUNTS])
        if compared:
            cut = Pieces(None, self.shards, alike=fold.alike, in_pairs=self.study.in_pairs)
            by_user, of_cuts = compared | "GroupPartitions" >> GroupPieces(cut)
            folded = by_user | "JoinUsers" >> _folding(fold)
            statistics.append(folded.statistics)
            counts += [*of_cuts, folded[COUNTS]]
            if self.study.windows_joined > 1:
                # The windows inside count the reports.
                longer = by_user | "JoinWindows" >> _folding(JoinedFold(self.study, span))
                statistics.append(longer.statistics)
        return beside(statistics, "Statistics"), beside(counts, "Counts")


def _folding(fold: Fold) -> beam.PTransform:
    """The ParDo of a fold with the types of its outputs: ``statistics``, and counts."""
    typed = beam.ParDo(FoldPieces(fold)).with_output_types(tuple[WindowKey, GroupStatistics])
    return typed.with_outputs(COUNTS, main="statistics")


@dataclass(eq=False)
class Aggregate(beam.PTransform):
    """Add up the statistics of each window into (attribute, snapshots of the window).

    Each group has a key of its own while it is added up, since there may be very many groups. Then the groups
    of a window are brought together, and those beyond the cap are merged.
    """

    study: Study

    def expand(
        self, statistics: beam.PCollection[tuple[WindowKey, GroupStatistics]]
    ) -> beam.PCollection[tuple[str, list[Snapshot]]]:
        """Add up by group, bring the groups of a window together, and cap them."""
        typed = tuple[str, list[Snapshot]]
        if self.study.groups is None:
            return (
                statistics
                | "Combine" >> beam.CombinePerKey(CombineGroups())
                | "Snapshots" >> beam.Map(_alone, self.study).with_output_types(typed)
            )
        return (
            statistics
            | "KeyByGroup"
            >> beam.FlatMap(_by_group).with_output_types(tuple[WindowGroupKey, GroupStatistics])
            | "Combine" >> beam.CombinePerKey(CombineGroups())
            | "KeyByWindow" >> beam.Map(_by_window).with_output_types(tuple[WindowKey, GroupStatistics])
            | "GroupsOfWindow" >> beam.GroupByKey()
            | "CapGroups" >> beam.Map(_pane, self.study).with_output_types(typed)
        )


def _by_group(element: tuple[WindowKey, GroupStatistics]) -> Iterable[tuple[WindowGroupKey, GroupStatistics]]:
    key, statistics = element
    for group, statistic in statistics.items():
        yield WindowGroupKey(*key, group.group), GroupStatistics({group: statistic})


def _by_window(element: tuple[WindowGroupKey, GroupStatistics]) -> tuple[WindowKey, GroupStatistics]:
    key, statistics = element
    return WindowKey(key.attribute, key.window), statistics


def _alone(element: tuple[WindowKey, GroupStatistics], study: Study) -> tuple[str, list[Snapshot]]:
    key, statistics = element
    return key.attribute, snapshots(study, key, statistics)


def _pane(element: tuple[WindowKey, Iterable[GroupStatistics]], study: Study) -> tuple[str, list[Snapshot]]:
    key, groups = element
    return _alone((key, added_up(list(groups))), study)


_IDENTIFIED = "identified"


@dataclass(eq=False)
class DropDuplicateIds(beam.PTransform):
    """Drop a user's duplicates by report id from batches of a channel, over all windows.

    Reports without an id are not shuffled. Reports with one are shuffled by shard of their ids. Where
    several reports of a user count, all are shuffled by shard of users; others are dropped.

    Gives batches of the reports without an id, batches of those with one, and counts of the duplicates.

    Attributes:
        study: the study.
        shards: the number of shards of report ids, or of users.
    """

    study: Study
    shards: int

    def expand(
        self, reports: beam.PCollection[pa.RecordBatch]
    ) -> tuple[
        beam.PCollection[pa.RecordBatch],
        beam.PCollection[pa.RecordBatch],
        beam.PCollection[tuple[str, int]],
    ]:
        """Part reports with and without an id, and bring equal ids together to keep one of each."""
        alike = compared(self.study)
        parted = reports | "ByReportId" >> beam.FlatMap(_by_comparison, self.study).with_outputs(
            _IDENTIFIED, main="plain"
        ).with_output_types(pa.RecordBatch)
        column = "report_id" if alike.most is None else "user"
        by_id = Pieces(None, self.shards, column=column, alike=lambda _: alike)
        grouped, counts = (parted[_IDENTIFIED],) | "GroupReportIds" >> GroupPieces(by_id)
        first = grouped | "FirstOfReportIds" >> beam.FlatMap(_first_of_report_ids, self.study).with_outputs(
            COUNTS, main="first"
        ).with_output_types(pa.RecordBatch)
        return parted.plain, first.first, [*counts, first[COUNTS]] | "Counts" >> beam.Flatten()


def _by_comparison(batch: pa.RecordBatch, study: Study) -> Iterable[Any]:
    """Emit the reports that are compared to the output ``identified``, and the others to the main output."""
    identified, plain = compared_by_id(study, batch)
    if identified.num_rows:
        yield beam.pvalue.TaggedOutput(_IDENTIFIED, identified)
    if plain.num_rows:
        yield plain


def _first_of_report_ids(element: tuple[PieceKey, Iterable[pa.RecordBatch]], study: Study) -> Iterable[Any]:
    key, pieces = element
    for first, counts in first_of_ids(study, study.attribute(key.attribute), pieces):
        yield from first
        yield from (count(*dropped) for dropped in counts)

"""One CombineFn for all statistics of a study, and the statistics of a window together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Statistic, merge, tally
from ldpbeam.study import Study
from ldpbeam.transforms.joining.joins import UserReports, by_coordinate
from ldpbeam.transforms.windows.coders import Accumulator, AccumulatorCoder, GroupKey
from ldpbeam.transforms.windows.cut import window_bounds

#: Partial statistics are kept side by side until this many are merged at once.
SIDE_BY_SIDE = 16


class CombineStatistics(beam.CombineFn):
    """Rows of users to the statistic of all of them.

    Adding a batch is one ``tally``; merging is exact integer addition, so the result does not depend
    on how batches were cut, ordered or merged.
    """

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def create_accumulator(self) -> Accumulator:
        """No partial statistics."""
        return []

    def add_input(self, accumulator: Accumulator, users: UserReports) -> Accumulator:
        """Add the batch's statistic; merge when there are many."""
        attribute = self.study.attribute(users.attribute)
        accumulator.append(tally(attribute, users.users, users.answers))
        return self.compact(accumulator) if len(accumulator) >= SIDE_BY_SIDE else accumulator

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """All partial statistics, merged; never more than a few at a time, as there may be thousands."""
        merged: Accumulator = []
        for parts in accumulators:
            merged += parts
            if len(merged) >= SIDE_BY_SIDE:
                merged = self.compact(merged)
        return self.compact(merged)

    def compact(self, accumulator: Accumulator) -> Accumulator:
        """At most one statistic."""
        return [merge(accumulator)] if accumulator else []

    def extract_output(self, accumulator: Accumulator) -> Statistic:
        """The statistic; Beam asks only for keys that had an input."""
        return merge(accumulator)

    def get_accumulator_coder(self) -> beam.coders.Coder:
        """Avro, where Beam would pickle."""
        return AccumulatorCoder()


class Aggregate(beam.PTransform):
    """Rows of users to (attribute, snapshots of one window), the groups beyond the cap added up."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def expand(self, users: beam.PCollection) -> beam.PCollection:
        """Wire the stages."""
        return (
            users
            | "KeyByGroup" >> beam.FlatMap(_keyed, self.study).with_output_types(tuple[GroupKey, UserReports])
            | "Combine" >> beam.CombinePerKey(CombineStatistics(self.study))
            | "KeyByAttribute" >> beam.Map(_by_attribute)
            | "GroupsOfWindow" >> beam.GroupByKey()
            | "CapGroups" >> beam.ParDo(_CapGroups(self.study))
        )


def _keyed(
    element: tuple[tuple[str, str | None], UserReports], study: Study
) -> Iterator[tuple[GroupKey, UserReports]]:
    _, users = element
    for part in by_coordinate(study.attribute(users.attribute), users):
        yield GroupKey((part.attribute, part.group)), part


def _by_attribute(
    element: tuple[tuple[str, str | None], Statistic],
) -> tuple[str, tuple[str | None, Statistic]]:
    (attribute, group), statistic = element
    return attribute, (group, statistic)


class _CapGroups(beam.DoFn):
    def __init__(self, study: Study) -> None:
        self.study = study

    def process(
        self,
        element: tuple[str, Iterable[tuple[str | None, Statistic]]],
        bounds: BoundedWindow = beam.DoFn.WindowParam,
    ) -> Iterator[tuple[str, list[Snapshot]]]:
        attribute, groups = element
        limit = self.study.groups.at_most if self.study.groups else 1
        yield attribute, capped(attribute, window_bounds(bounds), list(groups), limit)


def capped(
    attribute: str,
    window: tuple[int, int] | None,
    groups: list[tuple[str | None, Statistic]],
    limit: int,
) -> list[Snapshot]:
    """A snapshot each for the groups with the most reports, by name, and one for all the rest.

    Reports without a group come under the group None, and count as one of the limit.
    """
    ranked = sorted(groups, key=lambda entry: (-entry[1].reports, entry[0] is not None, entry[0] or ""))
    own = sorted(ranked[:limit], key=lambda entry: (entry[0] is not None, entry[0] or ""))
    snapshots = [Snapshot(attribute, window, group, 0, statistic) for group, statistic in own]
    rest = [statistic for _, statistic in ranked[limit:]]
    if rest:
        snapshots.append(Snapshot(attribute, window, None, len(rest), merge(rest)))
    return snapshots

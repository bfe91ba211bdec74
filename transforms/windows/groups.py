"""Rows of users to statistics, and statistics added up group by group: the same in batch and stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam

from ldpbeam.attributes import Attribute
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Statistic, difference, empty, merge, tally
from ldpbeam.study import Study
from ldpbeam.transforms.joining.coordinates import by_coordinate
from ldpbeam.transforms.joining.join import UserReports
from ldpbeam.transforms.windows.coders import Accumulator, AccumulatorCoder, Statistics, added_up
from ldpbeam.transforms.windows.keys import GroupKey, WindowKey
from ldpbeam.windows import Bounds

#: Partial statistics are kept side by side until this many are merged at once.
SIDE_BY_SIDE = 16


class CombineGroups(beam.CombineFn):
    """Statistics by attribute and group, added up group by group.

    Adding is exact integer addition, so the result does not depend on how reports were cut, ordered or
    merged.
    """

    def create_accumulator(self) -> Accumulator:
        """No partial statistics."""
        return []

    def add_input(self, accumulator: Accumulator, statistics: Statistics) -> Accumulator:
        """Add what each group gained; merge when there are many."""
        accumulator.append(statistics)
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
        """At most one statistic a group."""
        return [added_up(accumulator)] if accumulator else []

    def extract_output(self, accumulator: Accumulator) -> Statistics:
        """All groups; one that lost all its reports is there with none."""
        return added_up(accumulator)

    def get_accumulator_coder(self) -> beam.coders.Coder:
        """Avro, where Beam would pickle."""
        return AccumulatorCoder()


def tallied(study: Study, attribute: Attribute, rows: Iterable[UserReports]) -> Statistics:
    """The statistics of some rows of users, a vector's by coordinate."""
    parts = [part for users in rows for part in by_coordinate(attribute, users)]
    return added_up(
        [Statistics({GroupKey(part.attribute, part.group): _tally(study, part)}) for part in parts]
    )


def _tally(study: Study, users: UserReports) -> Statistic:
    return tally(study.attribute(users.attribute), users.users, users.answers)


def gains(study: Study, after: Statistics, before: Statistics) -> Statistics:
    """What each statistic gained and lost, where it did."""
    found = Statistics()
    for key in {**before, **after}:
        nothing = empty(study.attribute(key.attribute))
        gain = difference(after.get(key, nothing), before.get(key, nothing))
        if gain != nothing:
            found[key] = gain
    return found


def by_window(statistics: Statistics, window: Bounds | None) -> Iterator[tuple[WindowKey, Statistics]]:
    """The statistics of each attribute's groups; a vector has an attribute for each coordinate."""
    by_attribute: dict[str, Statistics] = {}
    for key, statistic in statistics.items():
        by_attribute.setdefault(key.attribute, Statistics())[key] = statistic
    for attribute, own in by_attribute.items():
        yield WindowKey(attribute, window), own


def snapshots(study: Study, key: WindowKey, statistics: Statistics) -> list[Snapshot]:
    """The snapshots of a window, as many as the study wants of its groups."""
    return capped(key, statistics, study.groups.at_most if study.groups else 1)


def capped(key: WindowKey, statistics: Statistics, limit: int) -> list[Snapshot]:
    """A snapshot each for the groups with the most reports, by name, and one for all the rest.

    Reports without a group come under the group None, and count as one of the limit.
    """
    groups = [(group, statistic) for (_, group), statistic in statistics.items()]
    ranked = sorted(groups, key=lambda entry: (-entry[1].reports, entry[0] is not None, entry[0] or ""))
    largest = sorted(ranked[:limit], key=lambda entry: (entry[0] is not None, entry[0] or ""))
    found = [Snapshot(*key, group, 0, statistic) for group, statistic in largest]
    rest = [statistic for _, statistic in ranked[limit:]]
    if rest:
        found.append(Snapshot(*key, None, len(rest), merge(rest)))
    return found

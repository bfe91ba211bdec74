"""Statistics by attribute and group, while they are added up."""

from __future__ import annotations

from ldpbeam.statistics import Statistic, merge
from ldpbeam.transforms.windows.keys import GroupKey


class GroupStatistics(dict[GroupKey, Statistic]):
    """Statistics by attribute and group; it is a class of its own so that Beam finds its coder."""


#: Partial statistics that are not merged yet.
Accumulator = list[GroupStatistics]


def added_up(parts: Accumulator) -> GroupStatistics:
    """Merge partial statistics by attribute and group."""
    by_key: dict[GroupKey, list[Statistic]] = {}
    for statistics in parts:
        for key, statistic in statistics.items():
            by_key.setdefault(key, []).append(statistic)
    return GroupStatistics({key: merge(parts_of_key) for key, parts_of_key in by_key.items()})

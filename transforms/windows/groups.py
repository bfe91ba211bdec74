"""Rows of users become statistics by attribute and group, and these are added up, in batch and stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ldpbeam.attributes import Attribute
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Statistic, difference, empty, merge, tally
from ldpbeam.study import Groups, Study
from ldpbeam.transforms.joining.join import UserReports, groups_merged
from ldpbeam.transforms.joining.pairs import by_coordinate, of_both
from ldpbeam.transforms.windows.piece_keys import GroupKey, WindowKey
from ldpbeam.windows import Bounds


class GroupStatistics(dict[GroupKey, Statistic]):
    """Statistics by attribute and group; it is a class of its own so that Beam finds its coder."""


#: The number of partial statistics that are merged at once.
SIDE_BY_SIDE = 16
#: Partial statistics that are not merged yet, fewer than SIDE_BY_SIDE.
Accumulator = list[GroupStatistics]


def added_up(parts: Accumulator) -> GroupStatistics:
    """Merge partial statistics by attribute and group."""
    if len(parts) == 1:
        return parts[0]
    by_key: dict[GroupKey, list[Statistic]] = {}
    for statistics in parts:
        for key, statistic in statistics.items():
            by_key.setdefault(key, []).append(statistic)
    return GroupStatistics({key: merge(parts_of_key) for key, parts_of_key in by_key.items()})


def with_added(accumulator: Accumulator, statistics: GroupStatistics) -> Accumulator:
    """The accumulator, changed or merged (at :data:`SIDE_BY_SIDE`), with further statistics."""
    accumulator.append(statistics)
    return [added_up(accumulator)] if len(accumulator) >= SIDE_BY_SIDE else accumulator


def explain(groups: Groups) -> str:
    """A sentence on groups and their cap."""
    return (
        f"Each value of the field {groups.field!r} is a group, and a user's reports are joined within it. "
        f"The {groups.at_most} groups with the most reports have estimates of their own; the rest are "
        "estimated together."
    )


def tallied(
    study: Study, attribute: Attribute, rows: Iterable[UserReports], windows: int = 1
) -> GroupStatistics:
    """Count rows of users into statistics by attribute and group; a vector's by coordinate.

    Args:
        study: the study.
        attribute: the attribute of the rows.
        rows: rows of users.
        windows: the number of windows that a row's reports span.
    """
    statistics = []
    joined = (own for users in rows for own in of_both(attribute, users))
    for part in (part for users in joined for part in by_coordinate(attribute, users)):
        own = study.attribute(part.attribute)
        statistic = tally(own, part.users, part.answers, checked=True, windows=windows)
        statistics.append(GroupStatistics({GroupKey(part.attribute, part.group): statistic}))
    return added_up(statistics)


def gains(study: Study, after: GroupStatistics, before: GroupStatistics) -> GroupStatistics:
    """``after`` minus ``before`` by attribute and group; groups that did not change are left out."""
    gained = GroupStatistics()
    for key in {**before, **after}:
        nothing = empty(study.attribute(key.attribute))
        # Nothing is subtracted the first time, when there may be thousands of groups.
        gain = difference(after.get(key, nothing), before[key]) if key in before else after[key]
        if gain != nothing:
            gained[key] = gain
    return gained


def by_window(
    statistics: GroupStatistics, window: Bounds | None
) -> Iterator[tuple[WindowKey, GroupStatistics]]:
    """(key of an attribute's window, its statistics); each coordinate of a vector is an attribute here."""
    by_attribute: dict[str, GroupStatistics] = {}
    for key, statistic in statistics.items():
        by_attribute.setdefault(key.attribute, GroupStatistics())[key] = statistic
    for attribute, statistics_of in by_attribute.items():
        yield WindowKey(attribute, window), statistics_of


def snapshots(study: Study, key: WindowKey, statistics: GroupStatistics) -> list[Snapshot]:
    """The snapshots of a window: of the study's ``groups.at_most`` largest groups, and of the rest merged."""
    return capped(key, statistics, study.groups.at_most if study.groups else 1)


def capped(key: WindowKey, statistics: GroupStatistics, limit: int) -> list[Snapshot]:
    """One snapshot for each of the ``limit`` groups with the most reports, by name, and one for all others.

    Reports without a group form the group None, which counts towards the limit. Groups that a fold merged are
    among all others; one that several folds merged is counted as often.
    """
    merged = {group: groups_merged(group) for _, group in statistics}
    groups = [(group, statistic) for (_, group), statistic in statistics.items() if not merged[group]]
    ranked = sorted(groups, key=lambda entry: (-entry[1].reports, entry[0] is not None, entry[0] or ""))
    largest = sorted(ranked[:limit], key=lambda entry: (entry[0] is not None, entry[0] or ""))
    kept = [Snapshot(*key, group, 0, statistic) for group, statistic in largest]
    rest = [statistic for _, statistic in ranked[limit:]]
    others = len(rest) + sum(merged.values())
    rest += [statistic for (_, group), statistic in statistics.items() if merged[group]]
    if rest:
        kept.append(Snapshot(*key, None, others, merge(rest)))
    return kept

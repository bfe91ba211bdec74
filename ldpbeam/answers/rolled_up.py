"""Snapshots merged into longer windows or totals, such as hours into days.

A snapshot is named by its run, attribute, group and window. A roll-up holds the names of the snapshots merged
into it. A name counts once: the last of its panes is kept, and the same file given twice adds nothing. A
roll-up given together with one of its parts is refused. Snapshots of different runs must come from different
reports. Only the user can know that; two snapshots with all counts equal are refused.

A joined window contains the reports of its inner windows. It is used if the roll-up has its size: then runs
and groups are added up, which are taken to have other users. Longer windows use the inner windows, because
the users of two joined windows are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ldpbeam.answers.added_by_name import at_equal_places
from ldpbeam.cells import Cells
from ldpbeam.errors import UserError
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import merge
from ldpbeam.study import Study
from ldpbeam.times import format_duration, rfc3339
from ldpbeam.windows import Bounds, times_of

#: Snapshots of two runs with fewer reports than this may be equal by chance.
FEW_REPORTS = 30

Name = tuple[str, str, str | None, bool, Bounds | None]


@dataclass(frozen=True)
class RolledUp:
    """The result of a roll-up.

    Attributes:
        snapshots: the merged snapshots, ordered by attribute, window and group.
        merged: how many snapshots were merged into them.
        repeated: how many snapshots were left out: given twice, or an earlier pane of one that was merged.
        held: how many were left out because others hold their reports: windows whose users are joined, and
            the windows inside.
    """

    snapshots: tuple[Snapshot, ...]
    merged: int
    repeated: int
    held: int = 0

    @property
    def incomplete(self) -> list[str]:
        """The merged windows that lack reports, as (attribute and) times in text, each once."""
        return list(
            dict.fromkeys(
                f"{snapshot.attribute} {times_of(snapshot.window)}"
                for snapshot in self.snapshots
                if not snapshot.complete
            )
        )


def rolled_up(
    study: Study,
    snapshots: Iterable[tuple[str, Snapshot]],
    *,
    cells: Cells | None = None,
    total: bool = False,
) -> RolledUp:
    """Merge snapshots into longer windows.

    Args:
        study: the study; the snapshots must have its channels.
        snapshots: (path, snapshot) pairs.
        cells: the new windows; None merges all windows of an attribute.
        total: whether groups are merged too.

    Raises:
        UserError: if a snapshot has other channels than the study, does not lie in one new window, may have
            reports in common with another snapshot, or cannot be added up by name.
    """
    newest: dict[Name, tuple[str, Snapshot]] = {}
    given = 0
    for path, snapshot in snapshots:
        _check_channels(study, path, snapshot)
        given += 1
        name = (snapshot.run, *snapshot.series, snapshot.window)
        before = newest.get(name)
        if before is None or before[1].pane_index < snapshot.pane_index:
            newest[name] = (path, snapshot)
        elif before[1].pane_index == snapshot.pane_index and before[1].statistic != snapshot.statistic:
            raise UserError(
                f"{path} and {before[0]}: two different snapshots of one run, attribute, window and pane, "
                "with nothing to say which is right: leave one out. If two machines ran the same command, "
                "their runs share a name: estimate again on one of them, with another name of --input and "
                "another --output"
            )
    counted, left_out = _each_once(list(newest.values()), cells)
    _check_apart(counted)
    parts: dict[tuple[str, Bounds | None, str | None, bool], list[tuple[str, Snapshot]]] = {}
    for path, snapshot in counted:
        longer = _window_of(path, snapshot, cells)
        group = None if total else snapshot.group
        rest = snapshot.other_groups > 0 and not total
        parts.setdefault((snapshot.attribute, longer, group, rest), []).append((path, snapshot))
    merged = [
        _merged(attribute, longer, group, rest, at_equal_places(study, merging))
        for (attribute, longer, group, rest), merging in sorted(
            parts.items(),
            key=lambda part: (study.places[part[0][0]], part[0][1] or (0, 0), part[0][3], part[0][2] or ""),
        )
    ]
    return RolledUp(tuple(merged), len(counted), given - len(newest), left_out)


def not_joined(study: Study, snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """A sentence on each attribute whose reports of several windows share noise that is not counted."""
    for name in dict.fromkeys(snapshot.attribute for snapshot in snapshots if snapshot.windows > 1):
        remembering = study.attribute(name).remembering
        if remembering:
            yield (
                f"{name}: clients of {', '.join(remembering)} remember their noise, and a user's reports "
                "in several windows were not brought together: errors and intervals are for the fewest "
                "users who can have sent the reports (docs/over_time.md)"
            )


def _check_channels(study: Study, path: str, snapshot: Snapshot) -> None:
    if snapshot.attribute not in study.places:
        raise UserError(f"{path}: it is of attribute {snapshot.attribute!r}, which the study does not have")
    wanted = study.attribute(snapshot.attribute).fingerprint
    if snapshot.statistic.fingerprint != wanted:
        raise UserError(
            f"{path}: its channels of {snapshot.attribute!r} ({snapshot.statistic.fingerprint[:8]}) are not "
            f"those of the study ({wanted[:8]}): another domain, resolution, mechanism, epsilon, "
            "joint_buckets, or other services joined by user; use the study it was made with, whose "
            "estimates may be changed as long as none joins other services"
        )


def _each_once(
    snapshots: Sequence[tuple[str, Snapshot]], cells: Cells | None
) -> tuple[list[tuple[str, Snapshot]], int]:
    """(the snapshots that count, how many do not): a joined window counts, or the windows inside it.

    Raises:
        UserError: if joined windows would be merged with windows of another run that are not, or those inside
            are missing.
    """
    joined = {
        (snapshot.run, snapshot.attribute, snapshot.window)
        for _, snapshot in snapshots
        if snapshot.joined and snapshot.window is not None and snapshot.window == _aligned(snapshot, cells)
    }
    counted, inside = [], []
    for path, snapshot in snapshots:
        here = (snapshot.run, snapshot.attribute, _aligned(snapshot, cells))
        if snapshot.joined == (here in joined):
            counted.append((path, snapshot))
        elif snapshot.joined:
            inside.append((path, snapshot))
    for path, snapshot in inside:
        if not any(_holds(snapshot, inner) for _, inner in counted):
            raise UserError(
                f"{path}: two joined windows share users, so rolling up to another size needs the windows "
                "inside them: give their statistics, too"
            )
    kinds: dict[tuple[str, Bounds | None], tuple[str, tuple[int, ...]]] = {}
    for path, snapshot in counted:
        shape = () if snapshot.statistic.joined is None else snapshot.statistic.joined.table.shape
        other, before = kinds.setdefault((snapshot.attribute, _aligned(snapshot, cells)), (path, shape))
        if before and shape and before != shape:
            raise UserError(
                f"{other} and {path}: they join different numbers of windows, so they cannot be added up: "
                "estimate both with one windows.size"
            )
        if bool(before) != bool(shape):
            raise UserError(
                f"{other} and {path}: in one the reports of a user in several windows are brought "
                "together, and in the other they are not; leave out the statistics of joined windows, or "
                "estimate the other run with windows.joined"
            )
    return counted, len(snapshots) - len(counted)


def _holds(longer: Snapshot, other: Snapshot) -> bool:
    """Whether a window of the same run and attribute lies in a longer one."""
    if (
        (longer.run, longer.attribute) != (other.run, other.attribute)
        or not longer.window
        or not other.window
    ):
        return False
    return longer.window[0] <= other.window[0] and other.window[1] <= longer.window[1]


def _aligned(snapshot: Snapshot, cells: Cells | None) -> Bounds | None:
    """The new window in which a snapshot's window starts."""
    return None if cells is None or snapshot.window is None else cells.holding(snapshot.window[0])


def _check_apart(newest: Sequence[tuple[str, Snapshot]]) -> None:
    """Check that no two snapshots may have a report in common.

    Raises:
        UserError: if two snapshots have a part in common, two of one run overlap in time, or two of different
            runs have all counts equal.
    """
    holders: dict[str, str] = {}
    same_place: dict[tuple[object, ...], list[tuple[str, Snapshot]]] = {}
    same_run: dict[tuple[object, ...], list[tuple[str, Snapshot]]] = {}
    for path, snapshot in newest:
        for name in snapshot.names:
            if name in holders:
                raise UserError(f"{holders[name]} and {path}: {name} is in both, and would be counted twice")
            holders[name] = path
        same_place.setdefault((*snapshot.series, snapshot.window), []).append((path, snapshot))
        same_run.setdefault((*snapshot.series, snapshot.run), []).append((path, snapshot))
    for parts in same_place.values():
        for (one_path, one), (other_path, other) in itertools.combinations(parts, 2):
            if one.statistic == other.statistic and one.statistic.reports >= FEW_REPORTS:
                raise UserError(
                    f"{one_path} and {other_path}: two runs have exactly equal counts, so both "
                    "count the same reports; leave one out"
                )
    for parts in same_run.values():
        ordered = sorted(parts, key=lambda entry: entry[1].window or (0, 0))
        for (one_path, one), (other_path, other) in itertools.pairwise(ordered):
            if one.window and other.window and other.window[0] < one.window[1]:
                starts = f"{rfc3339(one.window[0])} and {rfc3339(other.window[0])}"
                raise UserError(
                    f"{one_path} and {other_path}: the windows from {starts} overlap, so reports count in "
                    "both; roll up windows that do not slide"
                )


def _window_of(path: str, snapshot: Snapshot, cells: Cells | None) -> Bounds | None:
    """The new window that a snapshot lies in; None if all windows become one.

    Raises:
        UserError: if it does not lie in one.
    """
    if cells is None:
        return None
    longer = _aligned(snapshot, cells)
    if longer is None or snapshot.window is None:
        raise UserError(f"{path}: it has no window, so it lies in none of {format_duration(cells.length)}")
    if snapshot.window[1] > longer[1]:
        raise UserError(
            f"{path}: its window {times_of(snapshot.window)} does not lie in one of "
            f"{format_duration(cells.length)}, as the one from {rfc3339(longer[0])}"
        )
    return longer


def _merged(
    attribute: str,
    window: Bounds | None,
    group: str | None,
    rest: bool,
    parts: Sequence[tuple[str, Snapshot]],
) -> Snapshot:
    if window is None:
        spans = [snapshot.window for _, snapshot in parts if snapshot.window is not None]
        window = (min(s for s, _ in spans), max(e for _, e in spans)) if len(spans) == len(parts) else None
    hashes = {snapshot.table for _, snapshot in parts}
    return Snapshot(
        attribute=attribute,
        window=window,
        group=group,
        # The number of different groups is no longer known; it is at least the largest number in any part.
        other_groups=max(snapshot.other_groups for _, snapshot in parts) if rest else 0,
        statistic=merge(snapshot.statistic for _, snapshot in parts),
        complete=all(snapshot.complete for _, snapshot in parts),
        parts=tuple(sorted(name for _, snapshot in parts for name in snapshot.names)),
        table=hashes.pop() if len(hashes) == 1 else "",
    )

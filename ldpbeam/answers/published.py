"""Which windows and groups are estimated: those with enough users, and of too many windows the largest.

Every distinct hour in a report makes a window, and solving one costs a thousand times what its report cost.
The statistics of what is not estimated are written all the same, so a roll-up can still use its reports.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ldpbeam.certainty import CERTAIN
from ldpbeam.intervals.flags import REFUSED_PAYLOADS
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import merge
from ldpbeam.study import Study, attribute_of
from ldpbeam.times import rfc3339
from ldpbeam.transforms.candidates import with_names
from ldpbeam.transforms.reports.counts import (
    BEYOND_MOST,
    DUPLICATES,
    GROUPS_TOGETHER,
    NOT_ESTIMATED,
    REPORTS_NOT_ESTIMATED,
    SINGLE_REPORTS,
    TOO_FAR,
    WINDOWS_BEYOND,
    WITHOUT_NAMES,
)
from ldpbeam.windows import Span
from ldpbeam.words import counted


class Size(NamedTuple):
    """How large a window is; of two with as many reports, the later one is the larger."""

    reports: int
    start: int
    groups: int = 1


#: Larger than any window.
LARGEST = Size(2**63, 0)


class Least(NamedTuple):
    """The smallest window that is estimated, and the smallest whose groups are estimated one by one."""

    estimated: Size
    apart: Size


#: By attribute; an attribute that is missing has few windows.
Smallest = Mapping[str, Least]
#: An attribute has at most this many times ``publish.windows`` estimates of single groups.
APART = 10


class ToEstimate(NamedTuple):
    """The snapshots of a window or pane that are estimated, and counts of the others, by name."""

    snapshots: list[Snapshot]
    counts: dict[str, int]


def explain(study: Study) -> str:
    """A sentence on what is not estimated."""
    least = f"A window or group with fewer than {study.publish.at_least} {_unit(study)} is not estimated"
    most = f"of more than {study.publish.windows:,} windows of an attribute, those with the most reports are"
    return f"{least}; {most}. The statistics of the others are written." if study.windows else f"{least}."


def size_of(snapshots: Sequence[Snapshot]) -> Size:
    """The size of the window that all of some snapshots are of."""
    window = snapshots[0].window
    reports = sum(snapshot.statistic.reports for snapshot in snapshots)
    return Size(reports, 0 if window is None else window[0], len(snapshots))


def smallest(study: Study, sizes: Mapping[str, Iterable[Size]]) -> dict[str, Least]:
    """The smallest windows of each attribute that has too many, or too many groups in all of them."""
    most, found = study.publish.windows, {}
    coordinates = Counter(map(attribute_of, sizes))
    for name, of_name in sizes.items():
        largest = heapq.nlargest(most + 1, of_name)
        per_group = len(study.described(name).estimates) * coordinates[attribute_of(name)]
        groups = itertools.accumulate(size.groups for size in largest)
        apart = [size for size, many in zip(largest, groups, strict=True) if many * per_group <= APART * most]
        if len(largest) > most or len(apart) < len(largest):
            found[name] = Least(largest[:most][-1], apart[-1] if apart else LARGEST)
    return found


def chosen(study: Study, snapshots: Sequence[Snapshot], least: Smallest) -> ToEstimate:
    """Choose what is estimated of the snapshots of one attribute in one window, or in one pane of it.

    An early or late pane counts nothing, so that a stream counts a window once; nor does a window whose users
    are joined, whose reports are those of other windows, nor one of a pair, whose attributes count them.

    Args:
        study: the study.
        snapshots: all snapshots of the window or pane.
        least: as :func:`smallest` gives it.
    """
    snapshots = [with_names(study, snapshot) for snapshot in snapshots]
    first, size = snapshots[0], size_of(snapshots)
    beyond = first.attribute in least and size < least[first.attribute].estimated
    together = first.attribute in least and size < least[first.attribute].apart and size.groups > 1
    if together:
        others = sum(snapshot.other_groups or 1 for snapshot in snapshots)
        statistic = merge([snapshot.statistic for snapshot in snapshots])
        snapshots = [replace(first, group=None, other_groups=others, statistic=statistic)]
    enough = [snapshot for snapshot in snapshots if study.publish.has_enough(snapshot.statistic)]
    with_places = study.described(first.attribute).candidates is not None
    unnamed = with_places and any(snapshot.candidates is None for snapshot in enough)
    estimated = [] if beyond or unnamed else enough
    not_estimated = len(snapshots) - len(estimated)
    uncounted = first.joined or study.is_pair(first.attribute)
    counts: dict[str, int] = {GROUPS_TOGETHER: 1} if together and estimated else {}
    if unnamed:
        counts[WITHOUT_NAMES] = int(first.pane_timing == "on_time")
    elif not_estimated and first.pane_timing == "on_time" and not uncounted:
        counts[NOT_ESTIMATED] = not_estimated
        counts[REPORTS_NOT_ESTIMATED] = size.reports - sum(each.statistic.reports for each in estimated)
        counts[WINDOWS_BEYOND] = int(beyond and bool(enough))
        counts[SINGLE_REPORTS] = int(first.window is not None and size.reports == 1)
    return ToEstimate(estimated, counts)


def warnings_of(study: Study, counts: Mapping[str, Any], *, written: bool = True) -> Iterator[str]:
    """Sentences on what a run did not estimate.

    Args:
        study: the study.
        counts: the run's accounting.
        written: whether the statistics of what is not estimated are written.
    """
    if counts.get(TOO_FAR):
        yield (
            f"{counted(counts[TOO_FAR], 'report')} out of range: more windows were open than a stream "
            "keeps, so it dropped those with the fewest reports, far from the watermark"
        )
    if counts.get(BEYOND_MOST):
        yield (
            f"{counted(counts[BEYOND_MOST], 'report')} dropped from users who sent more than "
            f"{study.most_reports:,} to a service in a window; if they are honest, raise most_reports"
        )
    if counts.get(DUPLICATES) and 2 * counts[DUPLICATES] >= counts["in"]:
        yield (
            f"{counts[DUPLICATES]:,} of {counts['in']:,} reports are duplicates: a user counts once per "
            "service and window" + ("" if study.repeats == "all" else ", unless the study has repeats: all")
        )
    if counts.get(WITHOUT_NAMES):
        yield (
            f"{counted(counts[WITHOUT_NAMES], 'window')} had no names in the study's candidates, and the "
            "shares of places were not estimated"
            + "; the statistics are written: add the names, and ldpbeam rollup estimates them"
            * written
        )
    for field, reports in counts.get("groups_in_other_fields", {}).items():
        assert study.groups is not None
        ours = study.groups.field
        meant = f"{field} in the path of the file, which is not read: write the field into the reports"
        if not field.endswith("="):
            meant = f"{field!r}: if it is meant, read it with --column {ours}={field}"
        yield f"{counted(reports, 'report')} without a group have no field {ours!r} and {meant}"
    if together := counts.get(GROUPS_TOGETHER):
        yield (
            f"the groups of {counted(together, 'window')} are estimated together: an attribute has at most "
            f"{APART * study.publish.windows:,} estimates of single groups, in the windows with the most "
            "reports; if these reports are honest, raise publish.windows, which raises this limit"
        )
    if not counts.get(NOT_ESTIMATED):
        return
    beyond, single = counts.get(WINDOWS_BEYOND, 0), counts.get(SINGLE_REPORTS, 0)
    subset = (
        "a window or group" if study.groups and study.windows else "a window" if study.windows else "a group"
    )
    alone = f"; {counted(single, 'window')} with one report each" if single else ""
    why = f"has fewer than {study.publish.at_least} {_unit(study)} (publish.at_least)"
    if beyond:
        why += f" or is beyond the {study.publish.windows:,} of an attribute with the most reports"
    yield (
        f"not estimated, because {subset} {why}: {counts[NOT_ESTIMATED]:,}, with "
        f"{counted(counts[REPORTS_NOT_ESTIMATED], 'report')} in all{alone}"
        + ("; their statistics are written" if written else "")
    )
    if beyond:
        yield (
            f"{counted(beyond, 'window is', 'windows are')} beyond the {study.publish.windows:,} that are "
            "estimated: raise publish.windows, or lengthen windows.size, if these are honest reports"
        )


def with_refusals(
    study: Study,
    records: Sequence[EstimateRecord],
    refused: Mapping[str, float],
    cells: Collection[str] = (),
) -> list[EstimateRecord]:
    """Estimates, of which those of services with many refused payloads say so, and have flagged intervals.

    Those say so, too, whose numbers are known by their cells alone.

    Args:
        study: the study.
        records: its estimates.
        refused: the share of the payloads that were refused, by ATTRIBUTE/SERVICE, where it is large.
        cells: the ATTRIBUTE/SERVICE of counts without sums.
    """

    def flagged(record: EstimateRecord) -> EstimateRecord:
        services = study.described(record.attribute).estimates[record.name].services
        keys = {f"{attribute_of(record.attribute)}/{service}": service for service in services}
        if named := [service for key, service in keys.items() if key in cells]:
            note = f"the counts of {', '.join(named)} have no sums: the mean comes from the middles of cells"
            record = replace(record, notes=(*record.notes, note))
        if record.pair is not None:
            keys = {service: service for service in record.services}
        worst = max(keys, key=lambda key: refused.get(key, 0.0))
        if worst not in refused:
            return record
        sentence = REFUSED_PAYLOADS.format(share=f"{refused[worst]:.1%}", service=keys[worst])
        intervals = record.intervals
        if intervals is not None:
            flags = [*filter(None, (intervals.flags.get(CERTAIN),)), sentence]
            intervals = replace(intervals, flags=intervals.flags | {CERTAIN: "; ".join(flags)})
        return replace(record, warnings=(*record.warnings, sentence), intervals=intervals)

    return [flagged(record) for record in records] if refused or cells else list(records)


def without_groups(study: Study, estimates: Sequence[EstimateRecord]) -> Iterator[str]:
    """A sentence, if the study has groups and no estimate is of one: its field may be misspelt."""
    if study.groups is None or not estimates:
        return
    if all(record.group is None and not record.other_groups for record in estimates):
        yield (
            f"there is no estimate of a group: no estimated report has the field {study.groups.field!r}, "
            "by which the study groups reports (groups.field); check its name"
        )


def cut_windows(study: Study, span: Span) -> Iterator[str]:
    """A sentence on each longer window whose users a run does not join, because its span cuts it."""
    for start, stop in span.cut(study.windows):
        yield (
            f"users are not joined from {rfc3339(start)} to {rfc3339(stop)}, because this run counts only "
            "part of these windows: let runs begin and end where windows of the size windows.joined do"
        )


def _unit(study: Study) -> str:
    if not study.group_users:
        return "reports"
    some = ", ".join(map(repr, study.without_users))
    return f"users (of {some}, reports)" if some else "users"

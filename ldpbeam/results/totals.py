"""The total over the groups of a window: their statistics are added up and estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ldpbeam.answers.results import Results
from ldpbeam.answers.rolled_up import rolled_up
from ldpbeam.answers.solve import solved
from ldpbeam.errors import UserError
from ldpbeam.folders.output import STATISTICS, names_in
from ldpbeam.folders.written import snapshots_in
from ldpbeam.printing import warn
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import EARLY, ON_TIME, Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.outputs.names import OF_A_DAY, snapshot_name
from ldpbeam.transforms.storage import join
from ldpbeam.windows import Bounds

#: What a total has in place of a group.
ALL = "all groups"
#: So many windows of all attributes have totals, the latest, since each is estimated again.
MOST_TOTALS = 60

#: The totals of the last page by their panes, so that a stream's next page estimates new ones alone.
_LAST: dict[object, Sequence[EstimateRecord]] = {}

#: The estimates of the groups of a window, by attribute and window.
Windows = Mapping[tuple[str, Bounds | None], Sequence[EstimateRecord]]


def totals_of(results: Results, records: Sequence[EstimateRecord]) -> list[EstimateRecord]:
    """An estimate of all groups for each of the latest windows with several, unless a group is called so.

    Args:
        results: what is in the output folder; without its study or statistics there are no totals.
        records: its estimates, each once.
    """
    windows: dict[tuple[str, Bounds | None], list[EstimateRecord]] = {}
    for record in records:
        windows.setdefault((record.attribute, record.window), []).append(record)
    several = {
        key: own for key, own in windows.items() if len({(one.group, one.other_groups) for one in own}) > 1
    }
    if results.study is None or any(record.group == ALL for record in records):
        return []
    latest = sorted(several.items(), key=lambda of_window: of_window[0][1] or (0, 0))[-MOST_TOTALS:]
    try:
        return _totals(results.study, results.folder, dict(latest))
    except UserError as error:
        warn(f"there is no total over groups: {error}")
        return []


def _totals(study: Study, folder: str, windows: Windows) -> list[EstimateRecord]:
    check_tables(study)
    starts = tuple(snapshot_name(study.name, *key).removesuffix("avro") for key in windows)
    found: dict[tuple[str, Bounds | None], list[tuple[str, Snapshot]]] = {}
    for name in names_in(join(folder, STATISTICS), "*.avro"):
        if name.startswith(starts) or OF_A_DAY in name:
            path = join(folder, STATISTICS, name)
            for snapshot in snapshots_in(path):
                key = snapshot.attribute, snapshot.window
                if {snapshot.run, ""} & {record.run for record in windows.get(key, ())}:
                    found.setdefault(key, []).append((path, snapshot))
    joined = study.windows.cells(study.windows.joined) if study.windows and study.windows.joined else None
    before, totals = dict(_LAST), list[EstimateRecord]()
    _LAST.clear()
    for key, records in windows.items():
        snapshots = found.get(key, [])
        panes = folder, key, frozenset((path, *of.series, of.run, of.pane_index) for path, of in snapshots)
        if panes not in before:
            cells = joined if snapshots and snapshots[0][1].joined else None
            before[panes] = solved(study, rolled_up(study, snapshots, cells=cells, total=True).snapshots)[0]
        _LAST[panes] = before[panes]
        timing = EARLY if any(record.pane_timing == EARLY for record in records) else ON_TIME
        totals += [replace(total, group=ALL, pane_timing=timing) for total in before[panes]]
    return totals

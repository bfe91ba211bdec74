"""A pane of a window: its snapshots and estimates, and the line, the fields and the ids made of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import EARLY, Snapshot
from ldpbeam.times import rfc3339
from ldpbeam.untrusted import shown
from ldpbeam.words import counted

#: The logger that gets one line per pane; a command prints it, an engine's worker logs it.
PANES = logging.getLogger("ldpbeam.panes")


@dataclass(frozen=True)
class Solved:
    """The snapshots of an attribute in one window, or in one pane of it, and their estimates in order.

    Windows and groups that are not to be estimated have snapshots and no estimates.
    """

    snapshots: list[Snapshot]
    estimates: list[EstimateRecord]


def pane_line(snapshots: Sequence[Snapshot], estimates: Sequence[EstimateRecord]) -> str:
    """One line about a pane: window, timing, reports, users and means."""
    first = snapshots[0]
    assert first.window is not None
    start, end = map(rfc3339, first.window)
    reports = sum(snapshot.statistic.reports for snapshot in snapshots)
    users = [snapshot.statistic.users for snapshot in snapshots if snapshot.statistic.users is not None]
    of_users = f" of {counted(sum(users), 'user')}" if users else ""
    pane = first.pane_timing.replace("_", " ") + (f" {first.pane_index}" if first.pane_index else "")
    means = [
        f"{record.name} {record.mean:.6g}"
        for record in estimates
        if record.group is None and record.mean is not None
    ]
    of_means = f": {', '.join(means)}" if means else ""
    differ = [record.alarm.number for record in estimates if record.alarm and record.alarm.differs]
    of_means += f"; differs from those before: {', '.join(dict.fromkeys(differ))}" if differ else ""
    mark = " (incomplete)" if first.pane_timing != EARLY and not first.complete else ""
    return shown(
        f"{first.attribute} {start} to {end} {pane}{mark}: {counted(reports, 'report')}{of_users}{of_means}"
    )


def pane_fields(snapshots: Sequence[Snapshot], estimates: Sequence[EstimateRecord]) -> dict[str, object]:
    """What a log that programs read says of a pane; nothing of it is a text that a client wrote."""
    first = snapshots[0]
    assert first.window is not None
    start, end = map(rfc3339, first.window)
    return {
        "event": "pane",
        "attribute": first.attribute,
        "window_start": start,
        "window_end": end,
        "pane_timing": first.pane_timing,
        "pane_index": first.pane_index,
        "complete": first.complete,
        "reports": sum(snapshot.statistic.reports for snapshot in snapshots),
        "estimates": len(estimates),
        "differing": sum(record.alarm is not None and record.alarm.differs for record in estimates),
    }


def estimate_id(record: EstimateRecord) -> str:
    """The id of a published estimate: study, run, attribute, name, window, group and pane.

    The same id always comes with the same bytes, so a consumer can drop duplicates by id.
    """
    # The prefixes keep ids distinct, whatever the name of a group is.
    group = "" if record.group is None else f"/group/{record.group}"
    rest = "/rest" if record.other_groups else ""
    return (
        f"{record.study}/{record.run}/{record.attribute}/{record.name}/{record.window_start}/"
        f"{record.window_end}{group}{rest}/{record.pane_index}"
    )

"""What a stream left, beside what the model says: windows, counts, dead letters, estimates, published ids."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ldpbeam.folders.read import read_estimates
from ldpbeam.pipelines.spool.manifest import Manifest
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.panes import estimate_id
from simulation.model import Place, came_in_time, histograms, kept, windows_of
from simulation.world import DAY, Report, World

Window = tuple[int, int]


def text_of(record: EstimateRecord) -> str:
    """The bytes of a published estimate."""
    return json.dumps(json_fields(record))


@dataclass
class Left:
    """What a stream left in a folder.

    Attributes:
        folder: the output folder.
        manifest: the last manifest.
        sent: what its server had, without what retention removed before it was read.
        world: everything that was sent.
        now: the time at the end.
        published: by id, the estimates that were published.
    """

    folder: Path
    manifest: Manifest
    sent: World
    world: World
    now: int
    published: dict[str, str]

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots of the last panes."""
        paths = sorted((self.folder / "statistics").glob("*.avro"))
        return [one for path in paths for one in read_snapshots(path.open("rb"))]

    @cached_property
    def windows(self) -> dict[Window, dict[str, Counter[int]]]:
        """By window that is not a longer one, and service, how often each payload was kept."""
        windows: defaultdict[Window, dict[str, Counter[int]]] = defaultdict(dict)
        for one in self.snapshots:
            if one.joined:
                continue
            assert one.window is not None
            for service, histogram in zip(self.world.services, one.statistic.histograms, strict=True):
                found = Counter({code: int(count) for code, count in enumerate(histogram) if count})
                if found:
                    windows[one.window].setdefault(service, Counter()).update(found)
        return windows


def judge(left: Left, met: Counter[str]) -> None:
    """Compare what a stream left with the model.

    Raises:
        AssertionError: if it does not say what the model says.
    """
    counts, sent = left.manifest.counts, left.sent
    reports = [report for message in sent.messages for report in message.reports]
    broken = sum(report.broken for report in reports)
    assert counts["in"] == len(reports)
    assert counts.get("dead_letters", 0) == broken
    future = sum(report.time >= left.now + DAY and not report.broken for report in reports)
    assert counts.get("out_of_range", 0) == future, (counts, future)
    letters = [
        letter
        for path in left.folder.glob("runs/*/dead_letters/*.avro")
        for letter in read_dead_letters(path.open("rb"))
    ]
    assert len(letters) == broken
    late = [
        (message.number, row)
        for message in sent.messages
        for row, report in enumerate(message.reports)
        if report.late and not report.broken
    ]
    if counts.get("late"):
        met["state: a report was late"] += 1
    taken_late = _taken_late(left, late, met)
    in_time = came_in_time(sent, left.now, taken_late)
    windows = {window for report in in_time.values() for window in windows_of(sent, report.time)}
    used = 0
    for window in windows:
        of_window = kept(sent, in_time, window)
        expected = histograms(of_window)
        used += len(of_window)
        assert left.windows.get(window, {}) == expected, (window, left.windows.get(window), expected)
    assert not left.windows.keys() - windows
    if "slides" not in sent.features and counts.get("late", 0) in (0, len(late)):
        assert counts.get("used", 0) == used, (counts, used)
    _judge_completeness(left, met)
    _judge_estimates(left)
    if any(one.joined for one in left.snapshots):
        met["state: longer windows were joined"] += 1
    if any(one.pane_index for one in left.snapshots):
        met["state: a window had several panes"] += 1
    if any(one.pane_index > 1 for one in left.snapshots):
        met["state: a window had more than two panes"] += 1


def _judge_completeness(left: Left, met: Counter[str]) -> None:
    """Windows that lack what retention removed unread say so; without that, all are complete."""
    lost = [
        report
        for message in set(left.world.messages) - set(left.sent.messages)
        for report in message.reports
        if not report.broken and not report.late
    ]
    lacking = {window for report in lost for window in windows_of(left.world, report.time)}
    for one in left.snapshots:
        if one.window in lacking:
            met["state: a window lacked what was lost"] += 1
            assert not one.complete, one.window
        assert one.complete or len(left.sent.messages) < len(left.world.messages), one.window


def _judge_estimates(left: Left) -> None:
    """The estimates of a window are of its last pane, and are what was published of it."""
    panes = {
        (rfc3339(one.window[0]), rfc3339(one.window[1]), one.group, one.other_groups): one
        for one in left.snapshots
        if one.window is not None
    }
    for path in sorted((left.folder / "estimates").glob("*.jsonl")):
        for record in read_estimates(str(path)):
            pane = panes[
                record.window_start or "", record.window_end or "", record.group, record.other_groups
            ]
            said = record.pane_index, record.pane_timing, record.reports
            assert said == (pane.pane_index, pane.pane_timing, pane.statistic.reports), (path.name, said)
            assert left.published[estimate_id(record)] == text_of(record), path.name


def _taken_late(left: Left, late: list[Place], met: Counter[str]) -> set[Place]:
    """The reports that may be late and were not: by the counts, all or none where it is not told."""
    number = left.manifest.counts.get("late", 0)
    if number == 0:
        return set(late)
    if number == len(late):
        return set()
    met["state: some of the late were taken"] += 1
    reports: dict[Place, Report] = {
        (message.number, row): report
        for message in left.sent.messages
        for row, report in enumerate(message.reports)
    }
    # A report was taken in time if its window has one more of its payload than without it. One that was taken
    # may stand for a later report of its user, so those before it are looked at again.
    taken: set[Place] = set()
    looked = -1
    while looked < len(taken):
        looked = len(taken)
        for place in late:
            report = reports[place]
            for window in windows_of(left.sent, report.time)[:1]:
                ours = left.windows.get(window, {}).get(report.service, Counter())
                trial = came_in_time(left.sent, left.now, taken)
                without = histograms(kept(left.sent, trial, window)).get(report.service, Counter())
                if ours[report.payload] > without[report.payload]:
                    taken.add(place)
    return taken


def without(world: World, numbers: set[int]) -> World:
    """A world without some messages."""
    messages = tuple(message for message in world.messages if message.number not in numbers)
    return dataclasses.replace(world, messages=messages)

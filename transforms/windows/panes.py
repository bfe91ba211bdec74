"""The panes of a window in a stream: early ones, one on time, and a late one after each late change.

A pane replaces the panes before it: it holds the statistics of all reports so far, never an increment. The
accumulator is the statistic of a batch run, and the gains added to it are exact integers. So the last pane of
a window equals a batch run over the same reports, bit for bit.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.schemas.outputs.snapshots import EARLY, LATE, ON_TIME, Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import names_of, with_names
from ldpbeam.transforms.windows.coders import KeyCoder, StatisticsCoder
from ldpbeam.transforms.windows.groups import GroupStatistics, added_up, snapshots, with_added
from ldpbeam.transforms.windows.piece_keys import WindowKey
from ldpbeam.transforms.windows.split import timestamp

#: The gains in the state of a window are merged once for this many new gains, on average.
SIDE_BY_SIDE = 4


@dataclass(eq=False)
class Panes(beam.PTransform):
    """Add up (:class:`WindowKey`, gains) and emit (attribute, snapshots of one pane).

    Attributes:
        study: the study; it has windows.
    """

    study: Study

    def expand(
        self, gains: beam.PCollection[tuple[WindowKey, GroupStatistics]]
    ) -> beam.PCollection[tuple[str, list[Snapshot]]]:
        """Keep the statistics of each window in state, and fire its panes."""
        return gains | "FirePanes" >> beam.ParDo(_Window(self.study)).with_input_types(
            tuple[WindowKey, GroupStatistics]
        ).with_output_types(tuple[str, list[Snapshot]])


class _Fired(NamedTuple):
    """What has happened in a window so far.

    Attributes:
        panes: how many panes have fired.
        closed: 1 once the pane on time has fired.
        reports: how many reports the last pane had.
        changed: 1 if gains arrived since the last pane, which is not early.
        names: a number that follows from the names that the places of candidates had in it; 0 without names.
    """

    panes: int = 0
    closed: int = 0
    reports: int = 0
    changed: int = 0
    names: int = 0


class _Window(beam.DoFn):
    """The state of one attribute in one window: its statistics so far, and its panes.

    The gains that shards emit when a window ends have the time of its end, and hold the watermark there.
    The timer fires a millisecond later, so all these gains have arrived. The same timer serves late changes,
    names of candidates that come as late as reports may, and the deletion of the state: if several timers are
    due, as when the watermark leaps, engines may fire the later ones first.

    A state is read and written by requests to the engine, one after the other. Gains are kept side by side,
    because Beam's combining state writes at each read, and reads and writes at every other gain.
    """

    STATISTICS = BagStateSpec("statistics", StatisticsCoder())
    FIRED = ReadModifyWriteStateSpec("fired", KeyCoder(_Fired))
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, study: Study) -> None:
        assert study.windows is not None
        self.study = study
        self.early = study.windows.early_reports
        self.lateness = study.windows.allowed_lateness + 1
        self.remembered = study.windows.remembered + self.lateness

    def process(
        self,
        element: tuple[WindowKey, GroupStatistics],
        statistics: Any = beam.DoFn.StateParam(STATISTICS),
        fired: Any = beam.DoFn.StateParam(FIRED),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[tuple[str, list[Snapshot]]]:
        """Add gains; fire an early pane if there are enough new reports."""
        key, gained = element
        statistics.add(gained)
        due.set(_after(key, 1))
        before = fired.read() or _Fired()
        if before.closed and not before.changed:
            fired.write(before._replace(changed=1))
        if self.early is not None and not before.closed and not _is_longer(key, self.study):
            now = self._merged(statistics)
            if sum(statistic.reports for statistic in now.values()) >= before.reports + self.early:
                yield from self._pane(key, now, EARLY, before, fired)
        elif random.random() < 1 / SIDE_BY_SIDE:
            self._merged(statistics)

    @on_timer(DUE)
    def on_due(
        self,
        key: WindowKey = beam.DoFn.KeyParam,
        time: Timestamp = beam.DoFn.TimestampParam,
        statistics: Any = beam.DoFn.StateParam(STATISTICS),
        fired: Any = beam.DoFn.StateParam(FIRED),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[tuple[str, list[Snapshot]]]:
        """Fire the pane on time, or a late pane after a change; at last delete the state."""
        forgotten = _after(key, self.remembered)
        if time >= forgotten:
            statistics.clear()
            fired.clear()
            return
        before = fired.read() or _Fired()
        # A timer that is set again while it fires may fire twice.
        if before.changed or not before.closed or self._has_other_names(key, before):
            timing = LATE if before.closed else ON_TIME
            yield from self._pane(key, self._merged(statistics), timing, before, fired)
        expired = _after(key, self.lateness)
        due.set(expired if time < expired and self._has_names(key) else forgotten)

    def _has_names(self, key: WindowKey) -> bool:
        return self.study.described(key.attribute).candidates is not None

    def _has_other_names(self, key: WindowKey, before: _Fired) -> bool:
        """Whether the places have names, and not those that they had in the last pane."""
        if not self._has_names(key):
            return False
        candidates = names_of(self.study, key.attribute, key.window)
        return candidates is not None and _number(candidates.fingerprint) != before.names

    def _merged(self, statistics: Any) -> GroupStatistics:
        now: GroupStatistics = added_up(functools.reduce(with_added, statistics.read(), []))
        statistics.clear()
        statistics.add(now)
        return now

    def _pane(
        self, key: WindowKey, statistics: GroupStatistics, timing: str, before: _Fired, fired: Any
    ) -> Iterator[tuple[str, list[Snapshot]]]:
        left = GroupStatistics(
            {group: statistic for group, statistic in statistics.items() if statistic.reports}
        )
        if not left:
            return
        present = [with_names(self.study, snapshot) for snapshot in snapshots(self.study, key, left)]
        reports = sum(statistic.reports for statistic in left.values())
        closed, names = int(timing != EARLY), _number(present[0].table)
        fired.write(_Fired(before.panes + 1, closed, reports, names=names))
        pane = [replace(snapshot, pane_index=before.panes, pane_timing=timing) for snapshot in present]
        yield key.attribute, pane


def _number(table: str) -> int:
    """A number of 60 bits for a hash of names; 0 for none."""
    return int(table[:15] or "0", 16)


def _is_longer(key: WindowKey, study: Study) -> bool:
    """Whether a window joins others by user: its gains come when it ends, so that it has no early panes."""
    assert key.window is not None and study.windows is not None
    return study.windows.is_longer(key.window)


def _after(key: WindowKey, milliseconds: int) -> Timestamp:
    """The timestamp some milliseconds after the end of a key's window."""
    assert key.window is not None
    return timestamp(key.window[1] + milliseconds)

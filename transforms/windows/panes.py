"""The panes of a window in a stream: early ones, one on time, and a late one after each late change.

A pane replaces the panes before it: it holds the statistics of all reports so far, never an increment. The
accumulator is the statistic of a batch run, and the gains added to it are exact integers. So the last pane of
a window equals a batch run over the same reports, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.sources.watermark import timestamp
from ldpbeam.transforms.windows.coders import AccumulatorCoder
from ldpbeam.transforms.windows.combine import CombineGroups
from ldpbeam.transforms.windows.groups import snapshots
from ldpbeam.transforms.windows.keys import WindowKey
from ldpbeam.transforms.windows.statistics import Statistics

EARLY, ON_TIME, LATE = "early", "on_time", "late"


class Panes(beam.PTransform):
    """Add up (:class:`WindowKey`, gains) and emit (attribute, snapshots of one pane)."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def expand(self, gains: beam.PCollection) -> beam.PCollection:
        """Keep the statistics of each window in state, and fire its panes."""
        # panes : (attribute, list[Snapshot])
        return gains | "FirePanes" >> beam.ParDo(_Window(self.study)).with_input_types(
            tuple[WindowKey, Statistics]
        ).with_output_types(tuple[str, list[Snapshot]])


class _Fired(NamedTuple):
    """What has happened in a window so far.

    Attributes:
        panes: how many panes have fired.
        closed: 1 once the pane on time has fired.
        reports: how many reports the last pane had.
        changed: 1 if gains arrived since the last pane.
    """

    panes: int = 0
    closed: int = 0
    reports: int = 0
    changed: int = 0


_FIRED_CODER = beam.coders.TupleCoder([beam.coders.VarIntCoder()] * len(_Fired._fields))


class _Window(beam.DoFn):
    """The state of one attribute in one window: its statistics so far, and its panes.

    The gains that partitions emit when a window ends have the time of its end, and hold the watermark there.
    The timer fires a millisecond later, so all these gains have arrived. The same timer serves late changes
    and the deletion of the state: if several timers are due, as when the watermark leaps, engines may fire
    the later ones first.
    """

    STATISTICS = CombiningValueStateSpec("statistics", AccumulatorCoder(), CombineGroups())
    FIRED = ReadModifyWriteStateSpec("fired", _FIRED_CODER)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, study: Study) -> None:
        assert study.windows is not None
        self.study = study
        self.early = study.windows.early_reports
        self.remembered = study.windows.allowed_lateness + study.windows.remembered + 1

    def process(
        self,
        element: tuple[WindowKey, Statistics],
        statistics: Any = beam.DoFn.StateParam(STATISTICS),
        fired: Any = beam.DoFn.StateParam(FIRED),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[tuple[str, list[Snapshot]]]:
        """Add gains; fire an early pane if there are enough new reports."""
        key, gained = element
        statistics.add(gained)
        due.set(_after(key, 1))
        before = _Fired(*(fired.read() or ()))
        fired.write(before._replace(changed=1))
        if self.early is None or before.closed:
            return
        now = statistics.read()
        if sum(own.reports for own in now.values()) >= before.reports + self.early:
            yield from self._pane(key, now, EARLY, fired)

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
        before = _Fired(*(fired.read() or ()))
        # A timer that is set again while it fires may fire twice.
        if before.changed or not before.closed:
            yield from self._pane(key, statistics.read(), LATE if before.closed else ON_TIME, fired)
        due.set(forgotten)

    def _pane(
        self, key: WindowKey, statistics: Statistics, timing: str, fired: Any
    ) -> Iterator[tuple[str, list[Snapshot]]]:
        left = Statistics({group: own for group, own in statistics.items() if own.reports})
        if not left:
            return
        before = _Fired(*(fired.read() or ()))
        reports = sum(own.reports for own in left.values())
        fired.write(_Fired(before.panes + 1, int(timing != EARLY), reports))
        pane = [
            replace(snapshot, pane_index=before.panes, pane_timing=timing)
            for snapshot in snapshots(self.study, key, left)
        ]
        yield key.attribute, pane


def _after(key: WindowKey, milliseconds: int) -> Timestamp:
    """The timestamp some milliseconds after the end of a key's window."""
    assert key.window is not None
    return timestamp(key.window[1] + milliseconds)

"""What a stream says of a window: early panes, one on time, and one after each change that came late.

A pane replaces those before it: it holds all that is known of the window, never an increment. The
accumulator is the same statistic a batch run has, and the gains that reach it are exact integers, so the
last pane of a window equals the batch run over the same reports, bit for bit.
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
from ldpbeam.transforms.windows.coders import AccumulatorCoder, Statistics
from ldpbeam.transforms.windows.groups import CombineGroups, snapshots
from ldpbeam.transforms.windows.keys import WindowKey

EARLY, ON_TIME, LATE = "early", "on_time", "late"


class Panes(beam.PTransform):
    """(:class:`WindowKey`, gained statistics) to (attribute, snapshots of one pane)."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def expand(self, gains: beam.PCollection) -> beam.PCollection:
        """Wire the stage."""
        return gains | "FirePanes" >> beam.ParDo(_Window(self.study)).with_input_types(
            tuple[WindowKey, Statistics]
        ).with_output_types(tuple[str, list[Snapshot]])


class _Fired(NamedTuple):
    """The panes of a window so far.

    Attributes:
        panes: how many.
        closed: 1 if one was on time.
        reports: of the last.
        changed: 1 if something was gained since.
    """

    panes: int = 0
    closed: int = 0
    reports: int = 0
    changed: int = 0


_FIRED_CODER = beam.coders.TupleCoder([beam.coders.VarIntCoder()] * len(_Fired._fields))


class _Window(beam.DoFn):
    """The state of one attribute in one window: its statistics so far, and its panes.

    What partitions say when a window ends carries the time of its end, and holds the watermark there; the
    timer is a millisecond later, so that all of them have spoken. It is one timer for what comes then too: of
    several that are due, as when the watermark leaps, engines may fire the later ones first.
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
        """Add what was gained; fire an early pane where enough is new."""
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
        """The window's end has passed, or something changed after that; in the end nothing can change."""
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
    """Some time after the end of a key's window."""
    assert key.window is not None
    return Timestamp(micros=1000 * (key.window[1] + milliseconds))

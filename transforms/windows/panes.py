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
from ldpbeam.statistics import Statistic, merge
from ldpbeam.study import Study
from ldpbeam.transforms.windows.aggregate import capped
from ldpbeam.transforms.windows.coders import GroupKey, Statistics, StatisticsCoder
from ldpbeam.transforms.windows.stream_windows import place_and_window

EARLY, ON_TIME, LATE = "early", "on_time", "late"


class Panes(beam.PTransform):
    """(key of attribute and window, gained statistics) to (attribute, snapshots of one pane)."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def expand(self, gains: beam.PCollection) -> beam.PCollection:
        """Wire the stage."""
        return gains | "FirePanes" >> beam.ParDo(_Window(self.study)).with_input_types(
            tuple[str, Statistics]
        ).with_output_types(tuple[str, list[Snapshot]])


class CombineGroups(beam.CombineFn):
    """Statistics by attribute and group, added up group by group."""

    def create_accumulator(self) -> Statistics:
        """No group yet."""
        return Statistics()

    def add_input(self, accumulator: Statistics, gained: Statistics) -> Statistics:
        """Add what each group gained."""
        return self.merge_accumulators([accumulator, gained])

    def merge_accumulators(self, accumulators: Iterable[Statistics]) -> Statistics:
        """Every group's statistics, merged."""
        parts: dict[GroupKey, list[Statistic]] = {}
        for statistics in accumulators:
            for key, statistic in statistics.items():
                parts.setdefault(key, []).append(statistic)
        return Statistics({key: merge(own) for key, own in parts.items()})

    def extract_output(self, accumulator: Statistics) -> Statistics:
        """All groups; one that lost all its reports is there with none."""
        return accumulator


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

    STATISTICS = CombiningValueStateSpec("statistics", StatisticsCoder(), CombineGroups())
    FIRED = ReadModifyWriteStateSpec("fired", _FIRED_CODER)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, study: Study) -> None:
        assert study.windows is not None
        self.study = study
        self.early = study.windows.early_reports
        self.remembered = study.windows.allowed_lateness + study.windows.remembered + 1
        self.limit = study.groups.at_most if study.groups else 1

    def process(
        self,
        element: tuple[str, Statistics],
        statistics: Any = beam.DoFn.StateParam(STATISTICS),
        fired: Any = beam.DoFn.StateParam(FIRED),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[tuple[str, list[Snapshot]]]:
        """Add what was gained; fire an early pane where enough is new."""
        key, gained = element
        _, (_, end) = place_and_window(key)
        statistics.add(gained)
        due.set(Timestamp(micros=1000 * (end + 1)))
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
        key: str = beam.DoFn.KeyParam,
        time: Timestamp = beam.DoFn.TimestampParam,
        statistics: Any = beam.DoFn.StateParam(STATISTICS),
        fired: Any = beam.DoFn.StateParam(FIRED),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[tuple[str, list[Snapshot]]]:
        """The window's end has passed, or something changed after that; in the end nothing can change."""
        _, (_, end) = place_and_window(key)
        forgotten = Timestamp(micros=1000 * (end + self.remembered))
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
        self, key: str, statistics: Statistics, timing: str, fired: Any
    ) -> Iterator[tuple[str, list[Snapshot]]]:
        attribute, bounds = place_and_window(key)
        groups = [(group, own) for (_, group), own in statistics.items() if own.reports]
        if not groups:
            return
        before = _Fired(*(fired.read() or ()))
        reports = sum(own.reports for _, own in groups)
        fired.write(_Fired(before.panes + 1, int(timing != EARLY), reports))
        yield (
            attribute,
            [
                replace(snapshot, pane_index=before.panes, pane_timing=timing)
                for snapshot in capped(attribute, bounds, groups, self.limit)
            ],
        )

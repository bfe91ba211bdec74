"""The accounting as a JSON file: a batch run writes it once, a stream again and again as counts grow."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.transforms.engine_times import LAST, timestamp
from ldpbeam.transforms.reports.counts import NOT_BEGUN, accounting, without_origin
from ldpbeam.transforms.state.counted import RunningAccounting
from ldpbeam.transforms.state.files import ACCOUNTING, COUNTED, run_folder
from ldpbeam.transforms.state.journal import stopped_at
from ldpbeam.transforms.storage import write_json
from ldpbeam.windows import FAR, Windows

#: The fewest seconds between two writes of a stream's accounting; it is also written at the end.
ACCOUNTING_SECONDS = 1.0


@dataclass(eq=False)
class WriteAccounting(beam.PTransform):
    """Add up the counts of all stages of a batch run, and write one JSON file, in a folder that exists."""

    path: str

    def expand(self, counts: beam.PCollection[tuple[str, int]]) -> beam.PCollection[None]:
        """Add up each count, bring all together under one key, and write them."""
        path = self.path
        return (
            counts
            | "AddUp" >> beam.CombinePerKey(sum)
            | "ToOne" >> beam.Map(lambda pair: ("", pair))
            | "Together" >> beam.GroupByKey()
            | "WriteFile" >> beam.MapTuple(lambda _, named: write_json(path, accounting(named)))
        )


@dataclass(eq=False)
class WriteRunningAccounting(beam.PTransform):
    """Add up the counts of all stages of a stream in one JSON file, which is replaced as they grow.

    Attributes:
        output: the output folder.
        run: the name of the run.
        windows: the windows of the study, if a later process continues the accounting; else None.
    """

    output: str
    run: str
    windows: Windows | None = None

    def expand(self, counts: beam.PCollection[tuple[str, int]]) -> beam.PCollection[None]:
        """Add up the counts of each bundle, then those of all bundles in one state."""
        add_up, sums = _AddUp(self.output, self.run, self.windows), _SumOfBundle(self.windows is not None)
        return (
            counts
            | "SumOfBundle" >> beam.ParDo(sums).with_output_types(tuple[str, bytes])
            | "WriteAccounting" >> beam.ParDo(add_up).with_input_types(tuple[str, bytes])
        )


class _SumOfBundle(beam.DoFn):
    def __init__(self, traced: bool) -> None:
        self.traced = traced

    def start_bundle(self) -> None:
        self._sums: Counter[str] = Counter()
        self._latest: Timestamp | None = None

    def process(self, element: tuple[str, int], time: Timestamp = beam.DoFn.TimestampParam) -> None:
        name, reports = element
        self._sums[name if self.traced else without_origin(name)[0]] += reports
        self._latest = time if self._latest is None else max(self._latest, time)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._sums:
            element = "", json.dumps(self._sums).encode()
            yield WindowedValue(element, self._latest, [GlobalWindow()])


class _AddUp(beam.DoFn):
    """Adds up the counts of all bundles under one key; each bundle sends one element.

    An element waits in the state, however many batches and windows are open. All that wait are added up and
    written once a second, and when windows settle.
    """

    NEW = BagStateSpec("new", beam.coders.BytesCoder())
    TOTAL = ReadModifyWriteStateSpec("total", beam.coders.BytesCoder())
    SOON = TimerSpec("soon", TimeDomain.REAL_TIME)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, output: str, run: str, windows: Windows | None) -> None:
        self.output = output
        self.run = run
        self.folder = run_folder(output, run)
        self.windows = windows
        self._written = 0.0

    def process(
        self,
        element: tuple[str, bytes],
        new: Any = beam.DoFn.StateParam(NEW),
        total: Any = beam.DoFn.StateParam(TOTAL),
        soon: RuntimeTimer = beam.DoFn.TimerParam(SOON),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
        end: RuntimeTimer = beam.DoFn.TimerParam(END),
    ) -> None:
        new.add(element[1])
        end.set(LAST)
        if time.monotonic() - self._written >= ACCOUNTING_SECONDS:
            self._add_up(new, total, due)
        else:
            soon.set(Timestamp.now() + ACCOUNTING_SECONDS)

    @on_timer(SOON)
    def on_soon(
        self,
        new: Any = beam.DoFn.StateParam(NEW),
        total: Any = beam.DoFn.StateParam(TOTAL),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> None:
        """Write the counts that came less than a second after the last write, though none follow."""
        # An engine may fire it when all is written, or after the end, when the state is cleared.
        if list(new.read()):
            self._add_up(new, total, due)

    @on_timer(DUE)
    def on_due(
        self,
        now: Timestamp = beam.DoFn.TimestampParam,
        new: Any = beam.DoFn.StateParam(NEW),
        total: Any = beam.DoFn.StateParam(TOTAL),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> None:
        """Settle the windows that are due."""
        # Engines round times to milliseconds.
        self._add_up(new, total, due, now.micros // 1000)

    @on_timer(END)
    def on_end(self, new: Any = beam.DoFn.StateParam(NEW), total: Any = beam.DoFn.StateParam(TOTAL)) -> None:
        """Write the final accounting when the stream has finished."""
        self._add_up(new, total, None, FAR)

    def _add_up(self, new: Any, total: Any, due: RuntimeTimer | None, reached: int | None = None) -> None:
        """Add up what has come, settle the windows that an event time has reached, and write the files."""
        encoded, windows = total.read(), self.windows
        # What an earlier process has counted is in the file before this one begins.
        begun = COUNTED.read(self.folder) if windows is not None and encoded is None else None
        now = begun or RunningAccounting()
        if encoded is not None:
            now = RunningAccounting.of_json(json.loads(encoded))
        for counts in new.read():
            now.add(json.loads(counts))
        new.clear()
        # Engines may fire the other timers after that of the end.
        now.ended = now.ended or due is None
        if windows is not None:
            if reached is not None:
                self._settle(now, windows, reached)
            following = min(map(windows.settles, now.open), default=None)
            # After a stop, windows may be open whose time has passed: a timer for them would fire at once.
            if due is not None and following is not None and (reached is None or following > reached):
                due.set(min(LAST, timestamp(following)))
            COUNTED.write(self.folder, now.final_only())
        total.write(json.dumps(now.to_json()).encode())
        ACCOUNTING.write(self.folder, accounting(now.counts()))
        self._written = time.monotonic()

    def _settle(self, total: RunningAccounting, windows: Windows, time: int) -> None:
        """Settle the windows that have closed by an event time; none whose timer only a stop has fired.

        Windows that had not begun stay open: else the next process would find all their reports late.
        """
        begun = (window for window, counts in total.open.items() if not counts[NOT_BEGUN])
        last = max(map(windows.settles, begun), default=None)
        stopped = stopped_at(self.output, self.run)
        if last is not None and (stopped is None or min(time, last) <= stopped):
            total.settle(windows, min(time, last))

"""The accounting as a JSON file: a batch run writes it once, a stream again and again as counts grow."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, RuntimeTimer, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.transforms.outputs.running import RunningAccounting
from ldpbeam.transforms.reports.counts import accounting, without_origin
from ldpbeam.transforms.sources.journal import stopped_at
from ldpbeam.transforms.sources.watermark import LAST, timestamp
from ldpbeam.transforms.storage import make_folder, open_raw, write_bytes
from ldpbeam.windows import Windows

#: The fewest seconds between two writes of a stream's accounting; it is also written at the end.
ACCOUNTING_SECONDS = 1.0


def write_accounting(path: str, counts: Iterable[tuple[str, int]] = ()) -> str:
    """Add up counts, write their accounting to a file, and return its path; without counts all are 0."""
    make_folder(FileSystems.split(path)[0])
    write_bytes(path, json.dumps(accounting(counts), indent=2).encode() + b"\n")
    return path


@dataclass(eq=False)
class WriteAccounting(beam.PTransform):
    """Add up the counts of all stages of a batch run, and write one JSON file; gives its path."""

    path: str

    def expand(self, counts: beam.PCollection[tuple[str, int]]) -> beam.PCollection[None]:
        """Add up each count, bring all together under one key, and write them."""
        path = self.path
        return (
            counts
            | "AddUp" >> beam.CombinePerKey(sum)
            | "ToOne" >> beam.Map(lambda pair: ("", pair))
            | "Together" >> beam.GroupByKey()
            | "WriteFile" >> beam.MapTuple(lambda _, named: write_accounting(path, named))
        )


@dataclass(frozen=True)
class Recounting:
    """How the accounting of a stream is kept that a later process continues.

    Attributes:
        path: the file of the :class:`RunningAccounting`, which is there before the process begins.
        windows: the windows of the study.
        output: the output folder.
        run: the name of the run, which may be asked to stop.
    """

    path: str
    windows: Windows
    output: str
    run: str

    def begun(self) -> RunningAccounting:
        """What the process begins with."""
        with open_raw(self.path) as stream:
            return RunningAccounting.of_json(self.windows, stream.read()).final_only()

    def settles(self, time: int) -> bool:
        """Whether windows settle at an event time: at a stop, timers fire that are before their time."""
        stopped = stopped_at(self.output, self.run)
        return stopped is None or time <= stopped


@dataclass(eq=False)
class WriteRunningAccounting(beam.PTransform):
    """Add up the counts of all stages of a stream in one JSON file, which is replaced as they grow.

    Attributes:
        path: the file.
        recounting: how a later process continues it; None if none does.
    """

    path: str
    recounting: Recounting | None = None

    def expand(self, counts: beam.PCollection[tuple[str, int]]) -> beam.PCollection[None]:
        """Add up the counts of each bundle, then those of all bundles in one state."""
        write = _WriteSums(self.path) if self.recounting is None else _Recount(self.path, self.recounting)
        return (
            counts
            | "SumOfBundle"
            >> beam.ParDo(_SumOfBundle(self.recounting is not None)).with_output_types(tuple[str, bytes])
            | "WriteAccounting" >> beam.ParDo(write).with_input_types(tuple[str, bytes])
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


class _WriteSums(beam.DoFn):
    """Adds up the counts of all bundles under one key; each bundle sends one element."""

    SUMS = ReadModifyWriteStateSpec("sums", beam.coders.BytesCoder())
    SOON = TimerSpec("soon", TimeDomain.REAL_TIME)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, path: str) -> None:
        self.path = path
        self._written = 0.0

    def process(
        self,
        element: tuple[str, bytes],
        sums: Any = beam.DoFn.StateParam(SUMS),
        soon: RuntimeTimer = beam.DoFn.TimerParam(SOON),
        end: RuntimeTimer = beam.DoFn.TimerParam(END),
    ) -> None:
        total = Counter(json.loads(sums.read() or b"{}"))
        total.update(json.loads(element[1]))
        sums.write(json.dumps(total).encode())
        end.set(LAST)
        if time.monotonic() - self._written >= ACCOUNTING_SECONDS:
            self._write(total)
        else:
            soon.set(Timestamp.now() + ACCOUNTING_SECONDS)

    @on_timer(SOON)
    def on_soon(self, sums: Any = beam.DoFn.StateParam(SUMS)) -> None:
        """Write the counts that came less than a second after the last write, though none follow."""
        total = sums.read()
        # An engine may fire it after the end, when the state is cleared and the final accounting is written.
        if total:
            self._write(json.loads(total))

    @on_timer(END)
    def on_end(self, sums: Any = beam.DoFn.StateParam(SUMS)) -> None:
        """Write the final accounting when the stream has finished."""
        self._write(json.loads(sums.read() or b"{}"))

    def _write(self, total: dict[str, int]) -> None:
        write_accounting(self.path, total.items())
        self._written = time.monotonic()


class _Recount(beam.DoFn):
    """Adds up the counts of all bundles with their origins; a window's become final when it has settled."""

    RUNNING = ReadModifyWriteStateSpec("running", beam.coders.BytesCoder())
    SOON = TimerSpec("soon", TimeDomain.REAL_TIME)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, path: str, recounting: Recounting) -> None:
        self.path = path
        self.recounting = recounting
        self._written = 0.0

    def process(
        self,
        element: tuple[str, bytes],
        running: Any = beam.DoFn.StateParam(RUNNING),
        soon: RuntimeTimer = beam.DoFn.TimerParam(SOON),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> None:
        total = self._read(running)
        total.add(json.loads(element[1]))
        running.write(total.to_json())
        due.set(_next(total))
        if time.monotonic() - self._written >= ACCOUNTING_SECONDS:
            self._write(total)
        else:
            soon.set(Timestamp.now() + ACCOUNTING_SECONDS)

    @on_timer(SOON)
    def on_soon(self, running: Any = beam.DoFn.StateParam(RUNNING)) -> None:
        """Write the counts that came less than a second after the last write, though none follow."""
        if running.read() is not None:
            self._write(self._read(running))

    @on_timer(DUE)
    def on_due(
        self,
        now: Timestamp = beam.DoFn.TimestampParam,
        running: Any = beam.DoFn.StateParam(RUNNING),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> None:
        """Settle the windows that are due; at the end of the stream, write the final accounting."""
        total = self._read(running)
        # Engines round times to milliseconds.
        at, last = now.micros // 1000, LAST.micros // 1000
        due_then = at if at < last else max(map(self.recounting.windows.settles, total.open), default=None)
        if due_then is not None and self.recounting.settles(due_then):
            total.settle(due_then)
            running.write(total.to_json())
        if at < last:
            due.set(LAST if total.due is not None and total.due <= at else _next(total))
        self._write(total)

    def _read(self, running: Any) -> RunningAccounting:
        encoded = running.read()
        if encoded is None:
            return self.recounting.begun()
        return RunningAccounting.of_json(self.recounting.windows, encoded)

    def _write(self, total: RunningAccounting) -> None:
        write_bytes(self.recounting.path, total.to_json() + b"\n")
        write_accounting(self.path, total.counts())
        self._written = time.monotonic()


def _next(total: RunningAccounting) -> Timestamp:
    """When the timer fires next: a window settles, or the stream has finished."""
    return LAST if total.due is None else min(LAST, timestamp(total.due))

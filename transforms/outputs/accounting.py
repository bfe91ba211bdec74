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

from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.sources.watermark import LAST
from ldpbeam.transforms.storage import make_folder, write_bytes

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


@dataclass(eq=False)
class WriteRunningAccounting(beam.PTransform):
    """Add up the counts of all stages of a stream in one JSON file, which is replaced as they grow."""

    path: str

    def expand(self, counts: beam.PCollection[tuple[str, int]]) -> beam.PCollection[None]:
        """Add up the counts of each bundle, then those of all bundles in one state."""
        return (
            counts
            | "SumOfBundle" >> beam.ParDo(_SumOfBundle()).with_output_types(tuple[str, bytes])
            | "WriteAccounting" >> beam.ParDo(_WriteSums(self.path)).with_input_types(tuple[str, bytes])
        )


class _SumOfBundle(beam.DoFn):
    def start_bundle(self) -> None:
        self._sums: Counter[str] = Counter()
        self._latest: Timestamp | None = None

    def process(self, element: tuple[str, int], time: Timestamp = beam.DoFn.TimestampParam) -> None:
        name, reports = element
        self._sums[name] += reports
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

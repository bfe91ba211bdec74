"""What a stream writes while it runs: its accounting so far, and dead letters as they gather."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.transforms.outputs.write import make_folder, replacing, write_bytes
from ldpbeam.transforms.reports.batches import BatchCoder
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.sources.watermark import LAST

#: The accounting is written at most so often, in seconds, and at the end.
ACCOUNTING_SECONDS = 1.0
#: Dead letters wait for others for so many seconds of event time, or until there are so many.
LETTERS_SECONDS, MOST_LETTERS = 60, 10_000


class WriteRunningAccounting(beam.PTransform):
    """The counts of all stages of a stream, added up, to one JSON file that is replaced as they grow."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        """Wire the stages."""
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
    """One key adds up everything: it hears from each bundle once."""

    SUMS = ReadModifyWriteStateSpec("sums", beam.coders.BytesCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, path: str) -> None:
        self.path = path
        self._written = 0.0

    def process(
        self,
        element: tuple[str, bytes],
        sums: Any = beam.DoFn.StateParam(SUMS),
        end: RuntimeTimer = beam.DoFn.TimerParam(END),
    ) -> None:
        total = Counter(json.loads(sums.read() or b"{}"))
        total.update(json.loads(element[1]))
        sums.write(json.dumps(total).encode())
        end.set(LAST)
        if time.monotonic() - self._written >= ACCOUNTING_SECONDS:
            self._write(total)

    @on_timer(END)
    def on_end(self, sums: Any = beam.DoFn.StateParam(SUMS)) -> None:
        """The stream has been drained."""
        self._write(json.loads(sums.read() or b"{}"))

    def _write(self, total: dict[str, int]) -> None:
        make_folder(FileSystems.split(self.path)[0])
        write_bytes(self.path, json.dumps(accounting(total.items()), indent=2).encode() + b"\n")
        self._written = time.monotonic()


class WriteStreamDeadLetters(beam.PTransform):
    """Batches of dead letters of a stream to Avro files, as many together as a minute brings."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        """Wire the stages."""
        return (
            letters
            | "KeyLetters" >> beam.Map(_unnamed).with_output_types(tuple[str, pa.RecordBatch])
            | "WriteLetters"
            >> beam.ParDo(_WriteLetters(self.folder)).with_input_types(tuple[str, pa.RecordBatch])
        )


def _unnamed(batch: pa.RecordBatch) -> tuple[str, pa.RecordBatch]:
    return "", batch


class _WriteLetters(beam.DoFn):
    LETTERS = BagStateSpec("letters", BatchCoder())
    WAITING = ReadModifyWriteStateSpec("waiting", beam.coders.VarIntCoder())
    WRITTEN = ReadModifyWriteStateSpec("written", beam.coders.VarIntCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(
        self,
        element: tuple[str, pa.RecordBatch],
        now: Timestamp = beam.DoFn.TimestampParam,
        letters: Any = beam.DoFn.StateParam(LETTERS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        written: Any = beam.DoFn.StateParam(WRITTEN),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[str]:
        before = waiting.read() or 0
        letters.add(element[1])
        waiting.write(before + element[1].num_rows)
        if not before:
            due.set(now + Duration(seconds=LETTERS_SECONDS))
        if before + element[1].num_rows >= MOST_LETTERS:
            yield from self._write(letters, waiting, written)

    @on_timer(DUE)
    def on_due(
        self,
        letters: Any = beam.DoFn.StateParam(LETTERS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        written: Any = beam.DoFn.StateParam(WRITTEN),
    ) -> Iterable[str]:
        """A minute of event time has passed, or the stream has been drained."""
        yield from self._write(letters, waiting, written)

    def _write(self, letters: Any, waiting: Any, written: Any) -> Iterator[str]:
        records = [record for batch in letters.read() for record in batch.to_pylist()]
        letters.clear()
        waiting.clear()
        if not records:
            return
        make_folder(self.folder, private=True)
        number = written.read() or 0
        written.write(number + 1)
        # Numbered in the state, so that a bundle done twice writes one file.
        path = FileSystems.join(self.folder, f"part-{number:05d}.avro")
        with replacing(path, private=True) as stream:
            fastavro.writer(stream, schema("dead_letter"), records, codec="deflate")
        yield path

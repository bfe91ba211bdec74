"""Writing dead letters as Beam transforms. A batch run gathers them in a shuffle, a stream in state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
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

from ldpbeam.transforms.engine_times import LAST
from ldpbeam.transforms.outputs.letter_files import Order, order_of, shard_of, write_letters
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.reports.batch_coder import BatchCoder
from ldpbeam.transforms.reports.batches import arrival_of
from ldpbeam.transforms.reports.counts import COUNTS, LETTERS_WRITTEN, with_origin
from ldpbeam.transforms.reports.emitted import parted
from ldpbeam.transforms.storage import join, literal, split
from ldpbeam.transforms.windows.shuffle import Place, Spill, read_pieces

#: A stream writes a file when dead letters have waited this many seconds, or are this many. A restart reads
#: batches again whose dead letters are in no file.
LETTERS_SECONDS, MOST_LETTERS = 10, 10_000
#: A bundle of a stream has so many dead letters, of so many bytes, at most for another stage to write.
FEW_LETTERS, FEW_BYTES = 1_000, 2**20
#: Letters in the name of a file that has no number.
_NAMED = 32


@dataclass(eq=False)
class WriteDeadLetters(beam.PTransform):
    """Write the dead letters of a batch run to at most four Avro files; gives their paths.

    Attributes:
        folder: the folder of the files.
        spill: as :class:`~ldpbeam.transforms.windows.shuffle.GroupPieces` takes it: anybody can send any
            number of impossible reports, which memory then does not hold.
    """

    folder: str
    spill: str | None = None

    def expand(self, letters: tuple[beam.PCollection[pa.RecordBatch], ...]) -> beam.PCollection[str]:
        """Gather the batches of a shard from each collection, and write one file per shard."""
        in_shards: Any = tuple[int, tuple[Order, pa.RecordBatch]]
        keyed = [
            branch | f"KeyByShard{number}" >> beam.Map(_keyed).with_output_types(tuple[_Key, pa.RecordBatch])
            for number, branch in enumerate(letters, 1)
        ]
        if self.spill is not None:
            spill = beam.ParDo(Spill(self.spill)).with_output_types(tuple[_Key, Place])
            keyed = [branch | f"Spill{number}" >> spill for number, branch in enumerate(keyed, 1)]
            in_shards = tuple[int, tuple[Order, Place]]
        return (
            keyed
            | beam.Flatten()
            | "ByShard" >> beam.Map(_by_shard).with_output_types(in_shards)
            | "GroupShards" >> beam.GroupByKey()
            | "WriteFiles" >> beam.Map(_write, self.folder, self.spill)
        )


#: A shard, and the order in it.
_Key = tuple[int, Order]


def _keyed(batch: pa.RecordBatch) -> tuple[_Key, pa.RecordBatch]:
    return (shard_of(batch), order_of(batch)), batch


def _by_shard(element: tuple[_Key, Any]) -> tuple[int, tuple[Order, Any]]:
    (shard, order), letters = element
    return shard, (order, letters)


def _write(element: tuple[int, Iterable[tuple[Order, Any]]], folder: str, spill: str | None) -> str:
    shard, letters = element
    ordered = [of_batch for _, of_batch in sorted(letters, key=lambda pair: pair[0])]
    return write_letters(folder, shard, ordered if spill is None else _Spilled(spill, ordered))


@dataclass(frozen=True)
class _Spilled:
    """Batches that are read one by one, as often as they are gone through."""

    folder: str
    places: list[Place]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for place in self.places:
            yield from read_pieces(self.folder, [place])


@dataclass(eq=False)
class WriteStreamDeadLetters(beam.PTransform):
    """Write the dead letters of a stream to Avro files, one per 10 seconds or per 10,000.

    Those of a bundle that has many are files of their own.

    Gives the counts of letters that have been written, of batches that may be read again.

    Attributes:
        folder: the folder of the files.
        continued: whether files of an earlier process of the run may be there, which are kept.
    """

    folder: str
    continued: bool = False

    def expand(
        self, letters: tuple[beam.PCollection[pa.RecordBatch], ...]
    ) -> beam.PCollection[tuple[str, int]]:
        """Write the many of each collection where they are made; gather the few under one key."""
        parts = [
            branch | f"WriteMany{number}" >> parted(_WriteMany(self.folder), "few")
            for number, branch in enumerate(letters, 1)
        ]
        written = (
            [part.few for part in parts]
            | "Few" >> beam.Flatten()
            | "KeyLetters"
            >> beam.Map(lambda batch: ("", batch)).with_output_types(tuple[str, pa.RecordBatch])
            | "WriteLetters"
            >> beam.ParDo(_WriteLetters(self.folder, self.continued))
            .with_input_types(tuple[str, pa.RecordBatch])
            .with_output_types(tuple[str, int])
        )
        return [written, *(part[COUNTS] for part in parts)] | "Written" >> beam.Flatten()


class _WriteMany(beam.DoFn):
    """Write the dead letters of a bundle that has many, and pass on those of a bundle that has few.

    An engine on one machine holds in memory what waits for a stage. Dead letters are made faster than they
    are written, so the stage that makes many writes them itself, and reads on when they are in a file.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def start_bundle(self) -> None:
        """Forget the letters of a bundle that failed."""
        self.letters: list[pa.RecordBatch] = []
        #: How many they are, and of how many bytes: a bundle may have thousands of batches.
        self.rows = self.size = 0
        self.files = 0

    def process(
        self, batch: pa.RecordBatch, timestamp: Timestamp = beam.DoFn.TimestampParam
    ) -> Iterable[beam.pvalue.TaggedOutput]:
        """Write a file as soon as there are enough letters for one."""
        self.timestamp = timestamp
        self.letters.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes
        if self._exceed(MOST_LETTERS, 8 * FEW_BYTES):
            yield from (beam.pvalue.TaggedOutput(COUNTS, written) for written in self._write())

    def finish_bundle(self) -> Iterable[Any]:
        """Write what is left, or pass it on if it is little."""
        if self.files or self._exceed(FEW_LETTERS, FEW_BYTES):
            for written in self._write():
                yield beam.pvalue.TaggedOutput(COUNTS, self._everywhere(written))
        else:
            yield from map(self._everywhere, self.letters)

    def _everywhere(self, value: Any) -> WindowedValue:
        return WindowedValue(value, self.timestamp, (GlobalWindow(),))

    def _exceed(self, rows: int, size: int) -> bool:
        return self.rows > rows or self.size > size

    def _write(self) -> Iterator[tuple[str, int]]:
        batches, self.letters = sorted(self.letters, key=order_of), []
        self.rows = self.size = 0
        if not batches:
            return
        # A bundle that is repeated writes the same files.
        name = hashlib.sha256(f"{self.files}".encode())
        for batch in batches:
            name.update(BatchCoder().encode(batch))
        self.files += 1
        write_letters(self.folder, name.hexdigest()[:_NAMED], batches)
        yield from _written(batches)


def _written(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int]]:
    """The counts of letters that are in a file, of batches that may be read again."""
    for batch in batches:
        arrival = arrival_of(batch)
        if arrival is not None and arrival.origin:
            reports = int(np.sum(batch.column("reports").to_numpy()))
            yield with_origin(LETTERS_WRITTEN, arrival.origin), reports


class _WriteLetters(beam.DoFn):
    LETTERS = BagStateSpec("letters", BatchCoder())
    WAITING = ReadModifyWriteStateSpec("waiting", beam.coders.VarIntCoder())
    WRITTEN = ReadModifyWriteStateSpec("written", beam.coders.VarIntCoder())
    DUE = TimerSpec("due", TimeDomain.REAL_TIME)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, folder: str, continued: bool) -> None:
        self.folder = folder
        self.continued = continued

    def process(
        self,
        element: tuple[str, pa.RecordBatch],
        letters: Any = beam.DoFn.StateParam(LETTERS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        written: Any = beam.DoFn.StateParam(WRITTEN),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
        end: RuntimeTimer = beam.DoFn.TimerParam(END),
    ) -> Iterable[tuple[str, int]]:
        before = waiting.read() or 0
        letters.add(element[1])
        waiting.write(before + element[1].num_rows)
        if not before:
            due.set(Timestamp.now() + LETTERS_SECONDS)
            end.set(LAST)
        if before + element[1].num_rows >= MOST_LETTERS:
            yield from self._write(letters, waiting, written)

    @on_timer(DUE)
    def on_due(
        self,
        letters: Any = beam.DoFn.StateParam(LETTERS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        written: Any = beam.DoFn.StateParam(WRITTEN),
    ) -> Iterable[tuple[str, int]]:
        """Write a file of what has waited."""
        yield from self._write(letters, waiting, written)

    @on_timer(END)
    def on_end(
        self,
        letters: Any = beam.DoFn.StateParam(LETTERS),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        written: Any = beam.DoFn.StateParam(WRITTEN),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[tuple[str, int]]:
        """Write a file of what waits when the stream has finished; the other timer would hold up its end."""
        due.clear()
        yield from self._write(letters, waiting, written)

    def _write(self, letters: Any, waiting: Any, written: Any) -> Iterator[tuple[str, int]]:
        batches = list(letters.read())
        letters.clear()
        waiting.clear()
        if not batches:
            return
        # The number is in the state, so that a retried bundle writes the same file.
        number = written.read()
        if number is None:
            number = self._first_number()
        written.write(number + 1)
        write_letters(self.folder, number, sorted(batches, key=order_of))
        yield from _written(batches)

    def _first_number(self) -> int:
        """The number of the first file of this process."""
        if not self.continued:
            return 0
        pattern = join(literal(self.folder), "part-*.avro")
        names = [split(entry.path)[1][len("part-") : -len(".avro")] for entry in matching(pattern)]
        # Those of bundles with many letters have no number.
        return max((int(name) + 1 for name in names if len(name) < _NAMED), default=0)

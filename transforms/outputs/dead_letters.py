"""Writing dead letters as Beam transforms. A batch run gathers them in a shuffle, a stream in state."""

from __future__ import annotations

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
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.transforms.outputs.letter_files import Order, order_of, shard_of, write_letters
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.reports.batch_coder import BatchCoder
from ldpbeam.transforms.reports.batches import arrival_of
from ldpbeam.transforms.reports.counts import LETTERS_WRITTEN, with_origin
from ldpbeam.transforms.sources.watermark import LAST
from ldpbeam.transforms.storage import join, literal, split
from ldpbeam.transforms.windows.shuffle import Place, Spill, read_pieces

#: A stream writes a file when dead letters have waited this many seconds, or are this many. A restart reads
#: batches again whose dead letters are in no file.
LETTERS_SECONDS, MOST_LETTERS = 10, 10_000


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

    Gives the counts of letters that have been written, of batches that may be read again.

    Attributes:
        folder: the folder of the files.
        continued: whether files of an earlier process of the run may be there, which are kept.
    """

    folder: str
    continued: bool = False

    def expand(self, letters: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[tuple[str, int]]:
        """Gather all batches under one key, and write a file when it is due."""
        return (
            letters
            | "KeyLetters"
            >> beam.Map(lambda batch: ("", batch)).with_output_types(tuple[str, pa.RecordBatch])
            | "WriteLetters"
            >> beam.ParDo(_WriteLetters(self.folder, self.continued))
            .with_input_types(tuple[str, pa.RecordBatch])
            .with_output_types(tuple[str, int])
        )


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
        for batch in batches:
            arrival = arrival_of(batch)
            if arrival is not None and arrival.origin:
                reports = int(np.sum(batch.column("reports").to_numpy()))
                yield with_origin(LETTERS_WRITTEN, arrival.origin), reports

    def _first_number(self) -> int:
        """The number of the first file of this process."""
        if not self.continued:
            return 0
        pattern = join(literal(self.folder), "part-*.avro")
        names = [split(entry.path)[1] for entry in matching(pattern)]
        return max((int(name[len("part-") : -len(".avro")]) + 1 for name in names), default=0)

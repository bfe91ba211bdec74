"""Dead letters in Avro files. Batches gather them in a shuffle, streams in state; one function writes."""

from __future__ import annotations

import hashlib
import zlib
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
from apache_beam.utils.timestamp import Duration, Timestamp

from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.transforms.reports.batches import BatchCoder
from ldpbeam.transforms.storage import make_folder, replacing

#: A batch run gathers dead letters into at most this many files.
DEAD_LETTER_SHARDS = 4
#: In a stream they wait for others for so many seconds of event time, or until there are so many.
LETTERS_SECONDS, MOST_LETTERS = 60, 10_000


def write_letters(folder: str, number: int, batches: Iterable[pa.RecordBatch]) -> str:
    """A file of dead letters; gives its path.

    Engines hand over batches in any order; in a batch, the order is that of the file. The same letters are
    the same bytes: batches are sorted, and the file's sync marker is made of its contents.

    Args:
        folder: where; its owner alone may enter it.
        number: of the file, which names it.
        batches: of dead letters.
    """
    make_folder(folder, private=True)
    path = str(FileSystems.join(folder, f"part-{number:05d}.avro"))
    ordered = sorted(batches, key=_place)
    contents = hashlib.sha256()
    for batch in ordered:
        contents.update("".join(batch.column("sha256").to_pylist()).encode())
    with replacing(path, private=True) as stream:
        records = (record for batch in ordered for record in batch.to_pylist())
        sync = contents.digest()[:16]
        fastavro.writer(stream, schema("dead_letter"), records, codec="deflate", sync_marker=sync)
    return path


def _place(batch: pa.RecordBatch) -> tuple[str, int, int, str]:
    """Where the first dead letter of a batch stood, and its reason."""
    file, position, row, reason = (
        batch.column(name)[0].as_py() for name in ("file", "position", "row", "reason")
    )
    return file, -1 if position is None else position, -1 if row is None else row, reason


class WriteDeadLetters(beam.PTransform):
    """Batches of dead letters to a few Avro files; gives the paths."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        """Gather by shard, write a file for each."""
        return (
            letters
            | "KeyByShard" >> beam.Map(_shard).with_output_types(tuple[int, pa.RecordBatch])
            | "GroupShards" >> beam.GroupByKey()
            | "WriteFiles" >> beam.ParDo(_WriteShard(self.folder))
        )


def _shard(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    file = batch.column("file")[0].as_py()
    return zlib.crc32(file.encode()) % DEAD_LETTER_SHARDS, batch


class _WriteShard(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, element: tuple[int, Iterable[pa.RecordBatch]]) -> Iterator[str]:
        shard, batches = element
        yield write_letters(self.folder, shard, batches)


class WriteStreamDeadLetters(beam.PTransform):
    """Batches of dead letters of a stream to Avro files, as many together as a minute brings."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        """Gather under one key, write a file when one is due."""
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
        batches = list(letters.read())
        letters.clear()
        waiting.clear()
        if not batches:
            return
        # Numbered in the state, so that a bundle done twice writes one file.
        number = written.read() or 0
        written.write(number + 1)
        yield write_letters(self.folder, number, batches)

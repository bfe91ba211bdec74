"""What engines write of a run: files of snapshots, dead letters, accounting, and rows of a ledger."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.ledger_parts import Keeping, write_part
from ldpbeam.transforms.outputs.letter_files import order_of, shard_of, write_letters
from ldpbeam.transforms.outputs.snapshots import (
    encoded,
    shared_number,
    window_of,
    write_shared,
    write_window,
)
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.storage import write_json
from ldpbeam.windows import Bounds

#: The tag of windows that share files.
_SHARED = "shared"
#: A window, and the compressed records of its snapshots: a long histogram of few reports has zeros.
_Window = tuple[Bounds, list[bytes]]


@dataclass(eq=False)
class WriteSnapshots(beam.PTransform):
    """Write (attribute, snapshots of one window) to Avro files; gives the paths.

    Attributes:
        study: the study.
        folder: the folder of the files.
        run: the name of the run.
    """

    study: Study
    folder: str
    run: str

    def expand(self, snapshots: beam.PCollection[tuple[str, list[Snapshot]]]) -> beam.PCollection[str]:
        """Write a file for each window, and bring those together that share one."""
        study, folder = self.study, self.folder
        written = snapshots | "WriteFiles" >> beam.FlatMap(self._of_window).with_outputs(
            _SHARED, main="paths"
        ).with_output_types(str, **{_SHARED: tuple[tuple[str, int], _Window]})
        shared = (
            written[_SHARED]
            | "ShareFiles" >> beam.GroupByKey()
            | "WriteShared"
            >> beam.MapTuple(lambda key, windows: _write_shared(study, folder, key[0], windows))
        )
        return (written.paths, shared) | "AllFiles" >> beam.Flatten()

    def _of_window(self, element: tuple[str, list[Snapshot]]) -> Iterator[Any]:
        attribute, snapshots = element
        number = shared_number(self.study, snapshots)
        if number is None:
            yield write_window(self.study, self.folder, self.run, snapshots)
        else:
            records = [zlib.compress(record, 1) for record in encoded(self.study, self.run, snapshots)]
            shared = (attribute, number), (window_of(snapshots[0]), records)
            yield beam.pvalue.TaggedOutput(_SHARED, shared)


def _write_shared(study: Study, folder: str, attribute: str, windows: Iterable[_Window]) -> str:
    in_order = [(window, record) for window, records in sorted(windows) for record in records]
    records = (zlib.decompress(record) for _, record in in_order)
    return write_shared(study, folder, attribute, [window for window, _ in in_order], records)


@dataclass(eq=False)
class WriteDeadLetters(beam.PTransform):
    """Write the dead letters of a run to at most four Avro files; gives their paths.

    Attributes:
        folder: the folder of the files.
    """

    folder: str

    def expand(self, letters: tuple[beam.PCollection[pa.RecordBatch], ...]) -> beam.PCollection[str]:
        """Gather the batches of a shard from each collection, and write one file per shard."""
        return (
            letters
            | beam.Flatten()
            | "KeyByShard" >> beam.Map(_keyed).with_output_types(tuple[int, pa.RecordBatch])
            | "GroupShards" >> beam.GroupByKey()
            | "WriteFiles" >> beam.Map(_write, self.folder)
        )


def _keyed(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    return shard_of(batch), batch


def _write(element: tuple[int, Iterable[pa.RecordBatch]], folder: str) -> str:
    shard, letters = element
    return write_letters(folder, shard, sorted(letters, key=order_of))


@dataclass(eq=False)
class WriteAccounting(beam.PTransform):
    """Add up the counts of all stages of a run, and write one JSON file, in a folder that exists."""

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


#: A worker writes a file when it holds this many rows, or a bundle ends.
MOST_ROWS = 2**20


class WriteReceived(beam.DoFn):
    """Write the rows of each bundle to files that their owner alone can read.

    A bundle that an engine repeats writes its rows again, under another name. That does no harm, because the
    rows of all files are a set.
    """

    def __init__(self, keeping: Keeping) -> None:
        # Workers that write need not have the key.
        self.folder = keeping.folder
        self.about = keeping.about
        self.waiting: list[pa.RecordBatch] = []

    def start_bundle(self) -> None:
        """Hold no rows."""
        self.waiting = []

    def process(self, batch: pa.RecordBatch) -> None:
        """Hold rows, until they are many."""
        self.waiting.append(batch)
        if sum(map(len, self.waiting)) >= MOST_ROWS:
            self._write()

    def finish_bundle(self) -> None:
        """Write what is held."""
        if self.waiting:
            self._write()

    def _write(self) -> None:
        waiting, self.waiting = self.waiting, []
        write_part(self.folder, self.about, waiting)

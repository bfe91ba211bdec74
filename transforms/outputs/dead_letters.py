"""Writing the dead letters of a run on an engine, which are gathered in a shuffle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.transforms.outputs.letter_files import Order, order_of, shard_of, write_letters
from ldpbeam.transforms.windows.shuffle import Place, Spill, read_pieces


@dataclass(eq=False)
class WriteDeadLetters(beam.PTransform):
    """Write the dead letters of a run to at most four Avro files; gives their paths.

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

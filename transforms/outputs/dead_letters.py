"""Writing the dead letters of a run on an engine, which are gathered in a shuffle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
import pyarrow as pa

from ldpbeam.transforms.outputs.letter_files import order_of, shard_of, write_letters


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

"""What DoFns emit: batches, which have a coder of their own, and beside them counts and dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics

from ldpbeam.transforms.reports.counts import COMPUTED_FROM, COUNTS, DAMAGED, IN
from ldpbeam.transforms.reports.dead_letters import (
    DEAD,
    DeadLetter,
    Disclosure,
    counts_of,
    disclosed,
    in_columns,
)


def parted(function: beam.DoFn, main: str, *others: str) -> beam.PTransform:
    """The ParDo of a DoFn that yields batches (``main``), dead letters (``DEAD``) and counts (``COUNTS``).

    It may yield other batches, under the tags ``others``.

    Without these types, Beam would pickle each dead letter at every shuffle.
    """
    types = {**dict.fromkeys((DEAD, *others), pa.RecordBatch), COUNTS: Any}
    return beam.ParDo(function).with_output_types(pa.RecordBatch, **types).with_outputs(*types, main=main)


def count(name: str, reports: int) -> beam.pvalue.TaggedOutput:
    """A count for a DoFn to emit; it also adds to Beam's counter of that name."""
    if not name.startswith(COMPUTED_FROM):
        Metrics.counter("ldpbeam", name.rpartition("/")[2] or name).inc(reports)
    return beam.pvalue.TaggedOutput(COUNTS, (name, reports))


def damaged_file(path: str) -> beam.pvalue.TaggedOutput:
    """A count for a DoFn to emit when it finds damage in a file; repeated counts of a file do no harm."""
    Metrics.counter("ldpbeam", "damaged_places").inc()
    return beam.pvalue.TaggedOutput(COUNTS, (DAMAGED + path, 1))


def emit(letters: Iterable[pa.RecordBatch], disclosure: Disclosure) -> Iterator[beam.pvalue.TaggedOutput]:
    """The outputs of a DoFn for batches of dead letters: what is disclosed, and counts by reason."""
    for of_schema in letters:
        yield beam.pvalue.TaggedOutput(DEAD, disclosed(of_schema, disclosure))
        yield from (count(name, reports) for name, reports in counts_of(of_schema).items())


def emit_decoded(parts: Iterable[pa.RecordBatch | DeadLetter], disclosure: Disclosure) -> Iterator[Any]:
    """The outputs of a DoFn for messages: the batches that they gave, dead letters, and counts of both.

    A batch is given before the next one is decoded, if the parts are decoded one by one.
    """
    letters: list[DeadLetter] = []
    for part in parts:
        if isinstance(part, DeadLetter):
            letters.append(part)
        else:
            yield count(IN, part.num_rows)
            yield part
    if letters:
        yield count(IN, sum(letter.reports for letter in letters))
        yield from emit(in_columns(letters, disclosure), disclosure)


class BatchCoder(beam.coders.Coder):
    """Encodes a batch as a compressed Arrow IPC stream; by default Beam would pickle it."""

    _options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))

    def encode(self, value: pa.RecordBatch) -> bytes:
        """The bytes of the IPC stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema, options=self._options) as writer:
            writer.write_batch(value)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """The batch."""
        with pa.ipc.open_stream(encoded) as reader:
            return reader.read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """The bytes in memory. Beam asks at each step, and by default encodes the batch to answer."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """False, so that Beam refuses a batch as a key."""
        return False


beam.coders.registry.register_coder(pa.RecordBatch, BatchCoder)

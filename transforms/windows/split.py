"""Cutting batches by window and partition as a Beam transform."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.transforms.reports import batch_coder  # noqa: F401 - registers the coder of batches
from ldpbeam.transforms.reports.counts import COUNTS, OUT_OF_RANGE
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.sources.watermark import timestamp
from ldpbeam.transforms.windows import coders  # noqa: F401 - registers the coders of keys
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.keys import PieceKey

#: Pieces are emitted when a bundle has gathered this many reports, and at its end.
GATHERED_REPORTS = 2**20


class Cut(beam.PTransform):
    """Cut batches of a channel into (:class:`PieceKey`, batch); count reports that are late or out of range.

    Args:
        pieces: how batches are cut.
        clock: as of :class:`Split`.
    """

    def __init__(self, pieces: Pieces, *, clock: bool = False) -> None:
        super().__init__()
        self.function = Split(pieces, clock=clock)

    def expand(
        self, reports: beam.PCollection[pa.RecordBatch]
    ) -> tuple[beam.PCollection[tuple[PieceKey, pa.RecordBatch]], beam.PCollection[tuple[str, int]]]:
        """Cut the batches of each bundle; give the pieces, and counts."""
        split = reports | "Split" >> beam.ParDo(self.function).with_output_types(
            tuple[PieceKey, pa.RecordBatch]
        ).with_outputs(COUNTS, main="pieces")
        return split.pieces, split[COUNTS]


class Split(beam.DoFn):
    """Cuts the batches of a bundle, by window and by the partition of a column.

    Args:
        pieces: how batches are cut.
        clock: whether reports dated a day or more ahead of this machine's clock, or longer before it than the
            study's ``max_age``, are out of range; then the study has windows.
    """

    def __init__(self, pieces: Pieces, *, clock: bool = False) -> None:
        self.pieces = pieces
        self.clock = clock

    def start_bundle(self) -> None:
        """Forget what a bundle that failed has gathered."""
        list(self.pieces.taken())

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        """Gather the pieces of a batch; emit all when there are :data:`GATHERED_REPORTS` reports."""
        if self.clock:
            assert self.pieces.windows is not None
            now = time.time_ns() // 1_000_000
            outside = self.pieces.windows.implausible(batch.column("event_time").to_numpy(), now)
            if outside.any():
                yield count(OUT_OF_RANGE, int(outside.sum()))
                batch = batch.filter(pa.array(~outside))
        for name, reports in self.pieces.gather(batch):
            yield count(name, reports)
        if self.pieces.reports >= GATHERED_REPORTS:
            for at, key, piece in self._taken():
                yield window.TimestampedValue((key, piece), at)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Emit the pieces that are left."""
        for at, key, piece in self._taken():
            yield WindowedValue((key, piece), at, [window.GlobalWindow()])

    def _taken(self) -> Iterator[tuple[Timestamp, PieceKey, pa.RecordBatch]]:
        for key, parts in self.pieces.taken():
            piece = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            # The timestamp is the earliest event time: it holds the watermark, so that no window of the piece
            # closes before the piece is processed. Without windows event times are not checked.
            earliest = 0 if self.pieces.windows is None else int(piece.column("event_time").to_numpy().min())
            yield timestamp(earliest), key, piece

"""Beam's side of the cut and of the fold, for both flows: cut batches, leave out others, fold pieces."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.study import Study
from ldpbeam.transforms.joining.kept import in_parts
from ldpbeam.transforms.reports.counts import COUNTS, OUT_OF_RANGE
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.windows import coders  # noqa: F401 - registers the coders of keys
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.fold import Fold, Folded
from ldpbeam.transforms.windows.groups import by_window
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.windows import Bounds, Span

#: Pieces are emitted when a bundle has gathered this many reports, and at its end.
GATHERED_REPORTS = 2**20
_COMPARED = "compared"


@dataclass(eq=False)
class Cut(beam.PTransform):
    """Cut batches of a channel into (:class:`PieceKey`, batch); count reports that are late or out of range.

    Attributes:
        pieces: how batches are cut.
        clock: as :class:`Split` takes it.
    """

    pieces: Pieces
    clock: bool = False

    def expand(
        self, reports: beam.PCollection[pa.RecordBatch]
    ) -> tuple[beam.PCollection[tuple[PieceKey, pa.RecordBatch]], beam.PCollection[tuple[str, int]]]:
        """Cut the batches of each bundle; give the pieces, and counts."""
        function = beam.ParDo(Split(self.pieces, self.clock))
        split = reports | "Split" >> function.with_output_types(tuple[PieceKey, pa.RecordBatch]).with_outputs(
            COUNTS, main="pieces"
        )
        return split.pieces, split[COUNTS]


@dataclass(eq=False)
class GroupPieces(beam.PTransform):
    """Cut batches of a channel, and bring the pieces of each key together.

    Attributes:
        pieces: how batches are cut.
    """

    pieces: Pieces

    def expand(
        self, branches: tuple[beam.PCollection[pa.RecordBatch], ...]
    ) -> tuple[
        beam.PCollection[tuple[PieceKey, Iterable[pa.RecordBatch]]], list[beam.PCollection[tuple[str, int]]]
    ]:
        """Cut each collection by itself, and group the pieces of all; give the counts of each cut, too."""
        cuts = [reports | f"Cut{number}" >> Cut(self.pieces) for number, reports in enumerate(branches, 1)]
        return [pieces for pieces, _ in cuts] | "Pieces" >> beam.Flatten() | beam.GroupByKey(), [
            counts for _, counts in cuts
        ]


@dataclass(eq=False)
class Split(beam.DoFn):
    """Cuts the batches of a bundle, by window and by the shard of a column.

    Attributes:
        pieces: how batches are cut.
        clock: whether reports dated a day or more ahead of the clock, or longer before it than the study's
            ``max_age``, are out of range; then the study has windows.
    """

    pieces: Pieces
    clock: bool = False

    def start_bundle(self) -> None:
        """Forget what a bundle that failed has gathered."""
        list(self.pieces.taken())

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        """Gather the pieces of a batch; emit all when there are :data:`GATHERED_REPORTS` reports."""
        if self.clock:
            assert self.pieces.windows is not None
            plausible = self.pieces.windows.plausible(time.time_ns() // 1_000_000)
            outside = plausible.outside(batch.column("event_time").to_numpy())
            if outside.any():
                yield count(OUT_OF_RANGE, int(outside.sum()))
                batch = batch.filter(pa.array(~outside))
        yield from (count(name, reports) for name, reports in self.pieces.gather(batch))
        if self.pieces.reports >= GATHERED_REPORTS:
            yield from self._left_out()
            for at, piece in self._taken():
                yield window.TimestampedValue(piece, at)

    def finish_bundle(self) -> Iterator[Any]:
        """Emit the pieces that are left, and how many reports no fold keeps."""
        everywhere = [window.GlobalWindow()]
        for left_out in self._left_out():
            at = timestamp(max(0, self.pieces.watermark))
            yield beam.pvalue.TaggedOutput(left_out.tag, WindowedValue(left_out.value, at, everywhere))
        for at, piece in self._taken():
            yield WindowedValue(piece, at, everywhere)

    def _left_out(self) -> Iterator[beam.pvalue.TaggedOutput]:
        """Drop the reports that no fold can keep, and count them."""
        for alike, _, left_out in self.pieces.leave_out_repeats():
            yield from (count(name, reports) for name, reports in alike.counts(left_out))

    def _taken(self) -> Iterator[tuple[Timestamp, tuple[PieceKey, pa.RecordBatch]]]:
        """(timestamp, (key, piece)) of all that is gathered."""
        watermark = self.pieces.watermark
        for key, parts in self.pieces.taken():
            piece = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            # The timestamp holds the watermark, so that no window of the piece expires before the piece is
            # processed: it is the earliest event time, or the watermark at which no report of the piece was
            # late, if that is later. Without windows event times are not checked.
            earliest = 0 if self.pieces.windows is None else int(piece.column("event_time").to_numpy().min())
            yield timestamp(max(earliest, watermark)), (key, piece)


def inside(batch: pa.RecordBatch, span: Span) -> Iterable[Any]:
    """Emit the reports of a batch inside a span, ``--from`` and ``--to``, and how many are outside."""
    outside = span.outside(batch.column("event_time").to_numpy())
    if not outside.any():
        yield batch
        return
    yield count(OUT_OF_RANGE, int(outside.sum()))
    if not outside.all():
        yield batch.filter(pa.array(~outside))


class FoldPieces(beam.DoFn):
    """Folds the pieces of a key, window by window.

    The element is a key with all pieces of its shard, or where no report is compared with another, with
    one piece.
    """

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._milliseconds = beam.metrics.Metrics.distribution("ldpbeam", "join_milliseconds")

    def process(self, element: tuple[PieceKey, pa.RecordBatch | Iterable[pa.RecordBatch]]) -> Iterable[Any]:
        """Emit the statistics of each window of the key's run, and counts."""
        key, pieces = element
        alike = self.fold.alike(key.attribute)
        started = time.monotonic()
        parts: Iterable[tuple[list[pa.RecordBatch], int]] = [([pieces], 0)]
        if not isinstance(pieces, pa.RecordBatch):
            parts = in_parts(pieces, alike)
        for batches, left_out in parts:
            for bounds, folded in self.fold.fold(key, batches):
                yield from outputs(self.fold.study, bounds, folded)
            yield from (count(*left) for left in alike.counts(left_out))
        self._milliseconds.update(int(1000 * (time.monotonic() - started)))


def parted(
    fold: Fold, branches: tuple[beam.PCollection[pa.RecordBatch], ...]
) -> tuple[tuple[beam.PCollection[pa.RecordBatch], ...], tuple[beam.PCollection[pa.RecordBatch], ...]]:
    """(batches whose reports are compared, batches that are folded as they come) of some collections."""
    if fold.compares_all is not None:
        return (branches, ()) if fold.compares_all else ((), branches)
    both = [
        branch
        | f"Apart{number}"
        >> beam.FlatMap(_apart, fold).with_outputs(_COMPARED, main="alone").with_output_types(pa.RecordBatch)
        for number, branch in enumerate(branches, 1)
    ]
    return tuple(each[_COMPARED] for each in both), tuple(each.alone for each in both)


def beside(collections: Sequence[beam.PCollection], label: str) -> beam.PCollection:
    """All collections as one. One alone is not flattened: a Flatten ends a stage before it combines."""
    return collections | label >> beam.Flatten() if len(collections) > 1 else collections[0]


def _apart(batch: pa.RecordBatch, fold: Fold) -> Iterable[Any]:
    compared, alone = fold.apart(batch)
    if compared.num_rows:
        yield beam.pvalue.TaggedOutput(_COMPARED, compared)
    if alone.num_rows:
        yield alone


def outputs(study: Study, window: Bounds | None, folded: Folded) -> Iterator[Any]:
    """The outputs of a DoFn: (:class:`WindowKey`, statistics of its groups), and counts."""
    yield from by_window(folded.statistics, window)
    yield from (count(name, reports) for name, reports in folded.counts(study))


def timestamp(milliseconds: int) -> Timestamp:
    """Epoch milliseconds as Beam's timestamp."""
    return Timestamp(micros=1000 * milliseconds)

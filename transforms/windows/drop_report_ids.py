"""Dropping of duplicates by report id as a Beam transform of a batch run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.study import Study
from ldpbeam.transforms.joining.report_ids import compared, compared_by_id, first_of_ids
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.split import GroupPieces

_IDENTIFIED = "identified"


@dataclass(eq=False)
class DropDuplicateIds(beam.PTransform):
    """Drop a user's duplicates by report id from batches of a channel, over all windows.

    Reports without an id are not shuffled. Reports with one are shuffled by shard of their ids. Where
    several reports of a user count, all are shuffled by shard of users; others are dropped.

    Gives batches of the reports without an id, batches of those with one, and counts of the duplicates.

    Attributes:
        study: the study.
        shards: the number of shards of report ids, or of users.
    """

    study: Study
    shards: int

    def expand(
        self, reports: beam.PCollection[pa.RecordBatch]
    ) -> tuple[
        beam.PCollection[pa.RecordBatch],
        beam.PCollection[pa.RecordBatch],
        beam.PCollection[tuple[str, int]],
    ]:
        """Part reports with and without an id, and bring equal ids together to keep one of each."""
        alike = compared(self.study)
        parted = reports | "ByReportId" >> beam.FlatMap(_by_comparison, self.study).with_outputs(
            _IDENTIFIED, main="plain"
        ).with_output_types(pa.RecordBatch)
        column = "report_id" if alike.most is None else "user"
        by_id = Pieces(None, self.shards, column=column, alike=lambda _: alike)
        grouped, counts = (parted[_IDENTIFIED],) | "GroupReportIds" >> GroupPieces(by_id)
        first = grouped | "FirstOfReportIds" >> beam.FlatMap(_first_of_report_ids, self.study).with_outputs(
            COUNTS, main="first"
        ).with_output_types(pa.RecordBatch)
        return parted.plain, first.first, [*counts, first[COUNTS]] | "Counts" >> beam.Flatten()


def _by_comparison(batch: pa.RecordBatch, study: Study) -> Iterable[Any]:
    """Emit the reports that are compared to the output ``identified``, and the others to the main output."""
    identified, plain = compared_by_id(study, batch)
    if identified.num_rows:
        yield beam.pvalue.TaggedOutput(_IDENTIFIED, identified)
    if plain.num_rows:
        yield plain


def _first_of_report_ids(element: tuple[PieceKey, Iterable[pa.RecordBatch]], study: Study) -> Iterable[Any]:
    key, pieces = element
    for first, counts in first_of_ids(study, study.attribute(key.attribute), pieces):
        yield from first
        yield from (count(*dropped) for dropped in counts)

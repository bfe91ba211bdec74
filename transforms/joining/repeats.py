"""The same report twice: of reports with one report id within attribute and service, one stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.study import Study
from ldpbeam.transforms.joining.joins import by_report_id, first_of_report_ids
from ldpbeam.transforms.reports.batches import version_index
from ldpbeam.transforms.reports.counts import COUNTS, DUPLICATES, count
from ldpbeam.transforms.windows.cut import SplitByStepAndKey

_IDENTIFIED = "identified"


class DropRepeats(beam.PTransform):
    """Batches without repeats of a report id, whatever their users and windows.

    Reports without an id pass by; only those with one are shuffled, by partition of their ids.

    Outputs: the main one of batches, and counts.
    """

    def __init__(self, study: Study, partitions: int) -> None:
        super().__init__()
        self.study = study
        self.partitions = partitions

    def expand(self, reports: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Wire the stages."""
        sorted_out = reports | "ByReportId" >> beam.FlatMap(_by_report_id).with_outputs(
            _IDENTIFIED, main="plain"
        ).with_output_types(pa.RecordBatch)
        first = (
            sorted_out[_IDENTIFIED]
            | "SplitByReportId"
            >> beam.ParDo(SplitByStepAndKey(None, "report_id", self.partitions)).with_output_types(
                tuple[str, pa.RecordBatch]
            )
            | "GroupReportIds" >> beam.GroupByKey()
            | "FirstOfReportIds"
            >> beam.ParDo(_FirstOfReportIds(self.study))
            .with_outputs(COUNTS, main="first")
            .with_output_types(pa.RecordBatch)
        )
        return (sorted_out.plain, first.first) | "Unrepeated" >> beam.Flatten(), first[COUNTS]


def _by_report_id(batch: pa.RecordBatch) -> Iterable[Any]:
    identified, plain = by_report_id(batch)
    if identified.num_rows:
        yield beam.pvalue.TaggedOutput(_IDENTIFIED, identified)
    if plain.num_rows:
        yield plain


class _FirstOfReportIds(beam.DoFn):
    def __init__(self, study: Study) -> None:
        self.study = study

    def process(self, element: tuple[str, Iterable[pa.RecordBatch]]) -> Iterable[Any]:
        key, batches = element
        attribute = self.study.attribute(key.rpartition("/")[0])
        kept, duplicates = first_of_report_ids(attribute, list(batches))
        yield from _together(kept)
        if duplicates:
            yield count(DUPLICATES, duplicates)


def _together(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """The same reports, in as few batches as their schemas allow.

    They came in a piece a bundle and partition; cut by user as they are, each would fall apart into single
    reports.
    """
    alike: dict[tuple[int, pa.Schema], list[pa.RecordBatch]] = {}
    for batch in batches:
        alike.setdefault((version_index(batch), batch.schema), []).append(batch)
    return map(pa.concat_batches, alike.values())

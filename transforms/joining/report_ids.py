"""Duplicates by report id: of the reports of an attribute and service with the same id, one is kept.

A batch run compares the ids of all reports, whatever their users and windows
(:mod:`ldpbeam.transforms.joining.drop_report_ids`). A stream compares the ids within one partition of users
and one window, when it folds the partition. Pure functions over batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ldpbeam.attributes import Attribute
from ldpbeam.transforms.joining.kept import codes_of, gathered, kept, per_service
from ldpbeam.transforms.reports.batches import version_index


def by_report_id(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """(the reports of a batch that have an id, those that have none)."""
    if "report_id" not in batch.schema.names:
        return batch.slice(0, 0), batch
    ids = batch.column("report_id")
    if not ids.null_count:
        return batch, batch.slice(0, 0)
    return batch.filter(ids.is_valid()), batch.filter(ids.is_null())


def without_duplicate_ids(
    attribute: Attribute, batches: Sequence[pa.RecordBatch]
) -> tuple[list[pa.RecordBatch], int]:
    """(batches without duplicates by report id within a service, how many reports were dropped).

    All reports without an id are kept. The kept reports are in as few batches as their schemas allow.
    """
    parts = [by_report_id(batch) for batch in batches]
    plain = [batch for _, batch in parts if batch.num_rows]
    identified = sorted((batch for batch, _ in parts if batch.num_rows), key=version_index)
    if not identified:
        return plain, 0
    reports = gathered(attribute, identified)
    ids, _ = codes_of(reports.report_ids)
    chosen = kept(reports, per_service(attribute, reports, ids))
    ends = np.cumsum([batch.num_rows for batch in identified])[:-1]
    first = [
        batch.filter(pa.array(rows))
        for batch, rows in zip(identified, np.split(chosen, ends), strict=True)
        if rows.any()
    ]
    return [*_together(first), *plain], int(len(chosen) - chosen.sum())


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenate the batches that have the same channel and schema.

    The batches are pieces, one per bundle and partition of ids. Cut by user as they are, each would fall
    apart into single reports.
    """
    alike: dict[tuple[int, pa.Schema], list[pa.RecordBatch]] = {}
    for batch in batches:
        alike.setdefault((version_index(batch), batch.schema), []).append(batch)
    return map(pa.concat_batches, alike.values())

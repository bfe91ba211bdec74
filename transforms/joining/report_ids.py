"""Duplicates by report id: of the reports of a user, attribute and service with the same id, one is kept.

A user's report never makes another user's a duplicate. Report ids, which clients write, and deliveries, which
they do not, are never compared with each other. A batch run compares the ids of all reports, whatever their
windows (:mod:`ldpbeam.transforms.windows.bounded`). A stream compares the ids within one shard of
users and one window, when it folds the shard. Pure functions over batches.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.attributes import Attribute
from ldpbeam.schemas.reports.columns import DELIVERY
from ldpbeam.study import Study
from ldpbeam.transforms.joining.gathered import gathered
from ldpbeam.transforms.joining.kept import (
    Alike,
    at_most,
    concatenated,
    filtered,
    in_parts,
    kept,
    pairs_of,
    per_service,
    users_alike,
)
from ldpbeam.transforms.joining.same_ids import numbers_of
from ldpbeam.transforms.reports.batches import version_index

#: One of a user's reports with the same id is kept.
IDENTIFIED = Alike(("user", "report_id", DELIVERY))


def compared(study: Study) -> Alike:
    """Which reports are brought together to compare their ids."""
    return IDENTIFIED if study.repeats == "first" else users_alike(study)


def first_of_ids(
    study: Study, attribute: Attribute, pieces: Iterable[pa.RecordBatch]
) -> Iterator[tuple[list[pa.RecordBatch], list[tuple[str, int]]]]:
    """(some of the reports, without duplicates by report id; counts of the others) until there are no more.

    Args:
        study: the study.
        attribute: their attribute.
        pieces: all of its reports that are :func:`compared_by_id` and brought together, as of
            :func:`in_parts`.
    """
    alike = compared(study)
    for batches, left_out in in_parts(pieces, alike):
        few = at_most(batches, alike, attribute)
        left_out += sum(batch.num_rows for batch in batches) - sum(batch.num_rows for batch in few)
        first, duplicates = without_duplicate_ids(attribute, few)
        yield first, [*alike.counts(left_out), *IDENTIFIED.counts(duplicates)]


def compared_by_id(study: Study, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """(the reports of a batch that are brought together to compare their ids, the others)."""
    return by_report_id(batch) if study.repeats == "first" else (batch, batch.slice(0, 0))


def by_report_id(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """(the reports of a batch that have an id or a delivery, those that have neither)."""
    nothing = batch.slice(0, 0)
    present = [batch.column(name) for name in ("report_id", DELIVERY) if name in batch.schema.names]
    if not present:
        return nothing, batch
    identified = functools.reduce(pc.or_, [ids.is_valid() for ids in present])
    if not identified.false_count:
        return batch, nothing
    return batch.filter(identified), batch.filter(pc.invert(identified))


def without_duplicate_ids(
    attribute: Attribute, batches: Sequence[pa.RecordBatch]
) -> tuple[list[pa.RecordBatch], int]:
    """(batches without duplicates by report id within a user and service, how many reports were dropped).

    All reports without an id and a delivery are kept. The kept reports are in as few batches as their schemas
    allow.
    """
    parts = [by_report_id(batch) for batch in batches]
    plain = [batch for _, batch in parts if batch.num_rows]
    identified = sorted((batch for batch, _ in parts if batch.num_rows), key=version_index)
    if not identified:
        return plain, 0
    reports = gathered(attribute, identified)
    codes = [numbers_of(column) for column in (reports.users, reports.report_ids, reports.deliveries)]
    chosen = kept(reports, per_service(attribute, reports, functools.reduce(pairs_of, codes)))
    return [*concatenated(filtered(identified, chosen)), *plain], int(len(chosen) - chosen.sum())

"""Batches of several channels as parallel columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.schemas.reports.columns import DELIVERY
from ldpbeam.schemas.reports.payloads import payloads_in
from ldpbeam.transforms.reports.batches import DRAW, version_index


class Reports(NamedTuple):
    """Batches of several channels as parallel columns, one row per report.

    Attributes:
        versions: the channel's index, ascending, shape (n,).
        users: user keys, binary, n values; null where reports have no users.
        times: event times in epoch milliseconds, shape (n,).
        report_ids: binary, n values; null without one.
        deliveries: binary, n values; null with a report id, and where reports do not come in messages.
        groups: text, n values; null without one.
        draws: :func:`draws_of` ids that are replaced, uint16, n values; null where they are not.
        payloads: the payloads of each channel, by its index, ascending.
    """

    versions: NDArray[np.uint16]
    users: pa.Array
    times: NDArray[np.int64]
    report_ids: pa.Array
    deliveries: pa.Array
    groups: pa.Array
    draws: pa.Array
    payloads: dict[int, NDArray[Any]]

    def by_channel(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, slice, NDArray[Any]]]:
        """(a channel's index, which of some ascending rows are its reports, their payloads) if it has any."""
        ends = np.cumsum([*map(len, self.payloads.values())])
        bounds = [0, *np.searchsorted(rows, ends).tolist()]
        for (version, payloads), end, (first, last) in zip(
            self.payloads.items(), ends.tolist(), itertools.pairwise(bounds), strict=True
        ):
            if first < last:
                part = slice(first, last)
                yield version, part, payloads[rows[part] - (end - len(payloads))]


def gathered(attribute: Attribute | None, batches: Sequence[pa.RecordBatch]) -> Reports:
    """Concatenate batches into columns, ordered by channel; ``attribute`` as :func:`payloads_of` takes it."""
    ordered = sorted(batches, key=version_index)
    payloads = {
        version: np.concatenate([payloads_of(attribute, batch) for batch in parts])
        for version, parts in itertools.groupby(ordered, version_index)
    }
    return Reports(
        versions=np.repeat(np.array([*payloads], np.uint16), [*map(len, payloads.values())]),
        users=column_or_nulls(ordered, "user", pa.binary()),
        times=np.concatenate([batch.column("event_time").to_numpy() for batch in ordered]),
        report_ids=column_or_nulls(ordered, "report_id", pa.binary()),
        deliveries=column_or_nulls(ordered, DELIVERY, pa.binary()),
        groups=column_or_nulls(ordered, "group", pa.string()),
        draws=column_or_nulls(ordered, DRAW, pa.uint16()),
        payloads=payloads,
    )


def payloads_of(attribute: Attribute | None, batch: pa.RecordBatch) -> NDArray[Any]:
    """A batch's payloads in its mechanism's type, or without the attribute in one of the same bytes."""
    column = batch.column("payload")
    if attribute is None:
        fixed = pa.types.is_fixed_size_binary(column.type)
        return payloads_in(column, np.dtype(f"V{column.type.byte_width}" if fixed else "f8"))
    return payloads_in(column, attribute.versions[version_index(batch)].mechanism.payload_dtype)


def column_or_nulls(batches: Sequence[pa.RecordBatch], name: str, kind: pa.DataType) -> pa.Array:
    """Concatenate a column of batches, with nulls for batches that do not have it.

    It is of the given kind, unless the batches agree on another, or none of them has it.
    """
    if not any(name in batch.schema.names for batch in batches):
        return pa.nulls(sum(batch.num_rows for batch in batches))
    columns = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)
        for batch in batches
    ]
    if len({column.type for column in columns}) > 1:
        columns = [pc.cast(column, kind) for column in columns]
    return pa.concat_arrays(columns)

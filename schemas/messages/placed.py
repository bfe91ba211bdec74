"""Positions, rows and deliveries of reports that were decoded from messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.reports.columns import DELIVERY, NEAR, RECORD, Columns


@dataclass(frozen=True)
class Ids:
    """The ids of n messages, and the numbers in them.

    The number of an id is what follows its last slash, as in Kafka's ``TOPIC/PARTITION/OFFSET``, if that is a
    number below 2**63, else null.

    Attributes:
        numbers: int64, n values.
        names: the ids, n texts; None if each is ``prefix``, a slash and the number.
        prefix: what all ids begin with, as ``TOPIC/PARTITION``.
    """

    numbers: pa.Array
    names: pa.Array | None = None
    prefix: str = ""

    def at(self, indices: NDArray[np.int64]) -> Ids:
        """The ids of the messages at some indices."""
        rows = pa.array(indices)
        return Ids(
            self.numbers.take(rows), None if self.names is None else self.names.take(rows), self.prefix
        )

    def name(self, index: int) -> str:
        """The id of one message as text."""
        text: str = (self.numbers if self.names is None else self.names)[index].as_py()
        return f"{self.prefix}/{text}" if self.names is None else text

    def texts(self) -> pa.Array:
        """The ids as text, n values."""
        if self.names is not None:
            return self.names
        return pc.binary_join_element_wise(self.prefix, self.numbers.cast(pa.string()), "/")


def ids_of(names: Sequence[str]) -> Ids:
    """The ids that these texts are."""
    texts = pa.array(names, pa.string())
    ends = pc.replace_substring_regex(texts, "(?s)^.*/", "")
    digits = pc.if_else(pc.match_substring_regex(ends, "^[0-9]{1,19}$"), ends, None).cast(pa.uint64())
    return Ids(
        pc.if_else(pc.less(digits, pa.scalar(2**63, pa.uint64())), digits, None).cast(pa.int64()), texts
    )


def placed(
    batch: pa.RecordBatch,
    ids: Ids,
    which: NDArray[np.int64],
    row: NDArray[np.int64],
    wanted: Columns,
    *,
    single: bool = False,
    deliveries: bool = True,
    records: pa.Array | None = None,
) -> pa.RecordBatch:
    """A decoded batch with position and row in messages, and the delivery of each report without an id.

    Args:
        batch: n reports; their columns ``position`` and ``row`` are replaced.
        ids: the ids of all messages.
        which: the index of each report's message, shape (n,).
        row: each report's index in its message, shape (n,).
        wanted: gives the order of columns.
        single: whether each message has one report only.
        deliveries: whether reports without an id get a delivery.
        records: the whole records of the reports, binary, n values; None if the batch has what is needed.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    report_ids = columns.get("report_id")
    if deliveries and (report_ids is None or report_ids.null_count):
        derived = ids.at(which).texts()
        if not single:
            derived = pc.binary_join_element_wise(derived, pc.cast(pa.array(row), pa.string()), "/")
        derived = pc.cast(derived, pa.binary())
        columns[DELIVERY] = derived if report_ids is None else pc.if_else(report_ids.is_null(), derived, None)
    if records is not None:
        columns[RECORD] = records
    columns |= {"position": ids.numbers.take(pa.array(which)), "row": pa.array(row)}
    names = [name for name in (*wanted.names, NEAR, RECORD, "position", "row", DELIVERY) if name in columns]
    complete = pa.RecordBatch.from_pydict({name: columns[name] for name in names})
    return complete.replace_schema_metadata(batch.schema.metadata)

"""Positions, rows and deliveries of reports that were decoded from messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.reports.columns import DELIVERY, NEAR, RECORD, Columns


@dataclass(frozen=True)
class Ids:
    """The ids of n messages as text, and the numbers in them.

    The number of an id is what follows its last slash, as in Kafka's ``TOPIC/PARTITION/OFFSET``, if that is a
    number below 2**63, else null.
    """

    text: pa.Array
    numbers: pa.Array


def ids_of(names: Sequence[str]) -> Ids:
    """The columns of some message ids."""
    ends = [name[name.rfind("/") + 1 :] for name in names]
    numbers = [int(end) if re.fullmatch("[0-9]{1,19}", end) else -1 for end in ends]
    sane = [number if 0 <= number < 2**63 else None for number in numbers]
    return Ids(pa.array(names, pa.string()), pa.array(sane, pa.int64()))


def placed(
    batch: pa.RecordBatch,
    ids: Ids,
    which: NDArray[np.int64],
    row: NDArray[np.int64],
    wanted: Columns,
    *,
    single: bool = False,
    data: Sequence[bytes] = (),
) -> pa.RecordBatch:
    """A decoded batch with position and row in messages, and the delivery of each report without an id.

    Args:
        batch: n reports; their columns ``position`` and ``row`` are replaced.
        ids: the ids of all messages.
        which: the index of each report's message, shape (n,).
        row: each report's index in its message, shape (n,).
        wanted: gives the order of columns.
        single: whether each message has one report only.
        data: the bytes of all messages, which are the whole records of single reports.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    messages = pa.array(which)
    report_ids = columns.get("report_id")
    if report_ids is None or report_ids.null_count:
        derived = ids.text.take(messages)
        if not single:
            derived = pc.binary_join_element_wise(derived, pc.cast(pa.array(row), pa.string()), "/")
        derived = pc.cast(derived, pa.binary())
        columns[DELIVERY] = derived if report_ids is None else pc.if_else(report_ids.is_null(), derived, None)
    if wanted.whole and single:
        columns[RECORD] = pa.array(data, pa.binary()).take(messages)
    columns |= {"position": ids.numbers.take(messages), "row": pa.array(row)}
    names = [name for name in (*wanted.names, NEAR, RECORD, "position", "row", DELIVERY) if name in columns]
    complete = pa.RecordBatch.from_pydict({name: columns[name] for name in names})
    return complete.replace_schema_metadata(batch.schema.metadata)

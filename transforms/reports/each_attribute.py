"""Splits records that hold a list of reports, one to every attribute."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.domains import Integers
from ldpbeam.schemas.reports.casts import is_null
from ldpbeam.study import Study


def each_attribute(batch: pa.RecordBatch, study: Study) -> pa.RecordBatch:
    """A decoded batch with a row for each attribute of a record; each row keeps the record's user and time.

    A record without a list stays one row, which becomes one dead letter.

    Args:
        batch: the batch; a list is a text with commas.
        study: the study, whose attributes say the place of each; a batch of another study stays as it is.
    """
    places = {name: of.place[1] for name, of in study.attributes.items() if of.place is not None}
    if not places:
        return batch
    payloads = batch.column("payload")
    if not pa.types.is_string(payloads.type):
        payloads = pa.nulls(batch.num_rows, pa.string())
    lists, present = pc.split_pattern(payloads, ","), np.flatnonzero(~is_null(payloads))
    rows, values = list[Integers](), list[pa.Array]()
    for position in places.values():
        chosen = np.arange(batch.num_rows) if not rows else present
        value = pc.binary_join(pc.list_slice(lists.take(pa.array(chosen)), position, position + 1), "")
        values.append(pc.if_else(pc.equal(value, ""), None, value))
        rows.append(chosen)
    columns = dict(zip(batch.schema.names, batch.take(pa.array(np.concatenate(rows))).columns, strict=True))
    columns["payload"] = pa.concat_arrays(values)
    columns["attribute"] = pa.array(np.repeat(list(places), list(map(len, rows))))
    return pa.RecordBatch.from_pydict(columns).replace_schema_metadata(batch.schema.metadata)

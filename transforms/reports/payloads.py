"""Payloads: lists are split by attribute, a valid one gets the type of its mechanism, any other a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.domains import Integers
from ldpbeam.mechanisms import Mechanism
from ldpbeam.schemas.reports.casts import fixed_bytes, is_null
from ldpbeam.schemas.reports.columns import LETTER_BYTES, LETTERS_KEY, PLACE
from ldpbeam.schemas.reports.payloads import bits_in, bytes_in, places_in
from ldpbeam.study import Payload, Study
from ldpbeam.transforms.reports.dead_letters import CODE


def checked_payloads(
    mechanism: Mechanism, batch: pa.RecordBatch, rows: NDArray[np.int64], form: Payload = "packed"
) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """(payloads of the rows in the mechanism's type, the code of each one's reason, 0 if valid)."""
    column = batch.column("payload")
    if len(rows) < batch.num_rows:
        column = column.take(pa.array(rows))
    problems = np.zeros(len(rows), dtype=np.int8)
    payloads = np.zeros(len(rows), dtype=mechanism.payload_dtype)
    missing = is_null(column)
    problems[missing] = CODE["no_payload"]
    if pa.types.is_null(column.type):
        return payloads, problems
    if payloads.dtype.kind == "V":
        return _checked_bytes(mechanism, column, ~missing, payloads, problems, form), problems
    if pa.types.is_fixed_size_binary(column.type) and column.type.byte_width == 4:
        values = fixed_bytes(column).view("<u4").ravel()
    elif pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        values = column.to_numpy(zero_copy_only=False)
    else:
        problems[~missing] = CODE["payload_not_a_number"]
        return payloads, problems
    possible = mechanism.is_report(np.where(missing, 0, values) if missing.any() else values)
    if possible.all() and not missing.any():
        return values.astype(mechanism.payload_dtype, copy=False), problems
    problems[~possible & ~missing] = CODE["payload_outside_mechanism"]
    problems[np.isnan(values) & ~missing] = CODE["payload_not_a_number"]
    good = problems == 0
    payloads[good] = values[good].astype(mechanism.payload_dtype)
    return payloads, problems


def _checked_bytes(
    mechanism: Mechanism,
    column: pa.Array,
    given: NDArray[np.bool_],
    payloads: NDArray[Any],
    problems: NDArray[np.int8],
    form: Payload,
) -> NDArray[Any]:
    """Payloads from bytes of the mechanism's width; fill in ``problems`` for all others, which are zero."""
    kind = column.type
    if not (pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        problems[given] = CODE["payload_not_bytes"]
        return payloads
    if form == "packed" or not pa.types.is_string(kind):
        data, fits = bytes_in(column, payloads.dtype.itemsize)
    else:
        bits, fits = (bits_in if form == "bits" else places_in)(column, mechanism.bits)
        data = np.packbits(bits, axis=1, bitorder="little")
    payloads = data.view(payloads.dtype).ravel()
    problems[given & ~fits] = CODE["payload_wrong_length"]
    problems[fits & ~mechanism.is_report(payloads)] = CODE["payload_outside_mechanism"]
    return payloads


def each_attribute(batch: pa.RecordBatch, study: Study) -> pa.RecordBatch:
    """A decoded batch with a row for each attribute of a record; each row keeps the record's user and time.

    A record without a list stays one row, which becomes one dead letter.

    Args:
        batch: the batch; a list is a text with commas. Of a record with a :data:`PLACE`, only that is read.
        study: the study, whose attributes say the place of each; a batch of another study stays as it is.
    """
    places = {name: of.place[1] for name, of in study.attributes.items() if of.place is not None}
    if not places:
        return batch
    payloads = batch.column("payload")
    if not pa.types.is_string(payloads.type):
        payloads = pa.nulls(batch.num_rows, pa.string())
    wanted = batch.column(PLACE) if PLACE in batch.schema.names else pa.nulls(batch.num_rows, pa.int64())
    only, lists = pc.fill_null(wanted, -1).to_numpy(), pc.split_pattern(payloads, ",")
    present = ~is_null(payloads) & np.isin(only, [-1, *places.values()])
    rows, values = list[Integers](), list[pa.Array]()
    for position in places.values():
        chosen = np.flatnonzero(np.where(present, np.isin(only, [-1, position]), not rows))
        value = pc.binary_join(pc.list_slice(lists.take(pa.array(chosen)), position, position + 1), "")
        values.append(pc.if_else(pc.and_(pa.array(present[chosen]), pc.not_equal(value, "")), value, None))
        rows.append(chosen)
    every, each = np.concatenate(rows), list(map(len, rows))
    at = np.where(present[every], np.repeat([*places.values()], each), only[every])
    columns = dict(zip(batch.schema.names, batch.take(pa.array(every)).columns, strict=True))
    columns |= {"payload": pa.concat_arrays(values), PLACE: pa.array(at, mask=at < 0)}
    metadata = dict(batch.schema.metadata or {})
    # A short record may be a report to each of many attributes, and has as many dead letters as its bytes.
    size = LETTER_BYTES * batch.num_rows + (pc.sum(pc.binary_length(payloads)).as_py() or 0)
    metadata.setdefault(LETTERS_KEY.encode(), str(size).encode())
    columns["attribute"] = pa.array(np.repeat(list(places), each))
    return pa.RecordBatch.from_pydict(columns).replace_schema_metadata(metadata)

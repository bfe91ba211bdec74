"""Avro and Arrow in messages: damage costs a block or what comes after it, and nothing ends the process."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pyarrow as pa
import pytest
from support.encoded import arrow_stream
from support.sent_messages import (
    AVRO,
    NEW_YEAR,
    OBJECT,
    OWN,
    REPORT,
    WITHOUT_ID,
    crc_64_avro,
    read,
    single_object,
    table,
)

from ldpbeam.schemas.messages import binary as binary_messages
from ldpbeam.schemas.messages.decode import ARROW, Message
from ldpbeam.schemas.reports.columns import DELIVERY

THINNER = {
    "type": "record",
    "name": "Thin",
    "fields": [
        {"name": "user_id", "type": {"type": "fixed", "name": "U", "size": 8}},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "payload", "type": "long"},
        {"name": "app", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}


def test_a_single_object_of_another_schema_is_bad() -> None:
    record = {"user_id": b"ann\0\0\0\0\0", "event_time": NEW_YEAR * 1000, "payload": 3, "app": "2.0"}
    given = (
        Message("2", single_object(OWN[0]), "avro/binary"),
        Message("1", single_object(record, THINNER), AVRO),
    )
    refused = read(*given)
    (bad,) = refused.bad
    assert (bad.message, bad.reason, bad.reports, bad.row) == (given[1], "unknown_schema", 1, 0)
    assert all(crc_64_avro(schema).hex() in bad.problem for schema in (THINNER, REPORT))
    assert refused.column("position") == [2]


@pytest.mark.parametrize("start", [b"\xc3\x01", b"\xc3\x01\x99", OBJECT[:9]])
def test_an_object_without_a_whole_fingerprint_has_an_unknown_schema(start: bytes) -> None:
    (bad,) = read(Message("1", start, AVRO)).bad
    assert bad.reason == "unknown_schema"


def test_no_message_has_more_reports_than_bits() -> None:
    nulls = pa.record_batch({"user_id": pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])})
    (bad,) = read(Message("1", arrow_stream(nulls), ARROW)).bad
    assert (bad.reason, bad.reports, bad.row) == ("too_many_reports", 1, 0)


PARTS = [table(WITHOUT_ID).slice(at, 3) for at in range(0, 10, 3)]
STREAM = arrow_stream(*PARTS)


def ends_of_batches() -> list[int]:
    source = pa.BufferReader(STREAM)
    reader = pa.ipc.open_stream(source)
    ends = [source.tell()]
    for _ in PARTS:
        reader.read_next_batch()
        ends.append(source.tell())
    return ends


def test_of_a_truncated_stream_the_batches_before_the_cut_count() -> None:
    ends = ends_of_batches()
    for kept in range(0, len(STREAM), 7):
        found = read(Message("1", STREAM[:kept], ARROW))
        whole = sum(end <= kept for end in ends) - 1
        if whole < 0:
            assert [bad.reason for bad in found.bad] == ["bad_message"]
            continue
        assert found.column("row") == list(range(min(3 * whole, 10)))
        if kept in ends:
            continue
        (bad,) = found.bad
        assert (bad.reason, bad.reports) == ("corrupt_block", 1)
        assert (bad.row, bad.data) == (min(3 * whole, 10), STREAM[ends[whole] : kept])


def test_a_damaged_batch_of_a_stream_costs_what_comes_from_there_on() -> None:
    """Text that is not UTF-8 is seen only where buffers are validated."""
    text = str(uuid.UUID(int=2**100 + 4)).encode()
    at = STREAM.index(text)
    found = read(Message("1", STREAM[:at] + b"\xff" + STREAM[at + 1 :], ARROW))
    assert found.column("row") == [0, 1, 2]
    (bad,) = found.bad
    assert (bad.reason, bad.reports, bad.row) == ("corrupt_block", 3, 3)
    assert bad.data == (STREAM[:at] + b"\xff" + STREAM[at + 1 :])[ends_of_batches()[1] :]


def test_what_comes_after_the_end_of_a_stream_is_not_lost_in_silence() -> None:
    found = read(Message("1", STREAM + STREAM, ARROW))
    assert found.column("row") == list(range(10))
    assert [(bad.reason, bad.row, bad.data) for bad in found.bad] == [("corrupt_block", 10, STREAM)]


def test_large_batches_of_a_stream_come_in_parts_that_count_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_messages, "BATCH_REPORTS", 4)
    found = read(Message("1", arrow_stream(table(WITHOUT_ID), table(WITHOUT_ID)), ARROW))
    assert [batch.num_rows for batch in found.batches] == [4, 4, 2] * 2
    assert sorted((row["row"], row["payload"]) for row in found.rows) == [(n, n % 10 / 4) for n in range(20)]
    assert {row[DELIVERY] for row in found.rows} == {b"1/%d" % n for n in range(20)}


def test_a_stream_without_columns_that_matter_has_reports() -> None:
    assert read(Message("1", arrow_stream(pa.record_batch({"x": [1, 2]})), ARROW)).column("user_id") == [
        None,
        None,
    ]


def timestamps(values: list[Any], zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp("ms", zone))


@pytest.mark.parametrize(
    "payload",
    [
        pa.array([[[1]], [[2]], None]),
        pa.array([{"a": 1}, {"a": 2}, None]),
        timestamps([2**62, -(2**62), None]),
        timestamps([0, 1, None], "Nowhere/At_All"),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_payload_of_a_type_that_no_file_has_is_no_number_and_not_missing(payload: pa.Array) -> None:
    stream = arrow_stream(pa.record_batch({"user_id": ["a", "b", "c"], "payload": payload}))
    found = read(Message("1", stream, ARROW))
    assert not found.bad
    (batch,) = found.batches
    assert batch.column("payload").type == pa.float64()
    assert batch.column("payload").null_count == payload.null_count
    # As later stages take what is bad from a batch.
    taken = batch.take(pa.array([0, 1])).to_pylist()
    assert all(row["payload"] != row["payload"] for row in taken)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_a_missing_view_that_points_anywhere_is_missing(kind: pa.DataType) -> None:
    """Arrow's full validation does not look at it, and its casts follow it."""
    views = [struct.pack("<i4sii", size, b"aaaa", 0, 0) for size in (20, -(2**31), 20)]
    buffers = [pa.py_buffer(b"\5"), pa.py_buffer(b"".join(views)), pa.py_buffer(b"a" * 20)]
    users = pa.Array.from_buffers(kind, 3, buffers)
    found = read(Message("1", arrow_stream(pa.record_batch({"user_id": users})), ARROW))
    assert found.column("user_id") == [None, b"a" * 20, b"a" * 20]
    part = pa.record_batch({"user_id": users}).slice(1)
    assert read(Message("1", arrow_stream(part), ARROW)).column("user_id") == [None, b"a" * 20]
    wrapped = pa.ExtensionArray.from_storage(pa.opaque(kind, "key", "vendor"), users)
    found = read(Message("1", arrow_stream(pa.record_batch({"user_id": wrapped})), ARROW))
    assert found.column("user_id") == [None, b"a" * 20, b"a" * 20]
    named = pa.record_batch({"user_id": pa.DictionaryArray.from_arrays(pa.array([2, 1, 0, None]), users)})
    found = read(Message("1", arrow_stream(named), ARROW))
    assert found.column("user_id") == [None, None, b"a" * 20, b"a" * 20]

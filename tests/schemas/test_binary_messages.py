"""Avro and Arrow in messages: damage costs a block or what comes after it, and nothing ends the process."""

from __future__ import annotations

import io
import struct
import uuid
from typing import Any

import pyarrow as pa
import pytest
from support.sent_messages import (
    ANN,
    AS_FIXED,
    AVRO,
    FIXED,
    NEW_YEAR,
    OBJECT,
    OWN,
    REPORT,
    SYNC,
    TEN,
    WITHOUT_ID,
    arrow,
    container,
    crc_64_avro,
    read,
    single_object,
    table,
)

from ldpbeam.schemas.files import avro_blocks, avro_headers
from ldpbeam.schemas.messages import binary as binary_messages
from ldpbeam.schemas.messages.decode import ARROW, JSON, Message
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


def test_objects_that_are_cut_cost_only_themselves() -> None:
    given = [Message(str(n), single_object(own), AVRO) for n, own in enumerate(OWN)]
    for cut in (2, 3, 7):
        given[cut] = Message(str(cut), given[cut].data[:-1], AVRO)
    found = read(*given)
    assert [(bad.message, bad.reason) for bad in found.bad] == [(given[n], "bad_message") for n in (2, 3, 7)]
    assert [(row["position"], row["payload"]) for row in found.rows] == [
        (n, n / 4) for n in (0, 1, 4, 5, 6, 8, 9)
    ]


@pytest.mark.parametrize("start", [b"\xc3\x01", b"\xc3\x01\x99", OBJECT[:9]])
def test_an_object_without_a_whole_fingerprint_has_an_unknown_schema(start: bytes) -> None:
    (bad,) = read(Message("1", start, AVRO)).bad
    assert bad.reason == "unknown_schema"


@pytest.mark.parametrize(("schema", "made"), [(REPORT, WITHOUT_ID), (FIXED, AS_FIXED)])
def test_a_corrupt_block_costs_only_itself_and_the_rows_after_it_keep_their_places(
    schema: Any, made: Any
) -> None:
    data = container(made, schema, per_block=100)
    header = avro_headers.read_header(stream := io.BytesIO(data))
    blocks = list(avro_blocks.read_blocks(stream, header, 0, len(data)))
    assert len(blocks) > 2
    second = blocks[1]
    spoilt = data.replace(second.data, second.data[:-1] + b"\xff\xff"[: 1 if schema is REPORT else 2], 1)
    if schema is REPORT:
        # A length that is longer than what is there.
        spoilt = data.replace(second.data, b"\0\xfe" + second.data[2:], 1)
    found = read(Message("4", spoilt, AVRO), Message("5", data, AVRO))
    (bad,) = found.bad
    assert (bad.message.id, bad.reason, bad.reports) == ("4", "corrupt_block", second.reports)
    assert bad.row == blocks[0].reports
    kept = [row for row in range(10) if not 0 <= row - blocks[0].reports < second.reports]
    assert sorted(row["row"] for row in found.rows if row["position"] == 4) == kept
    for row in found.rows:
        assert row["payload"] == row["row"] / 4
        assert row[DELIVERY] == b"%d/%d" % (row["position"], row["row"])


def record_schema(*kinds: Any) -> Any:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": "R", "namespace": "a.b", "fields": fields}


def crafted(schema: Any, *blocks: tuple[int, bytes]) -> bytes:
    avro_headers.write_header(stream := io.BytesIO(), schema, {}, SYNC)
    for count, data in blocks:
        avro_headers.write_block(stream, count, data, SYNC)
    return stream.getvalue()


LAUGHS = [{"type": "record", "name": "L0", "fields": []}] + [
    {"type": "record", "name": f"L{n}", "fields": [{"name": own, "type": f"L{n - 1}"} for own in "ab"]}
    for n in range(1, 30)
]
DEEP = b"\2" * 3_000_000 + b"\0"
MANY = b"\xfe\xff\xff\xff\xff\xff\x01\0"
LEVELS: Any = "long"
for level in range(300):
    LEVELS = {"type": "record", "name": f"N{level}", "fields": [{"name": "f", "type": LEVELS}]}
#: Each of these ends the process, or takes all memory, where it is read as it stands.
ENDLESS = {
    "record in itself": crafted(record_schema(["null", "R"]), (1, DEEP)),
    "record in itself, by its whole name": crafted(record_schema(["null", "a.b.R"]), (1, DEEP)),
    "record in itself, named with its namespace": crafted(
        record_schema(["null", "R"]) | {"name": "a.b.R", "namespace": "c"}, (1, DEEP)
    ),
    "record in a map in itself": crafted(
        record_schema({"type": "map", "values": "R"}), (1, b"\2\2a" * 1_000_000 + b"\0")
    ),
    "record in a record in itself": crafted(
        record_schema(record_schema(["null", "R"]) | {"name": "S"}), (1, DEEP)
    ),
    "array of nothing": crafted(record_schema({"type": "array", "items": "null"}), (1, MANY)),
    "array of an empty record": crafted(
        record_schema({"type": "array", "items": record_schema("null") | {"name": "E"}}), (1, MANY)
    ),
    "an array in an array in an array": crafted(
        record_schema(
            {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "null"}}}
        ),
        (1, b"\2\2" + MANY + b"\0\0"),
    ),
    "300 levels": crafted(LEVELS, (1, b"\2")),
    "records twice, again and again": crafted(record_schema(*LAUGHS), (1, b"")),
    "widths that overflow": crafted(
        record_schema(
            *({"type": "fixed", "name": f"F{n}", "size": n} for n in (2**31 - 1, 8)), "F2147483647"
        ),
        (1, bytes(6)),
    ),
    "width of nothing": crafted(record_schema({"type": "fixed", "name": "F", "size": 0}), (5, b"")),
    "width below nothing": crafted(
        record_schema({"type": "fixed", "name": "F", "size": -8}, "double"), (5, b"")
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_schemas_of_which_few_bytes_are_endless_are_refused(name: str) -> None:
    found = read(Message("1", ENDLESS[name], AVRO), Message("2", ANN, JSON))
    assert [bad.reason for bad in found.bad] == ["bad_message"]
    assert found.column("position") == [2]


def test_nested_records_and_maps_that_are_used_once_are_read_over() -> None:
    device = {"type": "record", "name": "Device", "fields": [{"name": "os", "type": "string"}]}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "device", "type": ["null", device]},
            {"name": "more", "type": {"type": "map", "values": ["null", "long"]}},
            {"name": "user_id", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
    data = container([{"device": {"os": "x"}, "more": {"a": 1}, "user_id": "ann"}], schema)
    assert read(Message("1", data, AVRO)).column("user_id") == [b"ann"]


def test_no_message_has_more_reports_than_bits() -> None:
    empty = record_schema()
    found = read(Message("1", crafted(empty, (10, b""), (60_000, b""), (10, b"")), AVRO))
    assert len(found.rows) == 20
    assert [(bad.reason, bad.reports, bad.row) for bad in found.bad] == [("too_many_reports", 1, 10)]
    found = read(Message("1", crafted(empty, *[(48, b"")] * 30), AVRO))
    assert len(found.rows) == 30 * 48
    broken = crafted(empty, (10, b"")) + b"\x80\x80\x7f" + b"\x04ab" + bytes(16)
    (bad,) = read(Message("1", broken, AVRO)).bad
    assert (bad.reports, "the file ends inside a block" in bad.problem) == (1, True)
    nulls = pa.record_batch({"user_id": pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])})
    (bad,) = read(Message("1", arrow(nulls), ARROW)).bad
    assert (bad.reason, bad.reports, bad.row) == ("too_many_reports", 1, 0)


PARTS = [table(WITHOUT_ID).slice(at, 3) for at in range(0, 10, 3)]
STREAM = arrow(*PARTS)


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
    found = read(Message("1", arrow(table(WITHOUT_ID), table(WITHOUT_ID)), ARROW))
    assert [batch.num_rows for batch in found.batches] == [4, 4, 2] * 2
    assert sorted((row["row"], row["payload"]) for row in found.rows) == [(n, n % 10 / 4) for n in range(20)]
    assert {row[DELIVERY] for row in found.rows} == {b"1/%d" % n for n in range(20)}


def test_a_stream_without_batches_rows_or_columns_that_matter_is_no_problem() -> None:
    assert read(Message("1", arrow(table(TEN).slice(0, 0)), ARROW)) == ([], [])
    assert read(Message("1", arrow(pa.record_batch({"x": [1, 2]})), ARROW)).column("user_id") == [None, None]


def timestamps(values: list[Any], zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp("ms", zone))


@pytest.mark.parametrize(
    "payload",
    [
        pa.array([[1], [2], None]),
        pa.array([{"a": 1}, {"a": 2}, None]),
        timestamps([2**62, -(2**62), None]),
        timestamps([0, 1, None], "Nowhere/At_All"),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_payload_of_a_type_that_no_file_has_is_no_number_and_not_missing(payload: pa.Array) -> None:
    stream = arrow(pa.record_batch({"user_id": ["a", "b", "c"], "payload": payload}))
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
    found = read(Message("1", arrow(pa.record_batch({"user_id": users})), ARROW))
    assert found.column("user_id") == [None, b"a" * 20, b"a" * 20]
    part = pa.record_batch({"user_id": users}).slice(1)
    assert read(Message("1", arrow(part), ARROW)).column("user_id") == [None, b"a" * 20]
    wrapped = pa.ExtensionArray.from_storage(pa.opaque(kind, "key", "vendor"), users)
    found = read(Message("1", arrow(pa.record_batch({"user_id": wrapped})), ARROW))
    assert found.column("user_id") == [None, b"a" * 20, b"a" * 20]
    named = pa.record_batch({"user_id": pa.DictionaryArray.from_arrays(pa.array([2, 1, 0, None]), users)})
    found = read(Message("1", arrow(named), ARROW))
    assert found.column("user_id") == [None, None, b"a" * 20, b"a" * 20]

"""Pub/Sub messages: the same reports in every content type, and what is bad costs only itself."""

from __future__ import annotations

import io
import json
import re
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.schemas import avro, binary_messages, containers, messages
from ldpbeam.schemas.messages import ARROW, JSON, KNOWN, LINES, BadMessage, Message, decode_messages
from ldpbeam.schemas.reports import ATTRIBUTE_KEY, SERVICE_KEY, Columns

AVRO = "application/avro"
NEW_YEAR = 1_767_225_600_000
SYNC = bytes(range(100, 116))
REPORT = avro.schema("report")
WANTED = Columns(extras=("app",))
REPORTS = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")


class Found(NamedTuple):
    batches: list[pa.RecordBatch]
    bad: list[BadMessage]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All reports, with what the schema says of their whole batch, by user."""
        constants = [
            {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
            for batch in self.batches
        ]
        pairs = zip(constants, self.batches, strict=True)
        rows = [own | row for own, batch in pairs for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: (row["user_id"] or b"", row["report_id"]))

    def column(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]


def read(*given: Message, wanted: Columns = WANTED, **options: Any) -> Found:
    found = Found([], [])
    for item in decode_messages(given, wanted, **options):
        if isinstance(item, BadMessage):
            assert item.reports >= 1
            assert item.problem
            found.bad.append(item)
        else:
            item.validate(full=True)
            assert item.num_rows
            assert item.schema.field("position").type == item.schema.field("row").type == pa.int64()
            assert item.column("report_id").null_count == 0
            names = item.schema.names
            assert names == [name for name in (*wanted.names, "position", "row") if name in names]
            found.batches.append(item)
    return found


def line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode()


def lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(line(record) + b"\n" for record in records)


def container(
    records: Iterable[Any],
    schema: Any = REPORT,
    metadata: Mapping[str, str] | None = None,
    per_block: int = 16_000,
) -> bytes:
    stream = io.BytesIO()
    said = dict(metadata or {})
    fastavro.writer(stream, schema, records, metadata=said, sync_interval=per_block, sync_marker=SYNC)
    return stream.getvalue()


def single_object(record: Any, schema: Any = REPORT) -> bytes:
    fastavro.schemaless_writer(stream := io.BytesIO(), schema, record)
    return b"\xc3\x01" + crc_64_avro(schema) + stream.getvalue()


def crc_64_avro(schema: Any) -> bytes:
    """The fingerprint as the Avro specification's pseudocode has it, in the order of bytes of a message."""
    value = empty = 0xC15D213AA4D7A795
    for byte in fastavro.schema.to_parsing_canonical_form(schema).encode():
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (empty & -(value & 1))
    return value.to_bytes(8, "little")


def arrow(*batches: pa.RecordBatch, **options: Any) -> bytes:
    stream = io.BytesIO()
    written = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(stream, batches[0].schema, options=written) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return stream.getvalue()


def table(records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(record) for record in records])


def fixed(count: int, metadata: Mapping[str, str] | None = None, per_block: int = 16_384) -> bytes:
    """The same reports as :func:`records`, in fields of fixed width."""
    schema = avro.fixed_report_schema({"user_id": 16, "report_id": 16})
    rows = [
        (uuid.UUID(r["user_id"]).bytes, r["event_time"], r["payload"], uuid.UUID(r["report_id"]).bytes)
        for r in records(count)
    ]
    stream = io.BytesIO()
    data = np.array(rows, avro.fixed_dtype(schema))
    avro.write_fixed(stream, data, schema, metadata or {}, SYNC, per_block)
    return stream.getvalue()


def records(count: int) -> list[dict[str, Any]]:
    return [
        {
            "user_id": str(uuid.UUID(int=2**100 + number)),
            "event_time": NEW_YEAR + number,
            "payload": number / 4,
            "report_id": str(uuid.UUID(int=7 * number + 1)),
        }
        for number in range(count)
    ]


MAPS = {"attribute": "minutes", "service": "maps"}
SAID = {ATTRIBUTE_KEY: "minutes", SERVICE_KEY: "maps"}
TEN = records(10)
OWN = [record | MAPS for record in TEN]
EVERY_KIND: dict[str, list[tuple[bytes, str]]] = {
    "json": [(line(record), JSON) for record in OWN],
    "lines": [(lines(OWN), LINES)],
    "objects": [(single_object(record), AVRO) for record in OWN],
    "container": [(container(OWN), "avro/binary")],
    "container of small blocks": [(container(OWN, per_block=1), AVRO)],
    "container that says it once": [(container(TEN, metadata=SAID), AVRO)],
    "fixed width": [(fixed(10, SAID), AVRO)],
    "fixed width, small blocks": [(fixed(10, SAID, per_block=3), AVRO)],
    "stream": [(arrow(table(OWN)), ARROW)],
    "stream that says it once": [(arrow(table(TEN).replace_schema_metadata(SAID)), ARROW)],
    "stream of parts": [(arrow(*(table(OWN).slice(at, 3) for at in range(0, 10, 3))), ARROW)],
    "compressed stream": [(arrow(table(OWN), compression="zstd"), ARROW)],
}


def sent(kind: str, first_id: int = 1000) -> list[Message]:
    return [
        Message(str(first_id + number), data, content_type)
        for number, (data, content_type) in enumerate(EVERY_KIND[kind])
    ]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_same_reports_are_the_same_columns_whatever_the_content_type(kind: str) -> None:
    found = read(*sent(kind))
    assert not found.bad
    expected = [
        {
            **MAPS,
            "user_id": uuid.UUID(record["user_id"]).bytes,
            "event_time": record["event_time"],
            "report_id": uuid.UUID(record["report_id"]).bytes,
            "payload": record["payload"],
        }
        for record in TEN
    ]
    assert [{name: row[name] for name in expected[0]} for row in found.rows] == expected
    types = {
        "user_id": pa.binary(),
        "event_time": pa.int64(),
        "report_id": pa.binary(),
        "payload": pa.float64(),
    }
    for batch in found.batches:
        assert {name: batch.schema.field(name).type for name in types} == types
    single = len(EVERY_KIND[kind]) > 1
    places = [(1000 + number, 0) if single else (1000, number) for number in range(10)]
    assert [(row["position"], row["row"]) for row in found.rows] == places


WITHOUT_ID = [{name: value for name, value in record.items() if name != "report_id"} for record in TEN]
FIXED = avro.fixed_report_schema({"user_id": 16})
AS_FIXED = [record | {"user_id": uuid.UUID(record["user_id"]).bytes} for record in WITHOUT_ID]
BATCHES = {
    "lines": (lines(WITHOUT_ID), LINES),
    "container": (container(WITHOUT_ID), AVRO),
    "container of small blocks": (container(WITHOUT_ID, per_block=1), AVRO),
    "fixed width": (container(AS_FIXED, FIXED), AVRO),
    "fixed width, small blocks": (container(AS_FIXED, FIXED, per_block=100), AVRO),
    "stream": (arrow(table(WITHOUT_ID)), ARROW),
    "stream of parts": (arrow(*(table(WITHOUT_ID).slice(at, 3) for at in range(0, 10, 3))), ARROW),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_reports_of_a_batch_without_an_id_have_their_messages_and_their_row(kind: str) -> None:
    found = read(Message("12", *BATCHES[kind]), Message("x-13", *BATCHES[kind]))
    expected = [(b"12/%d" % row, 12, row) for row in range(10)] + [
        (b"x-13/%d" % row, None, row) for row in range(10)
    ]
    assert sorted((row["report_id"], row["position"], row["row"]) for row in found.rows) == sorted(
        expected, key=lambda own: own[0]
    )
    assert found.column("payload") == [number / 4 for number in range(10) for _ in range(2)]


@pytest.mark.parametrize(("encode", "content_type"), [(line, JSON), (single_object, AVRO)])
def test_a_single_report_without_an_id_has_its_messages(encode: Any, content_type: str) -> None:
    ids = ["0", "12", "9223372036854775807", "9223372036854775808", "1" * 30, "-5", "1.5", "٣", "", "aé"]
    given = [Message(own, encode(record), content_type) for own, record in zip(ids, WITHOUT_ID, strict=True)]
    found = read(*given)
    assert found.column("report_id") == [own.encode() for own in ids]
    assert found.column("position") == [0, 12, 2**63 - 1] + [None] * 7
    assert found.column("row") == [0] * 10


def test_a_report_keeps_its_own_id_among_others_that_have_none() -> None:
    mixed = [{"user_id": "a", "report_id": "own"}, {"user_id": "b"}, {"user_id": "c", "report_id": ""}]
    assert read(Message("7", lines(mixed), LINES)).column("report_id") == [b"own", b"7/1", b"7/2"]
    singles = read(*(Message(str(n), line(record), JSON) for n, record in enumerate(mixed)))
    assert singles.column("report_id") == [b"own", b"1", b"2"]
    stream = arrow(table([record | {"report_id": record.get("report_id")} for record in mixed]))
    assert read(Message("7", stream, ARROW)).column("report_id") == [b"own", b"7/1", b"7/2"]


def everything() -> list[Message]:
    """One message of each kind, and some that are bad."""
    given = [message for number, kind in enumerate(EVERY_KIND) for message in sent(kind, 100 * number)]
    given += [Message(f"b{number}", *own) for number, own in enumerate(BATCHES.values())]
    return given + [Message("bad", b"{", JSON), Message("worse", b"Obj\1", AVRO), Message("", b"", "")]


def test_a_mixture_in_one_call_is_what_each_message_is_by_itself() -> None:
    together = read(*everything())
    assert len(together.rows) == 10 * (len(EVERY_KIND) + len(BATCHES))
    alone = [read(message) for message in everything()]
    rows = [row for found in alone for row in found.rows]
    assert sorted(map(repr, rows)) == sorted(map(repr, together.rows))
    assert sorted(map(repr, together.bad)) == sorted(repr(bad) for found in alone for bad in found.bad)


def test_messages_that_are_delivered_again_give_identical_batches() -> None:
    first, again = read(*everything()), read(*everything())
    assert first.bad == again.bad
    assert len(first.batches) == len(again.batches)
    for batch, other in zip(first.batches, again.batches, strict=True):
        assert batch.equals(other, check_metadata=True)


def test_single_reports_are_decoded_together_by_what_they_have_of_text() -> None:
    """Reports of several mechanisms come in turn, and do not make one column."""
    kinds = [{"payload": 0.5}, {"payload": "00a0ff"}, {"payload": 3, "event_time": "2026-01-01T00:00:00Z"}]
    given = [
        Message(str(n), line({"user_id": f"u{n:04}", "event_time": NEW_YEAR} | kinds[n % 3]), JSON)
        for n in range(3000)
    ]
    found = read(*given)
    assert len(found.batches) == 3
    assert found.column("payload")[:6] == [0.5, "00a0ff", 3, 0.5, "00a0ff", 3]
    assert set(found.column("event_time")) == {NEW_YEAR}
    assert found.column("position") == list(range(3000))


def test_many_messages_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "CHUNK_BYTES", 500)
    found = read(*(Message(str(n), line({"user_id": f"u{n:03}", "payload": n}), JSON) for n in range(100)))
    assert 5 < len(found.batches) < 20
    assert found.column("position") == found.column("payload") == list(range(100))


@pytest.mark.parametrize("encode", [lambda r: (line(r), JSON), lambda r: (lines([r]), LINES)])
def test_payloads_in_hexadecimal_digits_are_text(encode: Any) -> None:
    found = read(*(Message(str(n), *encode({"user_id": f"u{n}", "payload": f"0{n}fF"})) for n in range(3)))
    (batch,) = found.batches
    assert batch.column("payload").type == pa.string()
    assert found.column("payload") == ["00fF", "01fF", "02fF"]


def test_payloads_of_bytes_are_bytes_and_stand_apart_from_numbers() -> None:
    mixed = [{"user_id": f"u{n}", "payload": b"\0\1\2" if n % 2 else n / 2} for n in range(6)]
    expected = [0.0, b"\0\1\2", 1.0, b"\0\1\2", 2.0, b"\0\1\2"]
    for own in (
        [Message(str(n), single_object(record), AVRO) for n, record in enumerate(mixed)],
        [Message("1", container(mixed), AVRO)],
    ):
        found = read(*own)
        assert found.column("payload") == expected
        if len(own) > 1:
            assert found.column("position") == list(range(6))
        assert {batch.column("payload").type for batch in found.batches} == {pa.float64(), pa.binary()}
    for kind in (pa.binary(), pa.binary(3), pa.large_binary(), pa.binary_view()):
        batch = pa.record_batch({"user_id": ["a", "b"], "payload": pa.array([b"abc", b"\0\1\2"], kind)})
        assert read(Message("1", arrow(batch), ARROW)).column("payload") == [b"abc", b"\0\1\2"]


def test_fields_that_the_study_looks_at_are_read_and_others_are_not() -> None:
    more = {"user_id": "ann", "app": "2.0", "colour": {"red": [1]}}
    plain = {"user_id": "ann", "app": "2.0", "colour": "red"}
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "string"} for name in plain]}
    for own in (
        Message("1", line(more), JSON),
        Message("1", lines([more]), LINES),
        Message("1", container([plain], schema), AVRO),
        Message("1", arrow(table([more])), ARROW),
    ):
        (row,) = read(own).rows
        assert row["app"] == "2.0"
        assert "colour" not in row
        (row,) = read(own, wanted=Columns()).rows
        assert "app" not in row


def test_a_reports_own_service_comes_before_its_messages_and_that_before_the_given_one() -> None:
    wanted = Columns("given", "given")
    both = [{"user_id": "a", "service": "own"}, {"user_id": "b"}]
    assert read(*(Message(r["user_id"], line(r), JSON) for r in both), wanted=wanted).column("service") == [
        "own",
        "given",
    ]
    stream = arrow(
        pa.record_batch({"user_id": ["a", "b"], "service": ["own", None]}).replace_schema_metadata(SAID)
    )
    (one, other) = read(Message("1", stream, ARROW), wanted=wanted).rows
    assert (one["service"], other["service"], one["attribute"]) == ("own", "maps", "minutes")
    nothing = container([{"user_id": "a", "payload": 1}], metadata={SERVICE_KEY: "maps"})
    (row,) = read(Message("1", nothing, AVRO), wanted=wanted).rows
    assert (row["service"], row["attribute"]) == ("maps", "given")


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", " application/json ;x=y", ""]
)
def test_a_content_type_is_known_whatever_its_case_and_parameters(content_type: str) -> None:
    assert len(read(Message("1", b' \r\n\t{"user_id": "ann"}\n', content_type)).rows) == 1


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("text/plain", b'{"user_id": "ann"}'),
        ("application/jsonx", b'{"user_id": "ann"}'),
        ("json", b"{}"),
        ("", b'[{"user_id": "ann"}]'),
        ("", container(TEN)),
        ("", b""),
        (";", b"\0"),
    ],
)
def test_other_content_types_are_named_with_those_that_are_known(content_type: str, data: bytes) -> None:
    message = Message("1", data, content_type)
    found = read(message, Message("2", b"{}", JSON))
    (bad,) = found.bad
    assert (bad.message, bad.reports, bad.reason, bad.data) == (message, 1, "unknown_content_type", data)
    assert all(known in bad.problem for known in (*KNOWN, content_type.strip(";")))
    assert found.column("position") == [2]


ANN = b'{"user_id": "ann", "payload": 0.5}'
PRETTY = json.dumps({"user_id": "ann", "payload": 0.5, "x": {"y": [1, 2]}}, indent=2).encode()


@pytest.mark.parametrize(
    "data",
    [
        PRETTY,
        PRETTY.replace(b"\n", b"\r\n"),
        ANN + b"\r\n",
        b"\n\n" + ANN,
        b"\xef\xbb\xbf" + ANN,
        b"\t" + PRETTY + b" \n",
    ],
)
def test_a_report_may_be_written_on_several_lines(data: bytes) -> None:
    found = read(Message("1", data, JSON), Message("2", ANN, JSON), Message("3", data, JSON))
    assert not found.bad
    assert [(row["user_id"], row["payload"], row["row"]) for row in found.rows] == [(b"ann", 0.5, 0)] * 3
    assert sorted(found.column("position")) == [1, 2, 3]


NO_REPORT = {
    "array": b"[" + ANN + b"]",
    "two lines": ANN + b"\n" + ANN,
    "two on one line": ANN + ANN,
    "two, the second cut": ANN + b"\n" + ANN[:-1],
    "line's end in text": b'{"user_id": "a\nnn"}',
    "cut": PRETTY[:-1],
    "empty": b"",
    "blank": b" \n\r\t ",
    "blank, one line": b"  \t",
    "number": b"5",
    "null": b"null",
    "not UTF-8": b'{"user_id": "\xff"}',
    "not UTF-8 on two lines": b'{"user_id":\n"\xff"}',
    "UTF-16": ANN.decode().encode("utf-16"),
    "UTF-16 on several lines": PRETTY.decode().encode("utf-16"),
    "nested": b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "nested on two lines": b'{"user_id":\n' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "two marks": b"\xef\xbb\xbf\xef\xbb\xbf" + ANN,
}


@pytest.mark.parametrize("place", [0, 5, 9])
@pytest.mark.parametrize("name", NO_REPORT)
def test_a_message_that_is_no_json_object_costs_only_itself(name: str, place: int) -> None:
    given = [Message(str(n), ANN, JSON) for n in range(9)]
    # Deep text in a field that nobody looks at is read over, unless it has to be looked for.
    bad_one = Message("99", NO_REPORT[name], JSON)
    given.insert(place, bad_one)
    found = read(*given)
    if name == "nested":
        assert len(found.rows) + len(found.bad) == 10
        return
    (bad,) = found.bad
    assert (bad.message, bad.reports, bad.reason, bad.row) == (bad_one, 1, "not_json", 0)
    assert bad.data.strip() == bad_one.data.removeprefix(b"\xef\xbb\xbf").strip() or bad.data == bad_one.data
    assert sorted(found.column("position")) == list(range(9))


def test_bad_lines_of_a_batch_have_the_number_of_their_line() -> None:
    text = b"\n" + ANN + b"\r\n \t \nnull\n\n" + ANN + b"\n{"
    given = [Message("5", ANN + b"\n" + ANN, LINES), Message("6", text, LINES), Message("7", ANN, LINES)]
    found = read(*given)
    places = sorted((row["position"], row["row"], row["report_id"]) for row in found.rows)
    assert places == [(5, 0, b"5/0"), (5, 1, b"5/1"), (6, 1, b"6/1"), (6, 5, b"6/5"), (7, 0, b"7/0")]
    assert [(bad.message.id, bad.row, bad.data, bad.reason) for bad in found.bad] == [
        ("6", 3, b"null", "not_json"),
        ("6", 6, b"{", "not_json"),
    ]


def test_a_byte_order_mark_is_no_part_of_a_messages_first_line() -> None:
    marked = b"\xef\xbb\xbf" + ANN + b"\n" + ANN
    found = read(Message("1", marked, LINES), Message("2", marked, LINES))
    assert not found.bad
    assert found.column("report_id") == [b"1/0", b"1/1", b"2/0", b"2/1"]


@pytest.mark.parametrize("data", [b"", b"\n", b"\n \r\n"])
def test_a_batch_of_no_lines_has_no_reports(data: bytes) -> None:
    assert read(Message("1", data, LINES)) == ([], [])
    assert read(Message("1", data, LINES), Message("2", ANN, LINES)).column("position") == [2]


def test_the_documents_single_object_is_its_first_report() -> None:
    (sample,) = re.findall(r"^  `(c301[0-9a-f]{20,})`\.$", REPORTS, flags=re.MULTILINE)
    (own,) = re.findall(r'^(\{"user_id": "u1".*?"payload": 0\.73\})$', REPORTS, flags=re.MULTILINE)
    assert f"`{crc_64_avro(REPORT).hex()}`" in REPORTS
    found = read(Message("1", bytes.fromhex(sample), AVRO), Message("1", own.encode(), JSON))
    assert not found.bad
    one, other = found.rows
    assert one == other
    assert bytes.fromhex(sample)[2:10] == crc_64_avro(REPORT)


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


def test_single_objects_of_other_schemas_are_read_where_these_are_given() -> None:
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
    found = read(*given, writer_schemas=[THINNER])
    assert not found.bad
    thin = {row["position"]: row for row in found.rows}[1]
    assert [thin[name] for name in record] == [b"ann", NEW_YEAR, 3, "2.0"]


OBJECT = single_object(OWN[0])
CONTAINER = container(OWN, per_block=200)
#: What is not what its content type says, and why it is refused.
BAD_MESSAGES = {
    "object cut": (OBJECT[:-1], AVRO, "EOFError"),
    "object without a record": (OBJECT[:10], AVRO, "EOFError"),
    "object and more": (OBJECT + b"\0", AVRO, "bytes are left"),
    "object of an unknown branch": (OBJECT[:10] + b"\x08", AVRO, "IndexError"),
    "bare record": (OBJECT[10:], AVRO, "no Avro header"),
    "no header": (b"Obj\1", AVRO, "no Avro header"),
    "empty": (b"", AVRO, "no Avro header"),
    "json": (ANN, AVRO, "no Avro header"),
    "no stream": (b"", ARROW, "no Arrow stream"),
    "noise": (b"\xff" * 50, ARROW, "no Arrow stream"),
    "file": (b"ARROW1\0\0" + arrow(table(OWN)), ARROW, "no Arrow stream"),
    "stream cut in its schema": (arrow(table(OWN))[:60], ARROW, "no Arrow stream"),
    "columns twice": (
        arrow(pa.RecordBatch.from_arrays([pa.array(["a"])] * 2, names=["user_id", "user_id"])),
        ARROW,
        "columns stand twice: user_id",
    ),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_a_message_that_is_not_what_it_says_is_bad_as_a_whole(name: str) -> None:
    data, content_type, says = BAD_MESSAGES[name]
    message = Message("1", data, content_type)
    found = read(message, Message("2", OBJECT, AVRO), Message("3", ANN, JSON))
    (bad,) = found.bad
    assert (bad.message, bad.reports, bad.reason, bad.data) == (message, 1, "bad_message", data)
    assert says in bad.problem
    assert sorted(found.column("position")) == [2, 3]


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
    header = containers.read_header(stream := io.BytesIO(data))
    blocks = list(containers.read_blocks(stream, header, 0, len(data)))
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
        assert row["report_id"] == b"%d/%d" % (row["position"], row["row"])


def test_a_truncated_container_gives_its_whole_blocks() -> None:
    found = read(Message("1", CONTAINER[:-20], AVRO))
    assert 0 < len(found.rows) < 10
    assert [bad.reason for bad in found.bad] == ["corrupt_block"]
    assert found.bad[0].row == len(found.rows)
    assert len(found.rows) + found.bad[0].reports == 10


def record_schema(*kinds: Any) -> Any:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": "R", "namespace": "a.b", "fields": fields}


def crafted(schema: Any, *blocks: tuple[int, bytes]) -> bytes:
    containers.write_header(stream := io.BytesIO(), schema, {}, SYNC)
    for count, data in blocks:
        containers.write_block(stream, count, data, SYNC)
    return stream.getvalue()


LAUGHS = [{"type": "record", "name": "L0", "fields": []}] + [
    {"type": "record", "name": f"L{n}", "fields": [{"name": own, "type": f"L{n - 1}"} for own in "ab"]}
    for n in range(1, 30)
]
DEEP = b"\2" * 3_000_000 + b"\0"
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
    "array of nothing": crafted(
        record_schema({"type": "array", "items": "null"}), (1, b"\xfe\xff\xff\xff\xff\xff\x01\0")
    ),
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
    assert [(bad.reason, bad.reports, bad.row) for bad in found.bad] == [("corrupt_block", 1, 10)]
    found = read(Message("1", crafted(empty, *[(300, b"")] * 30), AVRO))
    assert 1000 < len(found.rows) < 9000
    assert {bad.reports for bad in found.bad} == {1}
    broken = crafted(empty, (10, b"")) + b"\x80\x80\x7f" + b"\x04ab" + bytes(16)
    (bad,) = read(Message("1", broken, AVRO)).bad
    assert (bad.reports, "the file ends inside a block" in bad.problem) == (1, True)
    nulls = pa.record_batch({"user_id": pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])})
    (bad,) = read(Message("1", arrow(nulls), ARROW)).bad
    assert (bad.reason, bad.reports, bad.row) == ("corrupt_block", 1, 0)


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
        assert (bad.reason, bad.row, bad.data) == (
            "corrupt_block",
            min(3 * whole, 10),
            STREAM[ends[whole] : kept],
        )


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
    assert {row["report_id"] for row in found.rows} == {b"1/%d" % n for n in range(20)}


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
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_payload_of_a_type_that_no_file_has_is_no_number_and_not_missing(payload: pa.Array) -> None:
    stream = arrow(pa.record_batch({"user_id": ["a", "b", "c"], "payload": payload}))
    found = read(Message("1", stream, ARROW))
    assert not found.bad
    (batch,) = found.batches
    assert batch.column("payload").type == pa.float64()
    # As later stages take what is bad from a batch.
    taken = batch.take(pa.array([0, 1])).to_pylist()
    assert all(row["payload"] != row["payload"] for row in taken)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_a_missing_view_that_points_anywhere_is_missing(kind: pa.DataType) -> None:
    """Arrow's full validation does not look at it, and its casts follow it."""
    views = [struct.pack("<i4sii", size, b"aaaa", 0, 0) for size in (20, 2**30, 20)]
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


def test_bytes_that_defeat_a_decoder_cost_only_their_message(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = messages.decode_lines

    def decode_lines(position: int, text: bytes, wanted: Columns) -> Any:
        if b"poison" in text:
            raise RuntimeError("defeated")
        yield from plain(position, text, wanted)

    monkeypatch.setattr(messages, "decode_lines", decode_lines)
    poison = Message("99", b'{"user_id": "poison"}', JSON)
    found = read(
        *(Message(str(n), ANN, JSON) for n in range(5)), poison, *(Message(str(n), ANN, JSON) for n in (5, 6))
    )
    assert [(bad.message, bad.reason, bad.problem) for bad in found.bad] == [
        (poison, "bad_message", "defeated")
    ]
    assert sorted(found.column("position")) == list(range(7))


VALID = [(data, kind) for own in (*EVERY_KIND.values(), list(BATCHES.values())) for data, kind in own[:2]]
VALID += [(arrow(table(OWN), table(OWN), compression="lz4"), ARROW), (PRETTY, "")]
VALID += [
    (
        arrow(
            pa.record_batch({"user_id": pa.array(["a", "b"]).dictionary_encode(), "payload": [b"x", None]})
        ),
        ARROW,
    ),
    (
        arrow(pa.record_batch({"user_id": pa.array(["a" * 20, None], pa.string_view()), "app": [[1], []]})),
        ARROW,
    ),
]


@st.composite
def damaged(draw: st.DrawFn) -> Message:
    """A message of some kind whose bytes are cut, changed in places, or any."""
    data, content_type = draw(st.sampled_from(VALID))
    data = draw(
        st.one_of(st.just(data), st.binary(max_size=60), st.binary(max_size=30).map(lambda more: data + more))
    )
    spoilt = bytearray(data)
    for _ in range(draw(st.integers(0, 4)) if data else 0):
        at = draw(st.integers(0, len(spoilt) - 1))
        spoilt[at] = draw(st.one_of(st.sampled_from([0, 1, 2, 127, 128, 255]), st.integers(0, 255)))
    cut = draw(st.one_of(st.just(len(spoilt)), st.integers(0, len(spoilt))))
    if draw(st.integers(0, 9)) == 0:
        content_type = draw(st.sampled_from([*KNOWN, "", "x"]))
    return Message(draw(st.sampled_from(["1", "22", "x"])), bytes(spoilt[:cut]), content_type)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(given=st.lists(damaged(), max_size=4))
def test_no_bytes_raise_an_error_or_cost_another_message(given: list[Message]) -> None:
    healthy = [
        Message("777", ANN, JSON),
        Message("778", OBJECT, AVRO),
        Message("779", lines([OWN[0]]), LINES),
    ]
    found = read(*given, *healthy)
    assert sum(row["position"] in (777, 778, 779) for row in found.rows) == 3
    assert not {bad.message for bad in found.bad} & set(healthy)
    rows = {message.id: 0 for message in given}
    for row in found.rows:
        if row["position"] in (1, 22, None):
            rows["x" if row["position"] is None else str(row["position"])] += 1
    for message in given:
        # A message of one report is that report or a bad message, and never neither.
        own = [other for other in given if other.id == message.id]
        if all(other.content_type == JSON for other in own):
            assert rows[message.id] + sum(bad.message.id == message.id for bad in found.bad) == len(own)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_flipped_bits_of_a_stream_end_the_process(seed: int) -> None:
    source = np.random.default_rng(seed)
    streams = [data for data, kind in VALID if kind == ARROW]
    refused = 0
    for number in range(4000):
        spoilt = bytearray(streams[number % len(streams)])
        for at in source.integers(0, len(spoilt), source.integers(1, 4)):
            spoilt[at] ^= 1 << int(source.integers(8))
        refused += bool(read(Message("1", bytes(spoilt), ARROW)).bad)
    assert 400 < refused < 3600

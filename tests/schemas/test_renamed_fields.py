"""Reports whose fields have other names: in every format they decode to what ours decode to."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.encoded import arrow_stream, avro_file, parquet_file
from support.sent_messages import line

from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.encodings.avro_blocks import read_blocks
from ldpbeam.schemas.encodings.avro_headers import read_header
from ldpbeam.schemas.files import parquet
from ldpbeam.schemas.files.json_lines import decode_lines
from ldpbeam.schemas.messages.decode import ARROW, JSON, Message, decode_messages
from ldpbeam.schemas.reports import fields
from ldpbeam.schemas.reports.columns import LETTERS_KEY, NEAR, RECORD, Columns

RENAMED = {
    "user_id": "uid", "attribute": "question", "service": "source", "event_time": "ts",
    "report_id": "event_time", "payload": "user_id", "app": "colour",
}  # fmt: skip
OURS = Columns(extras=("app",))
THEIRS = replace(OURS, renamed=tuple(RENAMED.items()))
RECORDS: list[dict[str, Any]] = [
    {
        "user_id": f"user {number}", "attribute": "minutes", "service": ["maps", "taxi"][number % 2],
        "event_time": 1_767_225_600_000 + number, "report_id": f"r{number}", "payload": number / 4,
        "app": "red",
    }
    for number in range(6)
]  # fmt: skip
#: Payloads and times of several types, so that records are read one by one.
MIXED: list[dict[str, Any]] = [
    *RECORDS,
    {**RECORDS[0], "user_id": "text", "payload": "ab01", "event_time": "2026-11-20T10:00:00Z"},
    {**RECORDS[1], "user_id": "nested", "payload": [1], "app": {"a": 1}},
    {**RECORDS[2], "user_id": "large", "payload": 2**70, "event_time": 2**70},
]
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
TYPES: dict[str, Any] = {
    **dict.fromkeys(RECORDS[0], "string"),
    "event_time": MICROS,
    "payload": ["double", "string", {"type": "array", "items": "int"}],
}

Record = dict[str, Any]


def theirs(records: Iterable[Record]) -> list[Record]:
    """The same records as somebody else names their fields, with ``payload`` for something else."""
    return [{**{RENAMED[name]: value for name, value in own.items()}, "payload": "other"} for own in records]


def of_lines(records: list[Record], wanted: Columns) -> Iterable[Any]:
    return decode_lines(0, b"".join(json.dumps(own).encode() + b"\n" for own in records), wanted)


def of_parquet(records: list[Record], wanted: Columns) -> Iterable[Any]:
    stream = io.BytesIO(parquet_file(pa.Table.from_pylist(records)))
    return parquet.decode_row_group(stream, parquet.read_footer(stream), 0, wanted)


def of_avro(data: bytes, wanted: Columns) -> Iterable[Any]:
    stream = io.BytesIO(data)
    header = read_header(stream)
    return avro.decode_blocks(header, read_blocks(stream, header, 0, len(data)), wanted)


def of_avro_records(records: list[Record], wanted: Columns) -> Iterable[Any]:
    kinds: dict[str, Any] = dict.fromkeys(records[0], "string")
    kinds |= {field: TYPES[name] for name, field in wanted.fields.items() if field in kinds}
    parts = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return of_avro(avro_file({"type": "record", "name": "R", "fields": parts}, records), wanted)


def of_messages(records: list[Record], wanted: Columns) -> Iterable[Any]:
    return decode_messages([Message(str(at), line(own), JSON) for at, own in enumerate(records)], wanted)


def of_arrow(records: list[Record], wanted: Columns) -> Iterable[Any]:
    return decode_messages([Message("7", arrow_stream(pa.RecordBatch.from_pylist(records)), ARROW)], wanted)


WAYS: dict[str, tuple[list[Record], Callable[[list[Record], Columns], Iterable[Any]]]] = {
    "lines": (RECORDS, of_lines),
    "mixed lines": (MIXED, of_lines),
    "parquet": (RECORDS, of_parquet),
    "avro": (RECORDS, of_avro_records),
    "mixed avro": ([{**RECORDS[0], "payload": own} for own in (0.5, "ab", [1, 2])], of_avro_records),
    "messages": (MIXED, of_messages),
    "arrow": (RECORDS, of_arrow),
}


def found(batches: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Each row with the types of its columns.

    Where a report stands, and the most letters that its batch may have, depend on the lengths of names.
    """
    rows = []
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch), batch
        own = batch.drop_columns(["position"])
        own = own.replace_schema_metadata({**(own.schema.metadata or {}), LETTERS_KEY.encode(): b""})
        rows += [(str(own.schema), repr(row)) for row in own.to_pylist()]
    return sorted(rows)


@pytest.mark.parametrize("way", WAYS)
def test_renamed_fields_decode_to_the_same_batches(way: str) -> None:
    records, decode = WAYS[way]
    expected = found(decode(records, OURS))
    assert len(expected) == len(records)
    assert found(decode(theirs(records), THEIRS)) == expected


@pytest.mark.parametrize("way", WAYS)
def test_user_ids_of_reports_without_users_are_in_no_batch(way: str) -> None:
    records, decode = WAYS[way]

    def rows(users: tuple[str, ...] | None, **instead: Any) -> list[str]:
        batches = decode(records, replace(OURS, users=users))
        return sorted(repr({**row, **instead}) for batch in batches for row in batch.to_pylist())

    expected = rows(None, user_id=None)
    assert not any("user_id" in batch.schema.names for batch in decode(records, replace(OURS, users=())))
    assert sorted(row.replace("{", "{'user_id': None, ", 1) for row in rows(())) == expected
    assert rows(("colour",)) == expected
    assert rows(("colour", "minutes")) == rows(None)


def test_a_name_need_not_be_ascii() -> None:
    wanted = Columns(renamed=(("user_id", "_größe"), ("payload", "a.b")))
    for text in ('{"_größe": "ann", "a.b": 0.5}', '{"_gr\\u00f6\\u00dfe": "ann", "a.b": 0.5}'):
        (batch,) = decode_lines(0, text.encode(), wanted)
        assert [(row["user_id"], row["payload"]) for row in batch.to_pylist()] == [(b"ann", 0.5)]


@pytest.mark.parametrize("way", ["lines", "parquet", "avro", "arrow", "messages"])
def test_a_hint_names_the_fields_of_the_input(way: str) -> None:
    records, decode = WAYS[way]
    misspelt = [
        {{"uid": "uids"}.get(name, name): value for name, value in own.items()} for own in theirs(records)
    ]
    hints = {text for batch in decode(misspelt, THEIRS) for text in batch.column(NEAR).to_pylist()}
    assert [json.loads(text) for text in hints] == [{"user_id": ["uids", "uid"]}]


def test_a_whole_record_has_the_fields_of_the_input() -> None:
    (record,) = theirs(RECORDS[:1])
    (batch,) = of_parquet([record], replace(THEIRS, whole=True))
    assert batch.column(RECORD).to_pylist() == [record]


@pytest.mark.parametrize(
    ("renamed", "problem"),
    [
        ({"usr_id": "uid"}, "'usr_id' is not a column of this study's reports; did you mean 'user_id'?"),
        ({"x": "y"}, "there are: user_id, attribute, service, event_time, report_id, payload, app"),
        ({"user_id": ""}, "'user_id' needs the name of the field that has it"),
        (
            {"user_id": "a", "report_id": "a"},
            "'user_id' and 'report_id' would both be read from the field 'a'",
        ),
        ({"app": "payload"}, "'payload' and 'app' would both be read from the field 'payload'"),
        (
            {"user_id": NEAR},
            "'user_id' cannot be read from 'ldpbeam.near': names that begin with ldpbeam. are",
        ),
    ],
)
def test_what_cannot_be_is_refused(renamed: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        fields.check(renamed, OURS.names)

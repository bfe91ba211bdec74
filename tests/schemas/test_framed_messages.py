"""Avro with Confluent's framing: schemas from files and from a registry, and ids that nobody knows."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest
from support.schema_registry import FLEET, LATER, Registry, framed, schema, served
from support.sent_messages import AVRO, WANTED, WITHOUT_ID, line, read

from ldpbeam.schemas import writer_schemas
from ldpbeam.schemas.messages.decode import JSON, Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.writer_schemas import WriterSchemas
from ldpbeam.transforms.sources.kafka_messages import poll_of

RENAMED = replace(WANTED, renamed=(("user_id", "uid"),))


def by(registry: Registry) -> Columns:
    return replace(RENAMED, schemas=WriterSchemas(registry.url))


@pytest.mark.parametrize("content_type", ["", AVRO, "avro/binary"])
def test_framed_records_are_those_of_json_by_a_schema_from_a_file(content_type: str) -> None:
    wanted = replace(RENAMED, schemas=WriterSchemas(None, ((7, json.dumps(FLEET)),)))
    given = [Message(str(n), framed(7, record), content_type) for n, record in enumerate(WITHOUT_ID)]
    found = read(*given, wanted=wanted)
    assert not found.bad
    expected = [
        Message(str(n), line({**record, "uid": record["user_id"]}), JSON)
        for n, record in enumerate(WITHOUT_ID)
    ]
    assert found.rows == read(*expected, wanted=wanted).rows
    assert len(found.rows) == 10


class FromKafka:
    """A message as librdkafka delivers it."""

    def __init__(self, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        self.value, self.headers = lambda: value, lambda: headers
        self.topic, self.partition, self.offset = lambda: "t", lambda: 0, lambda: 7


GUID = uuid.UUID(int=2**127 + 5)


@pytest.mark.parametrize(
    ("frame", "path"), [(b"\1" + GUID.bytes, f"/schemas/guids/{GUID}"), (b"\0\0\0\0\7", "/schemas/ids/7")]
)
@pytest.mark.parametrize("in_header", [True, False])
def test_the_key_of_a_schema_may_stand_in_a_header_of_kafka_or_before_the_record(
    frame: bytes, path: str, in_header: bool
) -> None:
    records = [framed(7, record)[5:] for record in WITHOUT_ID]
    headers = [("__value_schema_id", frame)] if in_header else []
    sent = [FromKafka(record if in_header else frame + record, headers) for record in records]
    with served({path: schema(FLEET)}) as registry:
        found = read(*(poll_of("t/0", [one]).message(0) for one in sent), wanted=by(registry))
        assert not found.bad and registry.ids() == [path]
    assert found.column("payload") == [record["payload"] for record in WITHOUT_ID]
    assert list(poll_of("t/0", sent).values) == [frame + record for record in records]


def test_a_registry_is_asked_once_for_each_id_and_two_schemas_are_read_beside_each_other() -> None:
    with served({"/schemas/ids/1": schema(FLEET), "/schemas/ids/2147483647": schema(LATER)}) as registry:
        for _ in range(3):
            given = [
                Message(str(n), framed(*(((1, record, FLEET)) if n % 2 else (2**31 - 1, record, LATER))), "")
                for n, record in enumerate(WITHOUT_ID)
            ]
            found = read(*given, wanted=by(registry))
            assert not found.bad
            assert sorted(found.column("position")) == list(range(10))
            assert found.column("payload") == [record["payload"] for record in WITHOUT_ID]
        assert sorted(registry.ids()) == ["/schemas/ids/1", "/schemas/ids/2147483647"]


#: Why a framed record is a dead letter, by what the registry has of its schema: the reason, and the detail.
REFUSED = {
    "no such id": ((404, {"error_code": 40403}), "unknown_schema", "the registry has no schema of the id 9"),
    "another type": (
        (200, {"schema": "syntax", "schemaType": "PROTOBUF"}),
        "unknown_schema",
        "is of the type PROTOBUF; only AVRO is read",
    ),
    "references": (schema(FLEET, references=[{"name": "x"}]), "unknown_schema", "refers to other schemas"),
    "no record": (schema("string"), "unknown_schema", "it is not the schema of a record"),
    "no schema": ((200, {"schema": "{"}), "unknown_schema", "Expecting property name"),
    "an endless schema": (
        schema({**FLEET, "fields": [{"name": "x", "type": {"type": "array", "items": "null"}}]}),
        "unknown_schema",
        "an array whose items have no bytes",
    ),
    "other fields": (schema({**FLEET, "fields": FLEET["fields"][:2]}), "bad_message", "bytes are left"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_record_that_its_schema_does_not_decode_costs_only_itself(name: str) -> None:
    answer, reason, says = REFUSED[name]
    with served({"/schemas/ids/9": answer, "/schemas/ids/1": schema(FLEET)}) as registry:
        bad = Message("1", framed(9, WITHOUT_ID[0]), AVRO)
        found = read(bad, Message("2", framed(1, WITHOUT_ID[1]), AVRO), wanted=by(registry))
    (refused,) = found.bad
    assert (refused.message, refused.reason, refused.data) == (bad, reason, bad.data)
    assert says in refused.problem
    assert found.column("position") == [2]


def test_ids_that_a_sender_invents_are_asked_for_up_to_a_bound_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_schemas, "MOST_UNKNOWN", 3)
    now = [1e6]
    monkeypatch.setattr(writer_schemas.time, "monotonic", lambda: now[0])
    with served({"/schemas/ids/1": schema(FLEET)}) as registry:
        invented = [Message(str(n), framed(n, WITHOUT_ID[0]), AVRO) for n in range(100, 150)]
        for _ in range(2):
            assert len(read(*invented, wanted=by(registry)).bad) == 50
        assert registry.ids() == [f"/schemas/ids/{n}" for n in (100, 101, 102)]
        assert "was not asked for the id 149" in read(invented[-1], wanted=by(registry)).bad[0].problem
        now[0] += 601
        assert "has no schema of the id 149" in read(invented[-1], wanted=by(registry)).bad[0].problem
        # A schema that comes later is read then.
        assert not read(Message("1", framed(1, WITHOUT_ID[0]), AVRO), wanted=by(registry)).bad


@pytest.mark.parametrize(
    ("answer", "says"), [((503, {}), "refused: 503"), ((401, {}), "refused: 401"), (None, "does not answer")]
)
def test_a_registry_that_is_down_is_an_error_that_names_it_and_no_dead_letter(
    answer: tuple[int, Any] | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_schemas, "TRIES_SECONDS", 0.001)
    with served({"/schemas/ids/1": answer or (200, {})}) as registry:
        if answer is None:
            registry.server.server_close()
        url = registry.url.replace("//", "//ann:secret@")
        wanted = replace(RENAMED, schemas=WriterSchemas(url))
        with pytest.raises(OSError, match=f"the schema registry at {registry.url} {says}") as error:
            read(Message("1", framed(1, WITHOUT_ID[0]), AVRO), wanted=wanted)
    assert "secret" not in str(error.value)


def test_a_registry_that_fails_for_a_while_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_schemas, "TRIES_SECONDS", 0.001)
    with served({"/schemas/ids/1": schema(FLEET)}) as registry:
        registry.fails = 6
        assert not read(Message("1", framed(1, WITHOUT_ID[0]), AVRO), wanted=by(registry)).bad
        assert registry.ids() == ["/schemas/ids/1"] * 7
        # A command that begins says at once that its registry fails.
        registry.fails = 1
        with pytest.raises(OSError, match="refused: 500"):
            WriterSchemas(registry.url).check()

"""Avro with Confluent's framing: schemas from files and from a registry, and ids that nobody knows."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
import pytest
from support.sent_messages import AVRO, WANTED, WITHOUT_ID, line, read

from ldpbeam.schemas.encodings import writer_schemas
from ldpbeam.schemas.encodings.writer_schemas import WriterSchemas
from ldpbeam.schemas.messages.decode import JSON, Message
from ldpbeam.schemas.reports.columns import Columns

#: What a program of the fleet's own writes: other names, and a field that no study reads.
FLEET: dict[str, Any] = {
    "type": "record",
    "name": "Ride",
    "namespace": "fleet",
    "fields": [
        {"name": "battery", "type": "double"},
        {"name": "uid", "type": "string"},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "payload", "type": ["null", "double"]},
    ],
}
#: The same fields in another order, as after a change of the program.
LATER = {**FLEET, "fields": FLEET["fields"][::-1]}
RENAMED = replace(WANTED, renamed=(("user_id", "uid"),))


def framed(number: int, record: dict[str, Any], schema: dict[str, Any] = FLEET) -> bytes:
    """A record as Confluent's serializers write it: a zero byte, the id in four bytes, and Avro's bytes."""
    stream = io.BytesIO(b"\0" + bytes.fromhex(f"{number:08x}"))
    stream.seek(5)
    ride = {
        "battery": 0.5,
        "uid": record["user_id"],
        "event_time": 1000 * record["event_time"],
        "payload": record["payload"],
    }
    fastavro.schemaless_writer(stream, schema, ride)
    return stream.getvalue()


class Registry:
    """A server of the registry's REST calls on loopback.

    Attributes:
        answers: the status and the document of each path.
        asked: the paths that were asked for.
    """

    def __init__(self, answers: dict[str, tuple[int, Any]]) -> None:
        self.answers = {"/schemas/types": (200, ["AVRO"]), **answers}
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                code, document = registry.answers.get(
                    self.path, (404, {"error_code": 40403, "message": "Schema not found"})
                )
                body = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def ids(self) -> list[str]:
        return [path for path in self.asked if path.startswith("/schemas/ids/")]


@contextmanager
def served(answers: dict[str, tuple[int, Any]]) -> Iterator[Registry]:
    registry = Registry(answers)
    thread = threading.Thread(target=registry.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        thread.join()
        registry.server.server_close()


def by(registry: Registry) -> Columns:
    return replace(RENAMED, schemas=WriterSchemas(registry.url))


def schema(of: Any, **more: Any) -> tuple[int, Any]:
    return 200, {"schema": json.dumps(of), **more}


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
    answer: tuple[int, Any] | None, says: str
) -> None:
    with served({"/schemas/ids/1": answer or (200, {})}) as registry:
        if answer is None:
            registry.server.server_close()
        url = registry.url.replace("//", "//ann:secret@")
        wanted = replace(RENAMED, schemas=WriterSchemas(url))
        with pytest.raises(OSError, match=f"the schema registry at {registry.url} {says}") as error:
            read(Message("1", framed(1, WITHOUT_ID[0]), AVRO), wanted=wanted)
    assert "secret" not in str(error.value)

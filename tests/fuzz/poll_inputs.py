"""Polls of many messages of one source: of one kind or of all, most of them right, some odd."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

import fastavro

from fuzz import avro_inputs, columnar_inputs, json_inputs
from fuzz.mutations import mutated

JSON, LINES, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
AVRO, EVENT = "application/avro", "application/cloudevents+json"
#: The content types of messages; a byte of a poll is an index here.
TYPES = (
    *(JSON, LINES, ARROW, AVRO, EVENT, "", "text/plain", "application/x+json", ";", " "),
    *("Application/JSON; charset=utf-8", "application/ndjson", "avro/binary", "\xe9"),
)
_FIELDS = {
    7: {"user_id": "string", "payload": ["null", "double"], "event_time": "long", "service": "string"},
    8: {"user_id": {"type": "fixed", "name": "u", "size": 16}, "payload": "double"},
    9: {"user_id": "string", "payload": {"type": "array", "items": "double"}},
}
#: The schemas of writers of messages in Confluent's framing, as JSON by their ids.
SCHEMAS = {
    number: json.dumps({
        "type": "record", "name": "r", "fields": [{"name": n, "type": k} for n, k in fields.items()],
    })
    for number, fields in _FIELDS.items()
}  # fmt: skip
NEW_YEAR = 1_767_225_600_000
_Generate = Callable[[Random], bytes]


def written(messages: list[tuple[bytes, str]]) -> bytes:
    """Messages as the bytes of a poll."""
    return b"".join(
        bytes([TYPES.index(kind)]) + len(data).to_bytes(3, "big") + data for data, kind in messages
    )


def messages_of(poll: bytes) -> list[tuple[bytes, str]]:
    """The data and content types of the messages of a poll; any bytes have some."""
    messages = list[tuple[bytes, str]]()
    while poll:
        size = int.from_bytes(poll[1:4], "big")
        messages.append((poll[4 : 4 + size], TYPES[poll[0] % len(TYPES)]))
        poll = poll[4 + size :]
    return messages


def poll(rng: Random) -> bytes:
    """A poll's bytes."""
    return written(messages(rng, rng.choice((1, 2, 5, 20, 60))))


def messages(rng: Random, count: int) -> list[tuple[bytes, str]]:
    """The data and content types of ``count`` messages."""
    kinds = [rng.choice(_KINDS)] if rng.random() < 0.3 else rng.choices(_KINDS, k=rng.randint(2, 6))
    odd = rng.choice((0.0, 0.02, 0.1, 0.5))
    every = []
    for _ in range(count):
        generate, kind = rng.choice(kinds)
        data = generate(rng)[: 2**16]
        if rng.random() < odd:
            data = rng.choice(_ODD)(data)
        if rng.random() < odd / 4:
            data = mutated(rng, data, ())
        if rng.random() < odd:
            kind = rng.choice(TYPES)
        every.append((data, kind))
    return every


def _record(rng: Random) -> dict[str, Any]:
    record = {
        "user_id": f"u{rng.randrange(10, 100)}",
        "event_time": NEW_YEAR + rng.randrange(10**6),
        "payload": rng.choice((rng.random(), rng.randrange(9))),
        "service": rng.choice("ab"),
    }
    if rng.random() < 0.3:
        record["attribute"] = rng.choice("xy")
    if rng.random() < 0.1:
        record["payload"] = rng.choice(("cc02000002000000", "\ud800", True, [1.0], 10**400, float("nan")))
    if rng.random() < 0.1:
        del record[rng.choice(list(record))]
    return record


def _report(rng: Random) -> bytes:
    data = json.dumps(_record(rng), indent=rng.choice((None, None, None, None, 1)))
    return rng.choice((data, data, data, data.replace("NaN", rng.choice(("Inf", "-NaN", "-Inf"))))).encode()


def _event(rng: Random) -> bytes:
    return json.dumps({"id": "e", "data": _record(rng), "time": "2026-01-01T00:00:00Z"}).encode()


def _object(rng: Random) -> bytes:
    record = {
        "user_id": rng.choice(("u1", "u2", "u22", "\xe9", rng.randbytes(16))),
        "attribute": rng.choice((None, "x")),
        "service": rng.choice(("a", "b", "bb")),
        "event_time": rng.choice((None, NEW_YEAR + rng.randrange(99), 1.5, "2026-11-20T10:00:00Z")),
        "report_id": rng.choice((None, "r1", b"r2")),
        "payload": rng.choice((rng.random(), rng.randrange(99), b"abcd")),
    }
    return avro_inputs.object_of(record)


def _alike(rng: Random) -> bytes:
    """An object that has as many bytes as all others, each value in the same place."""
    record = {"user_id": f"u{rng.randrange(10, 100)}", "service": "a", "event_time": NEW_YEAR}
    return avro_inputs.object_of(record | {"payload": rng.random()})


def _framed(rng: Random) -> bytes:
    number = rng.choice((*SCHEMAS, *SCHEMAS, 10))
    user = rng.randbytes(16) if number == 8 else rng.choice(("u1", "u22", "\xe9"))
    payload = [rng.random()] if number == 9 else rng.choice((rng.random(), 0.5))
    record = {"user_id": user, "payload": payload, "event_time": NEW_YEAR, "service": "a"}
    schema = fastavro.parse_schema(json.loads(SCHEMAS.get(number, SCHEMAS[7])))
    fastavro.schemaless_writer(stream := io.BytesIO(), schema, record)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


_KINDS: tuple[tuple[_Generate, str], ...] = (
    (_report, JSON), (_report, JSON), (_report, ""), (json_inputs.report, JSON), (json_inputs.lines, LINES),
    (avro_inputs.single_object, AVRO), (_object, AVRO), (_alike, AVRO), (_alike, AVRO), (_framed, AVRO),
    (_framed, ""), (columnar_inputs.stream, ARROW), (_event, EVENT),
)  # fmt: skip
#: What some clients do to a message.
_ODD: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data + b"\n",
    lambda data: data + b"\r\n",
    lambda data: b" " + data,
    lambda data: data.replace(b", ", b",\n"),
    lambda data: data.replace(b", ", b",\r"),
    lambda data: data + data,
    lambda data: data + b"\n" + data,
    lambda data: b"[" + data + b"]",
    lambda data: data[:-1],
    lambda data: data[: len(data) // 2],
    lambda data: data.decode("latin-1").encode("utf-16"),
    lambda data: data.decode("latin-1").encode("utf-16-le"),
    lambda data: data[:1] + b"\0" + data[1:],
    lambda data: data.replace(b"u", b"\xff"),
    lambda data: data[:-1] + b', "deep": ' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    lambda data: data[:-1] + b', "payload": 2}',
    lambda data: b"",
    lambda data: b"\n",
)

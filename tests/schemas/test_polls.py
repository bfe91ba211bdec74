"""A poll decodes to what each of its messages decodes to by itself, whatever stands beside it."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fuzz import avro_inputs, poll_inputs
from fuzz.poll_inputs import ARROW, AVRO, EVENT, JSON, LINES, NEW_YEAR, SCHEMAS
from support.covering import EVERY
from support.encoded import arrow_stream
from support.polls import PREFIX, at_once, bad_in, offsets, one_by_one, reports_in

from ldpbeam.cells import clock_of
from ldpbeam.schemas.files import json_lines
from ldpbeam.schemas.messages import binary
from ldpbeam.schemas.messages.binary import BadMessage, Poll
from ldpbeam.schemas.messages.placed import Ids, ids_of
from ldpbeam.schemas.reports.columns import DELIVERY, Columns
from ldpbeam.schemas.writer_schemas import WriterSchemas
from ldpbeam.transforms.sources import poll_batches
from ldpbeam.transforms.sources.poll_batches import decode_poll

WANTED = Columns(extras=("app",), schemas=WriterSchemas(texts=tuple(SCHEMAS.items())))
STUDIES = {
    "two attributes": WANTED,
    "one of each": replace(WANTED, attribute="x", service="a"),
    "whole records": replace(WANTED, whole=True),
    "users of some": replace(WANTED, attribute="y", users=("x",)),
    "no users, other names": replace(WANTED, users=(), renamed=(("payload", "other"), ("app", "payload"))),
    "a zone, no times": replace(WANTED, clock=clock_of("Europe/Berlin"), timed=False),
}
#: Ids as Pub/Sub and others may have them, and the numbers in them.
NAMES = {
    "": None, "x": None, "12": 12, "0012": 12, "a/1": 1, "a/1/": None, "1\n": None, "\n/7": 7, "-5": None,
    "1.5": None, "٣": None, "9223372036854775807": 2**63 - 1, "9223372036854775808": None, "9" * 19: None,
    "9" * 20: None, "a/b/٣/4": 4,
}  # fmt: skip


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("seed", range(12 if EVERY else 3))
def test_a_poll_decodes_to_what_each_message_decodes_to_by_itself(seed: int, study: str) -> None:
    rng = Random(f"{seed}/{study}")
    messages = poll_inputs.messages(rng, rng.choice((3, 40, 120)))
    names = [rng.choice(list(NAMES)) for _ in messages]
    first = rng.randrange(10**6)
    kafka = [f"{PREFIX}/{first + place}" for place in range(len(messages))]
    for ids, own in ((ids_of(names), names), (offsets(first, len(messages)), kafka)):
        together = at_once(messages, STUDIES[study], ids)
        alone = one_by_one(messages, STUDIES[study], own)
        assert reports_in(together) == reports_in(alone)
        assert bad_in(together) == bad_in(alone)


def test_polls_of_the_test_above_have_messages_that_decode_and_messages_that_do_not() -> None:
    reports, problems = 0, Counter[str]()
    for seed in range(12):
        rng = Random(f"{seed}/two attributes")
        messages = poll_inputs.messages(rng, rng.choice((3, 40, 120)))
        items = at_once(messages, WANTED, offsets(0, len(messages)))
        reports += reports_in(items).total()
        problems.update(item.reason for item in items if isinstance(item, BadMessage))
    assert reports > 500
    assert problems.keys() >= {"bad_message", "not_json", "unknown_content_type", "unknown_schema"}


def records(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = Random(seed)
    return [
        {
            "user_id": str(uuid.UUID(int=rng.getrandbits(128))),
            "attribute": "x",
            "service": rng.choice("ab"),
            "event_time": NEW_YEAR + rng.randrange(10**6),
            "payload": rng.random(),
        }
        for _ in range(count)
    ]


def dumped(record: dict[str, Any], **options: Any) -> bytes:
    return json.dumps(record, **options).encode()


def framed(record: dict[str, Any]) -> bytes:
    user, size = record["user_id"].encode(), len(record["user_id"])
    payload = b"\2" + np.float64(record["payload"]).tobytes()
    time = avro_inputs.zigzag(record["event_time"])
    return (
        b"\0\0\0\0\7" + avro_inputs.zigzag(size) + user + payload + time + b"\2" + record["service"].encode()
    )


#: How a client may write a report.
WAYS: dict[str, tuple[Callable[[dict[str, Any]], bytes], str]] = {
    "json": (dumped, JSON),
    "json without a type": (dumped, ""),
    "json of a vendor": (dumped, "application/vnd.fleet+json; charset=utf-8"),
    "no spaces": (lambda record: dumped(record, separators=(",", ":")), JSON),
    "pretty": (lambda record: dumped(record, indent=2), JSON),
    "byte order mark": (lambda record: b"\xef\xbb\xbf" + dumped(record), JSON),
    "line feed": (lambda record: dumped(record) + b"\n", JSON),
    "carriage return": (lambda record: b" \r\n" + dumped(record) + b"\r", JSON),
    "other order": (lambda record: dumped(dict(reversed(record.items()))), JSON),
    "more fields": (lambda record: dumped(record | {"x": {"user_id": "nobody", "y": ["payload"]}}), JSON),
    "twice": (lambda record: b'{"payload": "no", ' + dumped(record)[1:], JSON),
    "escapes": (lambda record: dumped(record).replace(b"user_id", b"\\u0075ser_id"), JSON),
    "event": (lambda record: dumped({"id": "1", "data": record}), EVENT),
    "lines": (lambda record: dumped(record) + b"\n", LINES),
    "object": (lambda record: avro_inputs.object_of(record), AVRO),
    "framed": (framed, "avro/binary"),
    "arrow": (lambda record: arrow_stream(pa.RecordBatch.from_pylist([record])), ARROW),
}


@pytest.mark.parametrize("shares", [*WAYS, "all"])
def test_reports_are_those_that_were_written(shares: str) -> None:
    rng, given = Random(shares), records(200)
    ways = [WAYS[rng.choice(list(WAYS)) if shares == "all" else shares] for _ in given]
    messages = [(write(record), kind) for record, (write, kind) in zip(given, ways, strict=True)]
    items = at_once(messages, replace(WANTED, attribute="x"), offsets(1_000, 200))
    assert not bad_in(items)
    rows = {row["position"] - 1_000: (batch, row) for batch in items for row in batch.to_pylist()}
    assert sorted(rows) == list(range(200))
    for place, record in enumerate(given):
        batch, row = rows[place]
        said = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()} | row
        many = "/0" if messages[place][1] in (LINES, ARROW) else ""
        expected = record | {"user_id": uuid.UUID(record["user_id"]).bytes, "row": 0}
        expected[DELIVERY] = f"{PREFIX}/{1_000 + place}{many}".encode()
        assert {name: said.get(name) for name in expected} == expected


def test_the_numbers_of_ids_are_those_after_the_last_slash() -> None:
    ids = ids_of(list(NAMES))
    assert ids.numbers.to_pylist() == list(NAMES.values())
    assert ids.texts().to_pylist() == list(NAMES)


def test_messages_that_are_taken_once_have_no_deliveries() -> None:
    poll = Poll([dumped(record) for record in records(20)], [JSON] * 20, offsets(5, 20), deliveries=False)
    (((batch,), _),) = decode_poll(poll, WANTED)
    assert DELIVERY not in batch.schema.names
    assert batch.column("position").to_pylist() == list(range(5, 25))


GOOD = dumped(records(1)[0])
ODD = {
    "another type": (b"x", "text/plain"), "no type": (GOOD, ""),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, JSON), "line feed": (GOOD.replace(b", ", b",\n"), JSON),
    "spaces": (GOOD + b"  ", JSON), "carriage return": (GOOD + b"\r\n", JSON), "empty": (b"", JSON),
    "event": (dumped({"data": json.loads(GOOD)}), EVENT),
    "avro": (avro_inputs.object_of(records(1)[0]), AVRO), "lines": (GOOD + b"\n" + GOOD, LINES),
    "arrow": (b"no stream", ARROW), "utf-16": (GOOD.decode().encode("utf-16-le"), JSON),
}  # fmt: skip
BROKEN = {
    "nested": (GOOD[:-1] + b', "x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", JSON),
    "cut": (GOOD[:-9], JSON),
    "text": (GOOD.replace(b"0.", b"Inf, 0."), JSON),
    "no text": (GOOD.replace(b'"x"', b'"\xff"'), JSON),
    "payload": (dumped(json.loads(GOOD) | {"payload": [1]}), JSON),
    "twice": (GOOD[:-1] + b', "payload": 1}', JSON),
}


@pytest.mark.parametrize("place", [0, 2_500, 4_999])
@pytest.mark.parametrize("odd", [*ODD, *BROKEN])
def test_one_odd_message_leaves_the_others_their_columns(
    odd: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list[int]()

    def count(text: bytes, position: int, starts: Any, *rest: Any) -> Iterator[Any]:
        lines.append(len(starts))
        return plain(text, position, starts, *rest)

    plain = json_lines._decode_few
    monkeypatch.setattr(json_lines, "_decode_few", count)
    messages = [(dumped(record), JSON) for record in records(5_000)]
    messages[place] = (ODD | BROKEN)[odd]
    items = at_once(messages, WANTED, offsets(0, 5_000))
    good = sum(item.num_rows for item in items if not isinstance(item, BadMessage))
    assert good + len(bad_in(items)) == (5_001 if odd == "lines" else 5_000)
    # Lines that Python parses one by one.
    assert sum(lines) <= (json_lines.FEW_LINES if odd in BROKEN else 1)


@pytest.mark.parametrize("place", [0, 2_500, 4_999])
@pytest.mark.parametrize("damage", ["no text", "cut", "other branch", "empty", "json"])
def test_one_odd_object_leaves_the_others_their_columns(
    damage: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[bytes]()

    def count(reader: binary._RecordReader, record: bytes) -> Any:
        read.append(record)
        return plain(reader, record)

    plain = binary._RecordReader.one
    monkeypatch.setattr(binary._RecordReader, "one", count)
    objects = [avro_inputs.object_of(record) for record in records(5_000)]
    own = objects[place]
    objects[place] = {
        "no text": own[:12] + b"\xff" + own[13:], "cut": own[:-3],
        "other branch": own[:-9] + b"\4" + own[-8:], "empty": own[:10], "json": GOOD,
    }[damage]  # fmt: skip
    items = at_once([(data, AVRO) for data in objects], WANTED, offsets(0, 5_000))
    assert sum(item.num_rows for item in items if not isinstance(item, BadMessage)) == 4_999
    ((message, *_),) = bad_in(items)
    assert message.id == f"{PREFIX}/{place}"
    assert len(read) < 40


def test_a_record_with_bytes_behind_it_is_one_bad_message_though_it_has_very_many_fields() -> None:
    fields = [{"name": "user_id", "type": "string"}, {"name": "payload", "type": "double"}]
    fields += [{"name": f"f{number}", "type": "null"} for number in range(5_000)]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    good = b"\0\0\0\0\1\4ab" + bytes(8)
    wanted = Columns(schemas=WriterSchemas(texts=((1, schema),)))
    items = at_once([(good, AVRO), (good + b"x", AVRO)], wanted, offsets(0, 2))
    assert [item.column("position").to_pylist() for item in items if not isinstance(item, BadMessage)] == [
        [0]
    ]
    assert len(bad_in(items)) == 1


def test_the_problem_of_an_object_is_the_same_text_each_time() -> None:
    cut = [(avro_inputs.object_of(records(1)[0])[:-3], AVRO)]
    (bad,) = at_once(cut, WANTED, offsets(0, 1))
    assert "0x" not in bad.problem
    assert "cannot read double" in bad.problem


def test_a_poll_is_decoded_in_parts_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = pa.RecordBatch.from_pylist(records(1_000))
    stream = (arrow_stream(columns), ARROW)
    lines = (b"".join(dumped(record) + b"\n" for record in records(1_000)), LINES)
    single = (GOOD, JSON)
    monkeypatch.setattr(poll_batches, "RUN_BYTES", len(lines[0]))
    monkeypatch.setattr(poll_batches, "DECODED_BYTES", 2 * columns.nbytes)
    messages = [single, stream, single, lines, stream, single, stream, single]
    poll = Poll([data for data, _ in messages], [kind for _, kind in messages], offsets(0, len(messages)))
    decoded = list[int]()

    def decode(poll: Poll, wanted: Columns) -> Any:
        decoded.extend(poll.ids.numbers.to_pylist())
        return plain(poll, wanted)

    plain = poll_batches.decode
    monkeypatch.setattr(poll_batches, "decode", decode)
    begun, parts = 0, list[int]()
    for batches, stop in decode_poll(poll, WANTED):
        # Each message has been decoded once, and none of the next part.
        assert sorted(decoded) == list(range(stop))
        positions = {place for batch in batches for place in batch.column("position").to_pylist()}
        assert positions == set(range(begun, stop))
        begun = stop
        parts.append(begun)
    assert parts == [4, 8]


def test_a_poll_of_nothing_has_no_parts() -> None:
    assert not list(decode_poll(Poll([], [], Ids(pa.array([], pa.int64()), prefix=PREFIX)), WANTED))

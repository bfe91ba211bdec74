"""Pub/Sub messages: the same reports in every content type, and what is bad costs only itself."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.encoded import arrow_stream
from support.sent_messages import (
    ANN,
    AVRO,
    BATCHES,
    NEW_YEAR,
    OBJECT,
    OWN,
    PRETTY,
    REPORT,
    TEN,
    WITHOUT_ID,
    container,
    crc_64_avro,
    line,
    lines,
    read,
    single_object,
    table,
)

from ldpbeam.schemas.files.json_lines import MOST_SINGLE_LINES
from ldpbeam.schemas.messages import decode as messages
from ldpbeam.schemas.messages.decode import ARROW, EVENT, EVENTS, JSON, KNOWN, LINES, Message
from ldpbeam.schemas.reports.columns import DELIVERY, RECORD, Columns


@pytest.mark.parametrize("kind", BATCHES)
def test_reports_of_a_batch_without_an_id_have_their_messages_and_their_row(kind: str) -> None:
    found = read(Message("12", *BATCHES[kind]), Message("x-13", *BATCHES[kind]))
    expected = [(b"12/%d" % row, 12, row) for row in range(10)] + [
        (b"x-13/%d" % row, None, row) for row in range(10)
    ]
    assert sorted((row[DELIVERY], row["position"], row["row"]) for row in found.rows) == sorted(
        expected, key=lambda own: own[0]
    )
    assert found.column("payload") == [number / 4 for number in range(10) for _ in range(2)]


def test_a_report_keeps_its_own_id_among_others_that_have_none() -> None:
    mixed = [{"user_id": "a", "report_id": "own"}, {"user_id": "b"}, {"user_id": "c", "report_id": ""}]
    own, batch = [b"own", None, None], [None, b"7/1", b"7/2"]
    found = read(Message("7", lines(mixed), LINES))
    assert (found.column("report_id"), found.column(DELIVERY)) == (own, batch)
    singles = read(*(Message(str(n), line(record), JSON) for n, record in enumerate(mixed)))
    assert (singles.column("report_id"), singles.column(DELIVERY)) == (own, [None, b"1", b"2"])
    stream = arrow_stream(table([record | {"report_id": record.get("report_id")} for record in mixed]))
    found = read(Message("7", stream, ARROW))
    assert (found.column("report_id"), found.column(DELIVERY)) == (own, batch)


def test_payloads_of_bytes_are_bytes_and_stand_apart_from_numbers() -> None:
    mixed = [{"user_id": f"u{n}", "payload": b"\0\1\2" if n % 2 else n / 2} for n in range(6)]
    expected = [0.0, b"\0\1\2", 1.0, b"\0\1\2", 2.0, b"\0\1\2"]
    found = read(*(Message(str(n), single_object(record), AVRO) for n, record in enumerate(mixed)))
    assert found.column("payload") == expected
    assert found.column("position") == list(range(6))
    assert {batch.column("payload").type for batch in found.batches} == {pa.float64(), pa.binary()}
    for kind in (pa.binary(), pa.binary(3), pa.large_binary(), pa.binary_view()):
        batch = pa.record_batch({"user_id": ["a", "b"], "payload": pa.array([b"abc", b"\0\1\2"], kind)})
        assert read(Message("1", arrow_stream(batch), ARROW)).column("payload") == [b"abc", b"\0\1\2"]


def test_fields_that_the_study_looks_at_are_read_and_others_are_not() -> None:
    more = {"user_id": "ann", "app": "2.0", "colour": {"red": [1]}}
    for own in (
        Message("1", line(more), JSON),
        Message("1", lines([more]), LINES),
        Message("1", arrow_stream(table([more])), ARROW),
    ):
        (row,) = read(own).rows
        assert row["app"] == "2.0"
        assert "colour" not in row
        (row,) = read(own, wanted=Columns()).rows
        assert "app" not in row


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", " application/json ;x=y", ""]
)
def test_a_content_type_is_known_whatever_its_case_and_parameters(content_type: str) -> None:
    assert len(read(Message("1", b' \r\n\t{"user_id": "ann"}\n', content_type)).rows) == 1


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("text/plain", b'{"user_id": "ann"}'), ("application/jsonx", b'{"user_id": "ann"}'), ("json", b"{}"),
        ("", container(TEN)), ("", b""), (";", b"\0"),
    ],
)  # fmt: skip
def test_other_content_types_are_named_with_those_that_are_known(content_type: str, data: bytes) -> None:
    message = Message("1", data, content_type)
    found = read(message, Message("2", b"{}", JSON))
    (bad,) = found.bad
    assert (bad.message, bad.reports, bad.reason, bad.data) == (message, 1, "unknown_content_type", data)
    assert all(known in bad.problem for known in (*KNOWN, content_type.strip(";")))
    assert found.column("position") == [2]


@pytest.mark.parametrize("content_type", ["", JSON, LINES])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" + ANN + b"]", "it is a JSON array"),
        (b'[\n {"user_id": "ann"},\n {"user_id": "bob"}\n]\n', "it is a JSON array"),
        (gzip.compress(ANN, mtime=0), "it is compressed by gzip: send it as it was before"),
        (ANN.decode().encode("utf-16"), "it is text in UTF-16"),
        (ANN.decode().encode("utf-16-le"), "it is text in UTF-16"),
        (ANN.decode().encode("utf-16-be"), "it is text in UTF-16"),
    ],
)
def test_text_that_is_none_of_ours_is_named(content_type: str, data: bytes, said: str) -> None:
    message = Message("1", data, content_type)
    found = read(message, Message("2", ANN, JSON))
    (bad,) = found.bad
    assert (bad.message, bad.reports, bad.reason, bad.data) == (message, 1, "not_json", data)
    assert bad.problem.startswith(said)
    assert found.column("position") == [2]


def test_lines_that_are_sent_as_one_object_are_told_their_content_type() -> None:
    (bad,) = read(Message("1", ANN + b"\n" + ANN, JSON)).bad
    assert bad.problem.endswith(": lines of objects are application/x-ndjson")


def test_a_line_with_an_array_costs_no_other_line() -> None:
    found = read(Message("1", b"[" + ANN + b"]\n" + ANN + b"\n" + ANN, LINES))
    assert ([bad.row for bad in found.bad], len(found.rows)) == ([0], 2)


def test_bad_lines_of_a_batch_have_the_number_of_their_line() -> None:
    text = b"\n" + ANN + b"\r\n \t \nnull\n\n" + ANN + b"\n{"
    given = [Message("5", ANN + b"\n" + ANN, LINES), Message("6", text, LINES), Message("7", ANN, LINES)]
    found = read(*given)
    places = sorted((row["position"], row["row"], row[DELIVERY]) for row in found.rows)
    assert places == [(5, 0, b"5/0"), (5, 1, b"5/1"), (6, 1, b"6/1"), (6, 5, b"6/5"), (7, 0, b"7/0")]
    assert [(bad.message.id, bad.row, bad.data, bad.reason) for bad in found.bad] == [
        ("6", 3, b"null", "not_json"),
        ("6", 6, b"{", "not_json"),
    ]


def test_events_of_a_batch_are_reports_by_their_rows_whether_their_data_are_packed_or_not() -> None:
    report = json.loads(ANN)
    packed = {"id": "b", "data_base64": base64.b64encode(ANN).decode()}
    events = [{"id": "a", "data": report}, {"id": "x"}, packed, 7]
    found = read(
        Message("5", json.dumps(events).encode(), EVENTS), Message("6", json.dumps(packed).encode(), EVENT)
    )
    assert [(row["user_id"], row["row"], row[DELIVERY]) for row in found.rows] == [
        (b"ann", 0, b"5/0"), (b"ann", 2, b"5/2"), (b"ann", 0, b"6")
    ]  # fmt: skip
    assert [(bad.row, bad.data, bad.reports) for bad in found.bad] == [(1, b'{"id": "x"}', 1), (3, b"7", 1)]


def test_bad_events_of_a_batch_beyond_a_hundred_are_one_dead_letter() -> None:
    found = read(Message("5", b"[" + b",".join([b"1"] * 100_000) + b"]", EVENTS))
    assert len(found.bad) <= MOST_SINGLE_LINES + 1
    assert sum(bad.reports for bad in found.bad) == 100_000
    assert sum(len(bad.data) for bad in found.bad) < 1_000


#: Why a message is refused that has no report or is not what it says, by its content type and bytes. A
#: tombstone of Kafka has no bytes.
REFUSED = {
    **{
        (JSON, data): ("not_json", "not JSON: it is empty")
        for data in (b"", b" \r\n", b"\xef\xbb\xbf", b"\n\n")
    },
    **{
        (LINES, data): ("bad_message", "it has no reports")
        for data in (b"", b"\n", b"\n \r\n", b"\t", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n")
    },
    **{
        (JSON, data): ("not_json", "")
        for data in (
            *(ANN + b"\n" + ANN, ANN + ANN, ANN + b"\n" + ANN[:-1], PRETTY[:-1], b"  \t", b"5", b"null"),
            *(
                b'{"user_id": "a\nnn"}',
                b'{"user_id": "\xff"}',
                b'{"user_id":\n"\xff"}',
                b"\xef\xbb\xbf" * 2 + ANN,
            ),
            b'{"user_id":\n' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        )
    },
    (LINES, b"\0"): ("not_json", ""),
    (LINES, b"\f\n"): ("not_json", ""),
    **{(kind, b""): ("bad_message", "it is no Avro single object") for kind in (AVRO, "avro/binary")},
    (AVRO, b"\0"): ("bad_message", "it is no Avro single object"),
    (AVRO, b"\0\0\0\0\7"): ("unknown_schema", "no schema is given for the id 7: name it with --schemas"),
    (EVENT, b""): ("bad_message", "no CloudEvent with a report: "),
    (EVENT, b"[]"): ("bad_message", "an object with an object as its data is needed"),
    (EVENT, b'{"data": "ann"}'): ("bad_message", "an object with an object as its data is needed"),
    (EVENT, b'{"data": ' * 5000): ("bad_message", "no CloudEvent with a report: "),
    (EVENT, b'{"data": {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}}"): (
        "bad_message",
        "no CloudEvent with a report",
    ),
    (EVENTS, b""): ("bad_message", "no CloudEvent with a report: "),
    (EVENTS, b"{}"): ("bad_message", "a batch is an array of events"),
    (EVENTS, b"[[]]"): ("bad_message", "an object with an object as its data is needed"),
    (EVENT, b'{"data_base64": "!"}'): ("bad_message", "no CloudEvent with a report: "),
    (AVRO, OBJECT[:10]): ("bad_message", "EOFError"),
    (ARROW, b""): ("bad_message", "no Arrow stream: "),
    (ARROW, arrow_stream(table(TEN).slice(0, 0))): ("bad_message", "it has no reports"),
    (ARROW, arrow_stream(*[table(TEN).slice(0, 0)] * 3)): ("bad_message", "it has no reports"),
    (ARROW, arrow_stream(pa.record_batch({}))): ("bad_message", "it has no reports"),
    (AVRO, OBJECT[:-1]): ("bad_message", "EOFError"),
    (AVRO, OBJECT + b"\0"): ("bad_message", "bytes are left"),
    (AVRO, OBJECT[:10] + b"\x08"): ("bad_message", "IndexError"),
    (AVRO, OBJECT[11:]): ("bad_message", "no Avro single object, which begins with c301"),
    (AVRO, ANN): ("bad_message", "no Avro single object"),
    ("avro/binary", container(OWN)): (
        "bad_message",
        f"it is an Avro file, which is not read as a message; send an Arrow stream as {ARROW}",
    ),
    (AVRO, b"Obj\1"): ("bad_message", "it is an Avro file"),
    **{
        (ARROW, data): ("bad_message", "no Arrow stream")
        for data in (b"\xff" * 50, b"ARROW1\0\0" + arrow_stream(table(OWN)), arrow_stream(table(OWN))[:60])
    },
    (ARROW, arrow_stream(pa.RecordBatch.from_arrays([pa.array(["a"])] * 2, names=["user_id", "user_id"]))): (
        "bad_message",
        "duplicate columns: user_id",
    ),
    ("", b""): ("unknown_content_type", "no content-type"),
    ("", b" \n"): ("unknown_content_type", "no content-type"),
    ("text/plain", b""): ("unknown_content_type", "'text/plain'"),
}


def test_every_known_content_type_without_bytes_is_in_the_table() -> None:
    assert {(kind, b"") for kind in KNOWN} <= REFUSED.keys()


@pytest.mark.parametrize(("content_type", "data"), REFUSED)
def test_a_message_that_is_refused_is_counted_alone_and_among_others(content_type: str, data: bytes) -> None:
    reason, says = REFUSED[content_type, data]
    refused = Message("1", data, content_type)
    others = [
        Message("2", ANN, JSON),
        Message("3", ANN, LINES),
        Message("4", OBJECT, AVRO),
        Message("5", arrow_stream(table(TEN[:1])), ARROW),
    ]
    for given in ([refused], [refused, *others], [*others, refused], [refused, *others, refused]):
        found = read(*given)
        assert [(bad.message, bad.reports, bad.reason) for bad in found.bad] == [
            (refused, 1, reason)
        ] * given.count(refused)
        assert content_type in (LINES, EVENTS) or all(bad.data == data for bad in found.bad)
        assert all(says in bad.problem for bad in found.bad)
        assert sorted(found.column("position")) == [2, 3, 4, 5] * (len(given) > 2)


REPORTS = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")


def test_the_documents_single_object_is_its_first_report() -> None:
    (sample,) = re.findall(r"^  `(c301[0-9a-f]{20,})`\.$", REPORTS, flags=re.MULTILINE)
    (own,) = re.findall(r'^(\{"user_id": "u1".*?"payload": 0\.73\})$', REPORTS, flags=re.MULTILINE)
    assert f"`{crc_64_avro(REPORT).hex()}`" in REPORTS
    found = read(Message("1", bytes.fromhex(sample), AVRO), Message("1", own.encode(), JSON))
    assert not found.bad
    one, other = found.rows
    assert one == other
    assert bytes.fromhex(sample)[2:10] == crc_64_avro(REPORT)


def test_bytes_that_defeat_a_decoder_cost_only_their_message(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = messages.decode_lines

    def decode_lines(position: int, text: bytes, wanted: Columns, *groups: Any) -> Any:
        if b"poison" in text:
            raise RuntimeError("defeated")
        yield from plain(position, text, wanted, *groups)

    monkeypatch.setattr(messages, "decode_lines", decode_lines)
    poison = Message("99", b'{"user_id": "poison"}', JSON)
    found = read(
        *(Message(str(n), ANN, JSON) for n in range(5)), poison, *(Message(str(n), ANN, JSON) for n in (5, 6))
    )
    assert [(bad.message, bad.reason, bad.problem) for bad in found.bad] == [
        (poison, "bad_message", "defeated")
    ]
    assert sorted(found.column("position")) == list(range(7))


@pytest.mark.parametrize(
    ("content_type", "like"),
    [
        ("application/vnd.fleet.v2+json", JSON),
        ("Application/Vnd.Fleet+JSON; charset=utf-8", JSON),
        ("application/ndjson", LINES),
        ("application/+json", None),
        ("text/x+json", None),
        ("application/json+xml", None),
    ],
)
def test_other_names_of_json_are_read_as_json(content_type: str, like: str | None) -> None:
    data = lines(TEN) if like == LINES else line(TEN[0])
    found = read(Message("1", data, content_type))
    if like is None:
        (bad,) = found.bad
        assert bad.reason == "unknown_content_type"
    else:
        assert found.rows == read(Message("1", data, like)).rows
        assert found.rows


def event(data: Any, **attributes: Any) -> bytes:
    given = {"specversion": "1.0", "id": "e-1", "source": "/fleet", "type": "ride", **attributes}
    return line({**given, "datacontenttype": "application/json", "data": data})


def test_a_cloud_event_has_its_report_in_its_data_and_its_attributes_beside_it() -> None:
    record = {name: value for name, value in WITHOUT_ID[0].items() if name != "event_time"}
    given = Message("1", event({**record, "ce_id": "from within"}, time="2026-01-01T00:00:00Z"), EVENT)
    renamed = (("event_time", "ce_time"), ("report_id", "ce_id"), ("app", "ce_source"))
    (row,) = read(given, wanted=Columns(extras=("app",), renamed=renamed)).rows
    assert (row["event_time"], row["report_id"], row["app"]) == (NEW_YEAR, b"e-1", "/fleet")
    plain = read(Message("1", event(WITHOUT_ID[0]), EVENT))
    assert plain.rows == read(Message("1", line(WITHOUT_ID[0]), JSON)).rows
    beside = read(given, wanted=Columns(extras=("app",)))
    assert beside.column("event_time") == [None]


def test_a_kept_cloud_event_is_the_report_that_it_has() -> None:
    kept = Columns(whole=True)
    batches = read_whole(Message("1", event({"user_id": "ann"}), EVENT), kept)
    (record,) = batches[0].column(RECORD).to_pylist()
    assert json.loads(record) == {
        "user_id": "ann", "ce_specversion": "1.0", "ce_id": "e-1", "ce_source": "/fleet", "ce_type": "ride",
        "ce_datacontenttype": "application/json",
    }  # fmt: skip


def read_whole(message: Message, wanted: Columns) -> list[pa.RecordBatch]:
    return [
        batch for batch in messages.decode_messages([message], wanted) if isinstance(batch, pa.RecordBatch)
    ]

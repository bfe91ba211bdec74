"""A span of a topic, and estimates for one, without a broker: what librdkafka delivers and is given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.estimate_records import price

from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.reports.columns import DELIVERY, Columns
from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.outputs import publish
from ldpbeam.transforms.outputs.panes import estimate_id
from ldpbeam.transforms.outputs.publish import ToKafka
from ldpbeam.transforms.sources import kafka_span
from ldpbeam.transforms.sources.batch_input import BatchInput
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.kafka_messages import poll_of
from ldpbeam.transforms.sources.kafka_span import read_offsets, span_of_topic

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

ERRORS = kafka.KafkaError


@pytest.fixture
def estimate() -> Any:
    return price()


REPORT = {"user_id": "u", "attribute": "x", "service": "a", "payload": 0.5, "event_time": 1_700_000_000_000}


TOPIC = KafkaTopic("localhost:1", "t")


def span(*offsets: tuple[int, int, int]) -> BatchInput:
    return span_of_topic(TOPIC, [Offsets(*each) for each in offsets])


def test_ranges_cover_every_offset_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_span, "RANGE", 10)
    asked = span((0, 5, 26), (2, 0, 10), (7, 99, 100))
    ranges = [each for offsets in asked.listed for each in asked.reading.split(offsets)]
    covered = [(part, place) for part, first, after in ranges for place in range(first, after)]
    assert covered == [(part, place) for part, first, after in asked.listed for place in range(first, after)]
    assert all(0 < after - first <= 10 for _, first, after in ranges)
    assert asked.names == (
        "kafka://localhost:1/t/0/5-26",
        "kafka://localhost:1/t/2/0-10",
        "kafka://localhost:1/t/7/99-100",
    )


def message(offset: int, value: bytes | None = None, error: int | None = None) -> Any:
    """A message as librdkafka delivers it."""
    data = json.dumps({**REPORT, "user_id": f"u{offset}"}).encode() if value is None else value
    return SimpleNamespace(
        topic=lambda: "t", partition=lambda: 3, offset=lambda: offset, value=lambda: data,
        headers=lambda: [("Content-Type", b"application/json")],
        error=lambda: None if error is None else kafka.KafkaError(error),
    )  # fmt: skip


END, GONE = ERRORS._PARTITION_EOF, ERRORS._AUTO_OFFSET_RESET


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads offsets 10 to 19 of what a client delivers, call by call; gives the users, and what is closed."""

    def read(calls: Sequence[Sequence[Any]]) -> list[str]:
        left = list(calls)
        consumer = SimpleNamespace(
            assign=lambda assigned: None,
            consume=lambda most, seconds: left.pop(0) if left else [],
            close=lambda: closed.append(True),
        )
        closed: list[bool] = []
        monkeypatch.setattr(kafka_span, "client", lambda *_: consumer)
        try:
            batches = list(read_offsets(TOPIC, Offsets(3, 10, 20), Columns()))
        finally:
            assert closed == [True]
        assert not any(batch.letters for batch in batches)
        assert all(each.schema.metadata[b"file"] == b"t/3" for batch in batches for each in batch.batches)
        return [
            user.decode()
            for batch in batches
            for each in batch.batches
            for user in each["user_id"].to_pylist()
        ]

    return read


ALL = [message(offset) for offset in range(10, 20)]


@pytest.mark.parametrize(
    ("calls", "users"),
    [
        ([ALL], range(10, 20)),
        ([[], ALL[:4], [], ALL[4:]], range(10, 20)),
        # What comes after the range, and offsets without a message in it and at its end.
        ([[*ALL, message(20), message(21)]], range(10, 20)),
        ([[*ALL[:7], message(23)]], range(10, 17)),
        ([ALL[:7], [message(20, error=END)]], range(10, 17)),
        # An end before the range's: the rest is on its way.
        ([[*ALL[:7], message(17, error=END)], ALL[7:]], range(10, 20)),
        ([[message(10, error=ERRORS._TRANSPORT)], ALL], range(10, 20)),
    ],
)
def test_a_range_ends_with_its_last_offset(calls: list[list[Any]], users: range, delivered: Any) -> None:
    assert delivered(calls) == [f"u{offset}" for offset in users]


@pytest.mark.parametrize("most", [1, 3, 10])
def test_batches_are_bounded_and_lose_nothing(
    most: int, delivered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_span, "BATCH_MESSAGES", most)
    assert delivered([ALL]) == [f"u{offset}" for offset in range(10, 20)]


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (
            [[*ALL[:3], message(13, error=GONE)]],
            "t/3 at localhost:1: retention has removed offsets from 10 on",
        ),
        ([[message(10, error=ERRORS.TOPIC_AUTHORIZATION_FAILED)]], "t/3 at localhost:1: .*[Aa]uthorization"),
        ([ALL[:3]], "offset 19 did not come for 0 seconds: no message"),
        ([[message(10, error=ERRORS._TRANSPORT)]], "offset 19 did not come for 0 seconds: .*transport"),
    ],
)
def test_a_range_that_is_not_to_be_had_is_an_error_and_no_short_result(
    calls: list[list[Any]], said: str, delivered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_span, "PATIENCE", 0.0)
    with pytest.raises(OSError, match=said):
        delivered(calls)


def test_the_time_that_a_batch_takes_is_not_the_brokers(
    delivered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With no patience at all, brokers that answer every call are still waited for.
    monkeypatch.setattr(kafka_span, "PATIENCE", 0.0)
    assert delivered([ALL[:4], ALL[4:]]) == [f"u{offset}" for offset in range(10, 20)]


def test_a_message_whose_header_has_no_name_in_utf_8_has_no_content_type() -> None:
    def headers() -> Any:
        raise SystemError("returned a result with an exception set")

    # As confluent-kafka 2.16 does for a header that librdkafka was given with the name b"\xff".
    delivered = message(10)
    delivered.headers = headers
    assert poll_of("t/3", [delivered]).message(0) == Message("t/3/10", delivered.value(), "")


def test_batches_of_a_span_have_no_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kafka_span, "client",
        lambda *_: SimpleNamespace(assign=print, consume=lambda *_: ALL, close=lambda: None),
    )  # fmt: skip
    batch, letters = span((3, 10, 20)).reading.decode((3, 10, 20), Columns())
    assert (batch.num_rows, letters) == (10, [])
    assert DELIVERY not in batch.schema.names
    assert batch["position"].to_pylist() == list(range(10, 20))


def test_estimates_that_no_broker_takes_are_an_error(monkeypatch: pytest.MonkeyPatch, estimate: Any) -> None:
    monkeypatch.setattr(publish, "PATIENCE", 0.2)
    with pytest.raises(OSError, match=r"^t at localhost:1: "):
        ToKafka(KafkaTopic("localhost:1", "t")).open()([estimate])


def test_estimates_that_one_broker_refuses_are_an_error_with_its_words(
    monkeypatch: pytest.MonkeyPatch, estimate: Any
) -> None:
    sent: list[dict[str, Any]] = []

    def produce(topic: str, value: bytes, **given: Any) -> None:
        if not sent:
            sent.append({})
            raise BufferError
        sent.append({"topic": topic, "value": json.loads(value), **given})
        given["on_delivery"](kafka.KafkaError(ERRORS.MSG_SIZE_TOO_LARGE) if len(sent) == 2 else None, None)

    producer = SimpleNamespace(produce=produce, poll=lambda seconds: 0, flush=lambda seconds: 0)
    monkeypatch.setattr(publish, "client", lambda *_: producer)
    send = ToKafka(KafkaTopic("localhost:1", "t")).open()
    with pytest.raises(OSError, match=r"^t at localhost:1: .*[Mm]essage size too large"):
        send([estimate])
    assert sent[1]["key"] == estimate_id(estimate).encode()
    # They are sent again, from nothing.
    send([estimate])
    assert [own["key"] for own in sent[1:]] == [sent[1]["key"]] * 2

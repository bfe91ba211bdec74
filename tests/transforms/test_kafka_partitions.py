"""The feed of a topic without a broker: what librdkafka delivers, and what is known of its partitions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import kafka as feed_of_kafka
from ldpbeam.transforms.sources.feeds import WHOLE, Share
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_checksums import checksum_of
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.replay import Arrivals, Replay
from ldpbeam.windows import Windows

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

REPORT = {"user_id": "u", "attribute": "x", "service": "a", "payload": 0.5, "event_time": 1_700_000_000_000}
END = kafka.KafkaError._PARTITION_EOF


def message(offset: int, error: int | None = None) -> Any:
    """A message of partition 0 as librdkafka delivers it."""
    return SimpleNamespace(
        topic=lambda: "t", partition=lambda: 0, offset=lambda: offset,
        value=lambda: json.dumps(REPORT).encode(),
        headers=lambda: [("content-type", b"application/json")],
        timestamp=lambda: (kafka.TIMESTAMP_CREATE_TIME, 0),
        error=lambda: None if error is None else kafka.KafkaError(error),
    )  # fmt: skip


class Topic:
    """A topic of which a client delivers some messages, call by call, and says the end of every partition."""

    def __init__(self, calls: Sequence[Sequence[Any]], end: int) -> None:
        self.calls = list(calls)
        self.first, self.end = 0, end
        self.assigned: dict[int, int] = {}
        self.refusal: Any = None
        #: Partitions without a leader, and what the topic's metadata say is wrong with it.
        self.leaderless: set[int] = set()
        self.error: Any = None
        self.on_commit: Any = None
        self.on_error: Any = None

    def client(self, kind: Any, topic: KafkaTopic, settings: dict[str, Any]) -> Any:
        self.on_commit = settings.get("on_commit", self.on_commit)
        self.on_error = settings["error_cb"]
        return self

    def consume(self, most: int, seconds: float) -> Sequence[Any]:
        return self.calls.pop(0) if self.calls else []

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        self.assigned |= {each.partition: each.offset for each in partitions}

    def incremental_unassign(self, partitions: Sequence[Any]) -> None:
        for each in partitions:
            del self.assigned[each.partition]

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        if partition.partition in self.leaderless:
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE))
        return self.first, self.end

    def list_topics(self, name: str, timeout: float) -> Any:
        listed = SimpleNamespace(error=self.error, partitions={0: None, 1: None})
        return SimpleNamespace(topics={name: listed})

    def commit(self, offsets: Sequence[Any], asynchronous: bool) -> None:
        assert asynchronous
        self.on_commit(self.refusal, offsets)

    def unassign(self) -> None:
        """Deliver no more."""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Opens a feed of partition 0 on a topic; the test looks at ends in place of its thread."""
    monkeypatch.setattr(feed_of_kafka, "LOOKING_SECONDS", 3600.0)
    monkeypatch.setattr(feed_of_kafka, "cleanup_policy", lambda *_: "delete")
    readings: list[Any] = []

    def open_on(
        topic: Topic, share: Share = WHOLE, group: str | None = None, cuts: tuple[int, ...] = ()
    ) -> Any:
        monkeypatch.setattr(feed_of_kafka, "client", topic.client)
        feed = KafkaFeed(
            KafkaTopic("localhost:1", "t"), "id", Columns(), str(tmp_path), ((0, 0),), ((0, cuts),), (), group
        )
        readings.append(feed.open(share))
        return readings[-1]

    yield open_on
    for reading in readings:
        reading.close()


@pytest.mark.parametrize(
    "calls",
    [
        [[message(0), message(1), message(3, END)]],
        [[message(0), message(1)], [message(3, END)]],
    ],
)
def test_a_partition_whose_last_offset_has_no_message_is_read_to_its_end(
    calls: list[list[Any]], opened: Any
) -> None:
    # The last offset is the marker of a transaction. librdkafka says once that the partition ends.
    reading = opened(Topic(calls, 3))
    batch = reading.take()
    assert batch.offsets == (0, 0, 2)
    assert reading.take() is None
    reading._look(reading._partitions[0])
    assert reading.state.silences[0] is not None
    assert reading.state.lag.messages == 0


def test_what_is_read_again_ends_though_the_last_messages_of_then_were_compacted(opened: Any) -> None:
    # Another process took all before 9. The messages 3 to 8 are gone, and batches were cut at 5 and 9.
    reading = opened(Topic([[message(0), message(2), message(9), message(10, END)]], 10), cuts=(5, 9))
    arrivals = Arrivals(Replay({0: 0}, {0: 5}, {0: 9}), Windows(10, 10))
    assert reading.take().offsets == (0, 0, 3)
    assert arrivals.reads_again(reading.state.positions)
    # No message of a batch is on the other side of a cut.
    assert reading.take().offsets == (0, 3, 10)
    assert not arrivals.reads_again(reading.state.positions)


def test_what_is_read_again_ends_at_the_end_of_a_partition_without_messages(opened: Any) -> None:
    reading = opened(Topic([[message(0), message(10, END)]], 10))
    arrivals = Arrivals(Replay({0: 0}, {}, {0: 9}), Windows(10, 10))
    assert reading.take().offsets == (0, 0, 1)
    assert reading.take() is None
    assert not arrivals.reads_again(reading.state.positions)


def test_a_partition_of_which_messages_wait_is_not_at_its_end(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_of_kafka, "BATCH_MESSAGES", 1)
    reading = opened(Topic([[message(0), message(1), message(3, END)]], 3))
    assert reading.take().offsets == (0, 0, 1)
    reading._look(reading._partitions[0])
    assert reading.state.silences[0] is None
    assert reading.state.lag.messages == 2


def test_a_partition_is_read_to_where_it_ended_though_more_has_come_since(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_of_kafka, "BATCH_MESSAGES", 1)
    looks = itertools.chain([100, 200, 300], itertools.repeat(400))
    monkeypatch.setattr(feed_of_kafka, "elapsed", lambda: next(looks))
    topic = Topic([[message(0), message(1), message(2)]], 1)
    reading = opened(topic)  # at 100
    reading._look(reading._partitions[0])  # at 200
    topic.end = 2
    reading._look(reading._partitions[0])
    passed = []
    while reading.take() is not None:
        passed.append(reading.state.silences[0])
    assert passed == [200, 300, 300]


def test_a_reader_continues_at_once_with_the_partitions_that_an_earlier_one_found(opened: Any) -> None:
    topic = Topic([], 0)
    reading = opened(topic, Share(0, 2, {0: 5, 2: 7, 3: 9}))
    # Partition 3 is the other reader's. Without partition 2 the watermark would pass its messages.
    assert topic.assigned == {0: 5, 2: 7}
    assert set(reading.state.silences) == {0, 2}


def test_nothing_is_taken_once_another_topic_has_the_name(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic([[message(0)]], 1)
    reading = opened(topic)
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: "id")
    reading._find()
    assert topic.assigned == {0: 0, 1: 0}
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: "another id")
    reading._find()
    with pytest.raises(OSError, match="t at localhost:1: another topic has this name now"):
        reading.take()


def test_nothing_is_taken_once_the_topic_compacts(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = opened(Topic([[message(0)]], 1))
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: "id")
    monkeypatch.setattr(feed_of_kafka, "cleanup_policy", lambda *_: "compact,delete")
    reading._find()
    with pytest.raises(OSError, match="it keeps only the last message of each key now"):
        reading.take()


@pytest.mark.parametrize("code", [kafka.KafkaError._AUTO_OFFSET_RESET, kafka.KafkaError.OFFSET_OUT_OF_RANGE])
def test_a_mark_before_what_retention_left_goes_on_with_the_first_message(code: int, opened: Any) -> None:
    topic = Topic([[message(5, code)]], 20)
    topic.first = 9
    reading = opened(topic, Share(0, 1, {0: 5}))
    assert reading.take() is None
    reading._look(reading._partitions[0])
    assert topic.assigned == {0: 9}
    assert reading.state.lost is not None
    topic.calls = [[message(9)]]
    # The counts of batches join over what is gone.
    assert reading.take().offsets == (0, 5, 10)


def test_the_last_message_is_compared_before_others_are_read_after_an_error_of_a_broker(opened: Any) -> None:
    topic = Topic([[message(0), message(1), message(2)]], 3)
    reading = opened(topic)
    assert reading.take().offsets == (0, 0, 3)
    topic.on_error(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
    # What comes before the reader has gone back to the message at 2 may be new.
    topic.calls = [[message(3)], [message(2), message(3)]]
    assert reading.take() is None
    assert topic.assigned == {0: 2}
    assert reading.take().offsets == (0, 3, 4)
    topic.on_error(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
    other = message(3)
    other.timestamp = lambda: (kafka.TIMESTAMP_CREATE_TIME, 1)
    topic.calls = [[], [other, message(4)]]
    assert reading.take() is None
    with pytest.raises(OSError, match="the message before offset 4 is not the one that was read"):
        reading.take()


@pytest.mark.parametrize("end", [message(2, END), message(3, kafka.KafkaError._AUTO_OFFSET_RESET)])
def test_a_log_that_ends_before_the_last_message_after_an_error_ends_the_run(end: Any, opened: Any) -> None:
    topic = Topic([[message(0), message(1), message(2)]], 3)
    reading = opened(topic)
    assert reading.take().offsets == (0, 0, 3)
    topic.on_error(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
    topic.calls, topic.end = [[], [end]], 2
    assert reading.take() is None

    def go_on() -> None:
        reading.take()
        reading._look(reading._partitions[0])
        reading.take()

    with pytest.raises(OSError, match="the message before offset 3 is not the one that was read"):
        go_on()


def test_a_reader_that_is_made_again_compares_the_last_message_that_was_committed(opened: Any) -> None:
    topic = Topic([[message(4), message(5), message(6)]], 7)
    known = checksum_of(message(4))
    reading = opened(topic, Share(0, 1, {0: 6}, {0: known}))
    assert topic.assigned == {0: 4}
    assert reading.take().offsets == (0, 6, 7)


def test_an_offset_past_the_end_of_a_partition_ends_the_run(opened: Any) -> None:
    reading = opened(Topic([[message(5, kafka.KafkaError.OFFSET_OUT_OF_RANGE)]], 3), Share(0, 1, {0: 5}))
    reading.take()
    reading._look(reading._partitions[0])
    assert reading.state.lost is None
    with pytest.raises(OSError, match="the message before offset 5 is not the one that was read"):
        reading.take()


def test_messages_that_are_not_read_again_are_suspected_no_more(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "decoding-1.json").write_text(json.dumps({"messages": ["t/0/3", "t/0/4"]}))
    (tmp_path / "decoding-2.json").write_text(json.dumps({"messages": ["t/0/5", "t/1/3"]}))
    opened(Topic([], 0), Share(0, 1, {0: 5}))
    assert [path.name for path in tmp_path.iterdir()] == ["decoding-2.json"]


def test_offsets_that_a_broker_refuses_to_commit_hold_up_no_stream_and_are_warned_of_once(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(feed_of_kafka.FEEDS, "warning", lambda text, *of: warnings.append(text % of))
    topic = Topic([], 0)
    reading = opened(topic, group="watched")
    reading.acknowledge(["0:1"])
    assert not warnings
    for code in ("GROUP_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "_WAIT_COORD"):
        topic.refusal = kafka.KafkaError(getattr(kafka.KafkaError, code))
        reading.acknowledge(["0:2"])
    topic.refusal = kafka.KafkaError(kafka.KafkaError.UNKNOWN_MEMBER_ID)
    reading.acknowledge(["0:3"])
    assert len(warnings) == 3
    assert "other consumers are in it, and share the topic; end them, or give --group" in warnings[-1]
    assert all("offsets are not committed for group watched: " in warning for warning in warnings)


def test_a_partition_without_a_leader_keeps_nobody_from_looking_at_others_and_for_new_ones(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic([], 0)
    reading = opened(topic, Share(0, 1, {0: 0, 2: 0}))
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: reading.feed.identity)
    topic.leaderless = {0}
    assert reading._look_at_all(True) is not None
    assert reading.state.silences[0] is None
    assert reading.state.silences[2] is not None
    assert set(topic.assigned) == {0, 1, 2}
    topic.leaderless = set()
    assert reading._look_at_all(False) is None


@pytest.mark.parametrize(
    ("code", "ends"), [("LEADER_NOT_AVAILABLE", False), ("TOPIC_AUTHORIZATION_FAILED", True)]
)
def test_an_error_of_the_topic_that_passes_does_not_end_the_stream(
    code: str, ends: bool, opened: Any
) -> None:
    topic = Topic([], 0)
    reading = opened(topic)
    topic.error = kafka.KafkaError(getattr(kafka.KafkaError, code))
    reading._find()
    if ends:
        with pytest.raises(OSError, match="t at localhost:1: "):
            reading.take()
    else:
        assert reading.take() is None

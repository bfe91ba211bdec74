"""The feed of a topic without a broker: what librdkafka delivers, and what is known of its partitions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ldpbeam.schemas.messages.binary import Poll
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import kafka as feed_of_kafka
from ldpbeam.transforms.sources import poll_batches
from ldpbeam.transforms.sources.feeds import UNFOUND
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_checksums import checksum_of
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.on_record import DEFEATED

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

REPORT = {"user_id": "u", "attribute": "x", "service": "a", "payload": 0.5, "event_time": 1_700_000_000_000}
END = kafka.KafkaError._PARTITION_EOF


class Delivered(NamedTuple):
    """A message of a partition as librdkafka delivers it."""

    at: int
    code: int | None = None
    data: bytes = json.dumps(REPORT).encode()
    number: int = 0
    stamp: tuple[int, int] = (kafka.TIMESTAMP_CREATE_TIME, 0)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return self.data

    def __len__(self) -> int:
        return len(self.data)

    def headers(self) -> list[tuple[str, bytes]]:
        return [("content-type", b"application/json")]

    def timestamp(self) -> tuple[int, int]:
        return self.stamp

    def error(self) -> Any:
        return None if self.code is None else kafka.KafkaError(self.code)


def message(offset: int, error: int | None = None, **other: Any) -> Delivered:
    return Delivered(offset, error, **other)


class Topic:
    """A topic of which a client delivers some messages, call by call, and says the end of every partition."""

    def __init__(self, calls: Sequence[Sequence[Any]], end: int) -> None:
        self.calls = list(calls)
        self.first, self.end = 0, end
        self.assigned: dict[int, int] = {}
        self.refusal: Any = None
        self.committed: dict[int, int] = {}
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
        self.committed = {each.partition: each.offset for each in offsets}
        self.on_commit(self.refusal, offsets)

    def unassign(self) -> None:
        """Deliver no more."""


def at(partition: int, offset: int, *checksums: Any) -> Any:
    """The position at an offset of a partition, as the manifest of a run has it."""
    position = {"offsets": [[partition, offset]], "checksums": [[partition, [*map(list, checksums)]]]}
    return json.loads(json.dumps(position))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Opens a feed of partition 0 on a topic; the test looks at ends in place of its thread."""
    monkeypatch.setattr(feed_of_kafka, "LOOKING_SECONDS", 3600.0)
    monkeypatch.setattr(feed_of_kafka, "cleanup_policy", lambda *_: "delete")
    readings: list[Any] = []

    def open_on(topic: Topic, position: Any = None, **given: Any) -> Any:
        monkeypatch.setattr(feed_of_kafka, "client", topic.client)
        feed = KafkaFeed(KafkaTopic("localhost:1", "t"), "id", Columns(), str(tmp_path), **given)
        readings.append(feed.open_at(at(0, 0) if position is None else position))
        return readings[-1]

    yield open_on
    for reading in readings:
        reading.close()


@pytest.mark.parametrize(
    "calls", [[[message(0), message(1), message(3, END)]], [[message(0), message(1)], [message(3, END)]]]
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


def test_a_process_continues_at_once_with_the_partitions_that_an_earlier_one_found(opened: Any) -> None:
    topic = Topic([], 0)
    reading = opened(topic, {"offsets": [[0, 5], [2, 7]], "checksums": []})
    # Without partition 2 the watermark would pass its messages.
    assert topic.assigned == {0: 5, 2: 7}
    assert set(reading.state.silences) == {UNFOUND, 0, 2}


def test_nothing_is_taken_once_another_topic_has_the_name(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic([[message(0)]], 1)
    reading = opened(topic)
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: "id")
    reading._find()
    assert topic.assigned == {0: 0, 1: 0}
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: "another id")
    reading._check()
    with pytest.raises(OSError, match="t at localhost:1: another topic has this name now"):
        reading.take()


def test_nothing_is_taken_once_the_topic_compacts(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = opened(Topic([[message(0)]], 1))
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: "id")
    monkeypatch.setattr(feed_of_kafka, "cleanup_policy", lambda *_: "compact,delete")
    reading._check()
    with pytest.raises(OSError, match="it keeps only the last message of each key now"):
        reading.take()


@pytest.mark.parametrize("code", [kafka.KafkaError._AUTO_OFFSET_RESET, kafka.KafkaError.OFFSET_OUT_OF_RANGE])
def test_a_mark_before_what_retention_left_goes_on_with_the_first_message(code: int, opened: Any) -> None:
    topic = Topic([[message(5, code)]], 20)
    topic.first = 9
    reading = opened(topic, at(0, 5))
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
    other = message(3, stamp=(kafka.TIMESTAMP_CREATE_TIME, 1))
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


def test_an_offset_past_the_end_of_a_partition_ends_the_run(opened: Any) -> None:
    reading = opened(Topic([[message(5, kafka.KafkaError.OFFSET_OUT_OF_RANGE)]], 3), at(0, 5))
    reading.take()
    reading._look(reading._partitions[0])
    assert reading.state.lost is None
    with pytest.raises(OSError, match="the message before offset 5 is not the one that was read"):
        reading.take()


def test_offsets_that_a_broker_refuses_to_commit_hold_up_no_stream_and_are_warned_of_once(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(feed_of_kafka.FEEDS, "warning", lambda text, *of: warnings.append(text % of))
    topic = Topic([], 0)
    reading = opened(topic, group="watched")
    reading.position()
    reading.commit()
    assert not warnings
    for code in ("GROUP_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "_WAIT_COORD"):
        topic.refusal = kafka.KafkaError(getattr(kafka.KafkaError, code))
        reading.commit()
    topic.refusal = kafka.KafkaError(kafka.KafkaError.UNKNOWN_MEMBER_ID)
    reading.commit()
    assert len(warnings) == 3
    assert "other consumers are in it, and share the topic; end them, or give --group" in warnings[-1]
    assert all("offsets are not committed for group watched: " in warning for warning in warnings)


def test_a_partition_without_a_leader_keeps_nobody_from_looking_at_others_and_for_new_ones(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic([], 0)
    reading = opened(topic, {"offsets": [[0, 0], [2, 0]], "checksums": []})
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


def test_a_process_goes_on_where_the_position_says_and_the_group_sees_what_was_committed(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_of_kafka, "BATCH_MESSAGES", 2)
    sent = [message(offset) for offset in range(6)]
    topic = Topic([sent], 6)
    first = opened(topic, group="watched")
    assert first.take().offsets == (0, 0, 2)
    position = json.loads(json.dumps(first.position()))
    # What is taken after the position was asked for is not committed with it.
    assert first.take().offsets == (0, 2, 4)
    assert topic.committed == {}
    first.commit()
    assert topic.committed == {0: 2}
    assert position == at(0, 2, *map(checksum_of, sent[:2]))
    first.close()
    topic.calls = [sent[1:]]
    second = opened(topic, position)
    assert topic.assigned == {0: 1}  # the last message that was taken is compared
    assert [second.take().offsets for _ in range(2)] == [(0, 2, 4), (0, 4, 6)]
    assert second.position() == at(0, 6, *map(checksum_of, sent))


def test_at_the_beginning_every_partition_is_read_from_its_first_message(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_of_kafka, "identity_of", lambda *_: "id")
    topic = Topic([], 0)
    reading = opened(topic, {"offsets": [], "checksums": []})
    assert reading.state.silences == {UNFOUND: None}
    reading._find()
    assert topic.assigned == {0: 0, 1: 0}
    silences = reading.state.silences
    assert silences[UNFOUND] is not None
    assert silences[0] is silences[1] is None


def test_a_message_counts_as_published_when_it_was_fetched_if_no_broker_has_dated_it(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(1_000)
    monkeypatch.setattr(feed_of_kafka, "BATCH_MESSAGES", 2)
    dated = kafka.TIMESTAMP_LOG_APPEND_TIME
    by_broker = [message(3, stamp=(dated, 7)), message(4, stamp=(dated, 9))]
    topic = Topic([[message(0), message(1), message(2)], by_broker], 5)
    reading = opened(topic, clock=lambda: next(ticks))
    published = [(each.oldest, each.published) for each in iter(reading.take, None)]
    # A batch knows all that were fetched with it.
    assert published == [(1_000, 1_000), (1_000, 1_000), (7, 9)]


def test_each_message_has_the_format_that_its_own_headers_name(opened: Any) -> None:
    class Headed(Delivered):
        """A message of which the offset tells the headers."""

        def headers(self) -> Any:
            if self.at == 3:
                raise SystemError  # a name that is not UTF-8
            return [[("Content-Type", b"text/plain")], [], None, None, [("content-type", None), ("x", b"y")]][
                self.at
            ]

    batch = opened(Topic([[Headed(offset) for offset in range(5)]], 5)).take()
    # Without a format, a message is known by its bytes.
    assert [(letter.position, letter.reason) for letter in batch.letters] == [(0, "unknown_content_type")]
    assert sorted(position for each in batch.batches for position in each["position"].to_pylist()) == [
        1, 2, 3, 4,
    ]  # fmt: skip


def defeating(monkeypatch: pytest.MonkeyPatch, data: bytes) -> list[int]:
    """Let a message end the process, by an error that nobody foresees; how many are decoded together."""
    decoded: list[int] = []
    decode = poll_batches.decode_poll

    def decode_or_die(poll: Poll, columns: Columns) -> Any:
        decoded.append(len(poll.values))
        if data in poll.values:
            raise KeyError(data)
        return decode(poll, columns)

    monkeypatch.setattr(poll_batches, "decode_poll", decode_or_die)
    return decoded


def test_a_message_that_ends_two_processes_alone_is_a_dead_letter_and_all_others_count(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = defeating(monkeypatch, b"{}")
    sent = [message(offset, **({"data": b"{}"} if offset == 700 else {})) for offset in range(1_001)]
    last = []
    for _ in range(5):
        reading = opened(Topic([sent], 1_001))
        with pytest.raises(KeyError):
            list(iter(reading.take, None))  # none of it is committed
        last.append(decoded[-1])
    # Together once more, then in groups of a hundred, then those of the group that ended a process alone.
    assert last == [1_001, 1_001, 100, 1, 1]
    reading = opened(Topic([sent], 1_001))
    batches = list(iter(reading.take, None))
    letters = [letter for batch in batches for letter in batch.letters]
    assert [(one.file, one.position, one.reason, one.record) for one in letters] == [
        ("t/0", 700, DEFEATED, b"{}")
    ]
    assert sum(each.num_rows for batch in batches for each in batch.batches) == 1_000
    assert reading.position()["offsets"] == [[0, 1_001]]
    # It is one, too, for a process that begins before it because this one has not committed.
    again = opened(Topic([sent[699:]], 1_001), at(0, 699))
    assert [len(batch.letters) for batch in iter(again.take, None)] == [0, 1, 0]


def test_messages_that_a_run_ends_over_after_they_were_decoded_are_taken_together_once_more(
    opened: Any, tmp_path: Path
) -> None:
    sent = [message(offset) for offset in range(4)]
    opened(Topic([sent[:2]], 2)).take()  # and the process ends while it validates them
    assert json.loads((tmp_path / "decoding.json").read_text()) == [[0, 0, 1, 1]]
    again = opened(Topic([sent], 4))
    assert [batch.offsets[1:] for batch in iter(again.take, None)] == [(0, 2), (2, 4)]
    assert not (tmp_path / "decoding.json").exists()


def test_what_is_not_read_again_is_suspected_no_more(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "decoding.json").write_text(json.dumps([[0, 3, 5, 1], [1, 3, 3, 1]]))
    # Of the suspects of partition 0, one is left; those of partition 1 have not come yet.
    reading = opened(Topic([[message(5), message(6), message(7)]], 8), at(0, 5))
    assert [batch.offsets[1:] for batch in iter(reading.take, None)] == [(5, 6), (6, 8)]
    assert json.loads((tmp_path / "decoding.json").read_text()) == [[1, 3, 3, 1]]


def test_closing_takes_messages_off_the_record(opened: Any, tmp_path: Path) -> None:
    reading = opened(Topic([[message(0), message(1)]], 2))
    reading.take()
    reading.close()
    assert not (tmp_path / "decoding.json").exists()

"""The feed of a topic on a real broker, without an engine: partitions, positions, a broker that is away."""

from __future__ import annotations

import contextlib
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import add_partitions, change, make_anew, new_topic, produce, remove_before
from stream_messages import WEEK_AGO, client, evenly, one_by_one, reports_of, rides
from support.waiting import wait_until

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka import KafkaRequest, reach, reach_destination, span_of
from ldpbeam.inputs.kafka_brokers import EARLIEST, LATEST
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import kafka as feed_of_kafka
from ldpbeam.transforms.sources.feeds import FeedBatch, OpenFeed, Position
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.kafka_position import position_of

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m")


def messages(number: int, seed: int = 1) -> list[Any]:
    """So many messages of one report."""
    return one_by_one(reports_of(STUDY, f"s{seed}", evenly(WEEK_AGO, 1_000, number), seed)[:1])


def opened(
    address: str, topic: str, folder: Path, position: Position | None = None, **given: Any
) -> AbstractContextManager[Any]:
    reached = reach(KafkaRequest(KafkaTopic(address, topic)), {})
    feed = KafkaFeed(KafkaTopic(address, topic), reached.identity, Columns(), str(folder), **given)
    return contextlib.closing(feed.open_at(position or position_of(reached.starts, {})))


def take(reading: OpenFeed, reports: int) -> list[FeedBatch]:
    """The batches of so many reports, however long they take to come."""
    batches: list[FeedBatch] = []
    wait_until(lambda: _take_one(reading, batches) >= reports)
    return batches


def _take_one(reading: OpenFeed, batches: list[FeedBatch]) -> int:
    batch = reading.take()
    if batch is not None:
        batches.append(batch)
    return sum(each.num_rows for batch in batches for each in batch.batches)


def spans(batches: list[FeedBatch]) -> dict[int, list[tuple[int, int]]]:
    """By partition, the offsets of its batches in their order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for batch in batches:
        assert batch.offsets is not None
        found.setdefault(batch.partition, []).append((batch.offsets.first, batch.offsets.after))
    return found


def test_batches_of_a_partition_follow_each_other(kafka: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka.address, 2)
    produce(kafka.address, topic, messages(100), 2)
    with opened(kafka.address, topic, tmp_path) as reading:
        found = spans(take(reading, 100))
    for of_partition in found.values():
        assert of_partition[0][0] == 0
        assert of_partition[-1][1] == 50
        assert [first for first, _ in of_partition[1:]] == [after for _, after in of_partition[:-1]]


def test_another_process_continues_at_a_position(kafka: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka.address, 3)
    produce(kafka.address, topic, messages(90), 3)
    with opened(kafka.address, topic, tmp_path) as reading:
        take(reading, 90)
        position = reading.position()
    produce(kafka.address, topic, messages(30, seed=2), 3)
    with opened(kafka.address, topic, tmp_path, position) as reading:
        found = spans(take(reading, 30))
    assert {number: of_partition[0][0] for number, of_partition in found.items()} == dict.fromkeys(
        range(3), 30
    )


def test_a_partition_that_is_added_is_found_and_read_from_its_beginning(
    kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_of_kafka, "CHECKING_SECONDS", 0.2)
    topic = new_topic(kafka.address, 1)
    produce(kafka.address, topic, messages(10))
    with opened(kafka.address, topic, tmp_path) as reading:
        take(reading, 10)
        add_partitions(kafka.address, topic, 2)
        produce(kafka.address, topic, messages(20), chosen=lambda number, message: 1)
        found = spans(take(reading, 20))
        assert found[1][0][0] == 0
        wait_until(lambda: all(silent is not None for silent in reading.state.silences.values()))
    assert set(reading.state.silences) == {0, 1}


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_run(
    kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_of_kafka, "CHECKING_SECONDS", 0.2)
    topic = new_topic(kafka.address, 1)
    produce(kafka.address, topic, messages(10))
    with opened(kafka.address, topic, tmp_path) as reading:
        take(reading, 10)
        make_anew(kafka.address, topic)
        # Whichever is seen first: its id, or that it has no message at this offset.
        with pytest.raises(OSError, match=r"another topic has this name now|the message before offset 10 is"):
            wait_until(lambda: reading.take() is not None)


def test_a_topic_that_compacts_while_it_is_read_ends_the_run(
    kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_of_kafka, "CHECKING_SECONDS", 0.2)
    topic = new_topic(kafka.address, 1)
    produce(kafka.address, topic, messages(10))
    with opened(kafka.address, topic, tmp_path) as reading:
        take(reading, 10)
        change(kafka.address, topic, "cleanup.policy", "compact")
        with pytest.raises(OSError, match=r"only the last message of each key now .cleanup.policy=compact"):
            wait_until(lambda: reading.take() is not None)


def test_a_broker_that_is_away_is_waited_for_and_nothing_is_read_twice(
    own_kafka: Any, tmp_path: Path
) -> None:
    broker = own_kafka()
    topic = new_topic(broker.address, 1)
    produce(broker.address, topic, messages(50))
    with opened(broker.address, topic, tmp_path) as reading:
        before = take(reading, 50)
        silent = reading.state.silences[0]
        broker.kill()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert reading.take() is None
        broker.start()
        produce(broker.address, topic, messages(30, seed=2))
        found = spans([*before, *take(reading, 30)])
        wait_until(lambda: reading.state.silences[0] is not None and reading.state.silences[0] != silent)
    assert found[0][0][0] == 0
    assert found[0][-1][1] == 80
    assert [first for first, _ in found[0][1:]] == [after for _, after in found[0][:-1]]


def test_offsets_that_retention_has_removed_are_said(kafka: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka.address, 1)
    produce(kafka.address, topic, messages(500))
    remove_before(kafka.address, topic, 300)
    reached = reach(KafkaRequest(KafkaTopic(kafka.address, topic)), {0: 100})
    assert (reached.starts, reached.removed, reached.ends) == ({0: 300}, {0: (100, 300)}, {0: 500})
    with opened(kafka.address, topic, tmp_path, position_of({0: 100}, {})) as reading:
        found = spans(take(reading, 200))
        assert reading.state.lost is not None
    # The counts of batches join over what is gone.
    assert (found[0][0][0], found[0][-1][1]) == (100, 500)


def test_where_a_first_run_begins(kafka: Any) -> None:
    topic = new_topic(kafka.address, 2)
    produce(kafka.address, topic, messages(20), 2)
    between = int(time.time() * 1000) + 50
    time.sleep(0.1)
    produce(kafka.address, topic, messages(6), 2)
    named = KafkaTopic(kafka.address, topic)
    assert reach(KafkaRequest(named), {}).starts == {0: 0, 1: 0}
    assert reach(KafkaRequest(named, LATEST), {}).starts == {0: 13, 1: 13}
    assert reach(KafkaRequest(named, between), {}).starts == {0: 10, 1: 10}
    # An earlier run decides, and a partition that it did not know is read from its beginning.
    assert reach(KafkaRequest(named, LATEST), {0: 5}).starts == {0: 5, 1: 0}
    with pytest.raises(UserError, match=r"--topic no-such-topic: .* has no topic of this name"):
        reach(KafkaRequest(KafkaTopic(kafka.address, "no-such-topic")), {})


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_topic_that_keeps_one_message_of_each_key_is_refused(policy: str, kafka: Any) -> None:
    topic = KafkaTopic(kafka.address, new_topic(kafka.address, 1, cleanup_policy=policy))
    said = rf"--topic {topic.name}: it keeps only the last message of each key \(cleanup\.policy={policy}\)"
    with pytest.raises(UserError, match=said):
        reach(KafkaRequest(topic), {})
    with pytest.raises(UserError, match=said):
        span_of(topic, EARLIEST, LATEST)
    # Estimates have ids as keys, of which the last says all.
    reach_destination(topic)


def test_a_poison_message_is_a_dead_letter_with_its_place(kafka: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka.address, 2)
    bad = [client.Outgoing(b"\xff\x00", "application/avro", 1), client.Outgoing(b"{", "application/json", 1)]
    produce(kafka.address, topic, [*messages(3), *bad], chosen=lambda number, message: 1)
    with opened(kafka.address, topic, tmp_path) as reading:
        batches = take(reading, 3)
    letters = [letter for batch in batches for letter in batch.letters]
    assert {(letter.file, letter.position) for letter in letters} == {(f"{topic}/1", 3), (f"{topic}/1", 4)}

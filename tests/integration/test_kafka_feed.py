"""The feed of a topic on a real broker, without an engine: partitions are added, and the broker is away."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka_messages import add_partitions, new_topic, produce, produce_in_transactions, remove_before
from stream_messages import WEEK_AGO, evenly, one_by_one, reports_of, rides
from support.waiting import wait_until

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka import KafkaRequest, reach, reach_destination, span_of
from ldpbeam.inputs.kafka_brokers import EARLIEST, LATEST
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import kafka as feed_of_kafka
from ldpbeam.transforms.sources.batch_input import decoded_parts
from ldpbeam.transforms.sources.feeds import FeedBatch, OpenFeed, elapsed
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.kafka_position import position_of
from ldpbeam.transforms.sources.watermarks import Watermarks

KafkaException = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed"
).KafkaException
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m")


def messages(number: int, seed: int = 1) -> list[Any]:
    """So many messages of one report."""
    return one_by_one(reports_of(STUDY, f"s{seed}", evenly(WEEK_AGO, 1_000, number), seed)[:1])


def opened(
    address: str, topic: str, folder: Path, position: Any = None, **given: Any
) -> AbstractContextManager[Any]:
    reached = reach(KafkaRequest(KafkaTopic(address, topic)), {})
    feed = KafkaFeed(KafkaTopic(address, topic), reached.identity, Columns(), str(folder), **given)
    position = position_of(reached.starts, {}) if position is None else position
    return contextlib.closing(feed.open_at(json.loads(json.dumps(position))))


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


def follows(found: list[tuple[int, int]]) -> bool:
    """Whether each batch of a partition begins where the one before it ended."""
    return [first for first, _ in found[1:]] == [after for _, after in found[:-1]]


def test_no_report_of_a_partition_that_is_added_is_late(
    kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom new partitions are looked for: here every five seconds, with a disorder of one."""
    from confluent_kafka import Producer

    monkeypatch.setattr(feed_of_kafka, "LOOKING_SECONDS", 5.0)
    topic = new_topic(kafka.address, 1)
    producer = Producer({"bootstrap.servers": kafka.address, "topic.metadata.refresh.interval.ms": 100})
    late: Counter[int] = Counter()
    count: Counter[int] = Counter()

    def send(partition: int) -> None:
        now = time.time_ns() // 1_000_000
        (sent,) = one_by_one(reports_of(STUDY, f"s{now}", np.array([now]), 1)[:1])
        with contextlib.suppress(KafkaException):  # the producer does not know the partition yet
            producer.produce(
                topic, sent.data, partition=partition, headers=[("content-type", sent.content_type)]
            )
        producer.flush()

    with opened(kafka.address, topic, tmp_path) as reading:
        watermarks = Watermarks(1_000, elapsed())
        added, reached = False, None
        while count[1] < 100:
            if not added and count[0] >= 100 and reached is not None:
                add_partitions(kafka.address, topic, 2)
                added = True
            send(0)
            if added:
                send(1)
            watermarks.look(elapsed(), reading.state.silences)
            while (batch := reading.take()) is not None:
                reached, times = watermarks.at(), batch.event_times
                count[batch.partition] += len(times)
                late[batch.partition] += 0 if reached is None else int((times < reached).sum())
                watermarks.take(batch.partition, elapsed(), times, batch.oldest, batch.published)
            reached = watermarks.at()
            time.sleep(0.02)
    assert late[1] == 0


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
    assert follows(found[0])


def test_a_log_that_begins_late_and_has_aborted_transactions_is_read_to_its_end(
    kafka: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, 1)
    produce(kafka.address, topic, messages(10))
    remove_before(kafka.address, topic, 10)
    # At 10 to 12 and at 13, at 14 to 53 and at 54, at 55 to 57 and at 58.
    produce_in_transactions(kafka.address, topic, messages(40), aborted=messages(3, seed=2))
    reached = reach(KafkaRequest(KafkaTopic(kafka.address, topic)), {})
    assert (reached.starts, reached.removed) == ({0: 10}, {})
    with opened(kafka.address, topic, tmp_path) as reading:
        assert sum(batch.num_rows for each in take(reading, 40) for batch in each.batches) == 40
        wait_until(lambda: reading.take() is None and reading.position()["offsets"] == [[0, 59]])
        assert (reading.state.lost, reading.state.lag.messages) == (None, 0)
    produce(kafka.address, topic, messages(5))
    with opened(kafka.address, topic, tmp_path, reading.position()) as again:
        assert spans(take(again, 5))[0][-1][1] == 64
        assert again.state.lost is None
    span = span_of(KafkaTopic(kafka.address, topic), EARLIEST, LATEST)
    parts = list(decoded_parts(span, Columns()))
    assert sum(part.num_rows for part in parts if not isinstance(part, list)) == 45


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

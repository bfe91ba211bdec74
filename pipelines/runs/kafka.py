"""A topic of Kafka as a stream's feed: reached, and with the offsets at which a run begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldpbeam.pipelines.errors import UserError
from ldpbeam.transforms.sources.kafka import NO_GROUP
from ldpbeam.transforms.sources.kafka_client import client, settings_in

#: Seconds to wait for brokers that do not answer.
BROKER_SECONDS = 10.0
EARLIEST, LATEST = "earliest", "latest"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKERS = re.compile(r"[^\s,:/]+:[0-9]+(,[^\s,:/]+:[0-9]+)*")


@dataclass(frozen=True)
class KafkaTopic:
    """A topic, and where in it a run begins.

    Attributes:
        brokers: ``host:port``, several separated by commas.
        topic: the name of the topic.
        begin: :data:`EARLIEST`, :data:`LATEST`, or a time of the brokers in epoch milliseconds.
        group: the group whose committed offsets show how far runs have come; None for none.
        config: a file of settings of librdkafka; None for none.

    Raises:
        UserError: if something is malformed, or the file cannot be used.
    """

    brokers: str
    topic: str
    begin: str | int = EARLIEST
    group: str | None = None
    config: str | None = None

    def __post_init__(self) -> None:
        if not _BROKERS.fullmatch(self.brokers):
            raise UserError(f"--kafka {self.brokers}: write it as HOST:PORT, or HOST:PORT,HOST:PORT")
        if not _TOPIC.fullmatch(self.topic):
            raise UserError(
                f"--topic {self.topic}: a topic of Kafka has 1 to 249 letters, digits and . _ -; topics of "
                "Pub/Sub are read without --kafka"
            )
        if self.config is not None:
            try:
                settings_in(self.config)
            except ValueError as error:
                raise UserError(f"--kafka-config {error}") from None


@dataclass(frozen=True)
class Reached:
    """What the brokers say of a topic.

    Attributes:
        starts: by partition, the offset at which a run begins.
        removed: by partition, (the offset that was asked for, the first that there is), if retention has
            removed the former.
        others: who committed offsets of the group before, in words; None if nobody did but runs named
            ``mine``.
    """

    starts: Mapping[int, int]
    removed: Mapping[int, tuple[int, int]]
    others: str | None


def reach(asked: KafkaTopic, positions: Mapping[int, int]) -> Reached:
    """Ask the brokers for a topic.

    Args:
        asked: the topic.
        positions: the offsets up to which earlier runs have read, by partition; of others, ``asked.begin``
            says where to begin, if no partition has been read.

    Raises:
        UserError: if the brokers do not answer, refuse, or have no such topic.
    """
    try:
        import confluent_kafka as kafka
    except ImportError:
        raise UserError("Kafka needs confluent-kafka: pip install 'ldpbeam[kafka]'") from None
    errors: list[str] = []
    ours = {"group.id": asked.group or NO_GROUP, "error_cb": lambda error: errors.append(error.str())}
    try:
        consumer = client(kafka.Consumer, asked.brokers, asked.config, ours)
        try:
            listed = consumer.list_topics(asked.topic, timeout=BROKER_SECONDS).topics[asked.topic]
            if listed.error is not None:
                raise UserError(f"--topic {asked.topic}: {asked.brokers} says: {listed.error.str()}")
            return _reached(asked, kafka, consumer, sorted(listed.partitions), positions)
        finally:
            consumer.close()
    except ValueError as error:
        raise UserError(f"--kafka {error}") from None
    except kafka.KafkaException as error:
        said = errors[-1] if errors else error.args[0].str()
        raise UserError(
            f"--kafka {asked.brokers}: no answer within {BROKER_SECONDS:.0f} seconds: {said}"
        ) from None


def _reached(
    asked: KafkaTopic, kafka: Any, consumer: Any, partitions: list[int], positions: Mapping[int, int]
) -> Reached:
    ends = {
        each: consumer.get_watermark_offsets(kafka.TopicPartition(asked.topic, each), timeout=BROKER_SECONDS)
        for each in partitions
    }
    # A partition that appeared after earlier runs is read from its beginning.
    begin = {each: low for each, (low, _) in ends.items()}
    if not positions and asked.begin == LATEST:
        begin = {each: high for each, (_, high) in ends.items()}
    elif not positions and asked.begin != EARLIEST:
        asked_for = [kafka.TopicPartition(asked.topic, each, asked.begin) for each in partitions]
        for answer in consumer.offsets_for_times(asked_for, timeout=BROKER_SECONDS):
            begin[answer.partition] = answer.offset if answer.offset >= 0 else ends[answer.partition][1]
    removed = {
        each: (offset, ends[each][0])
        for each, offset in positions.items()
        if each in ends and offset < ends[each][0]
    }
    for each, offset in positions.items():
        if each in ends:
            begin[each] = max(offset, ends[each][0])
    others = None
    if asked.group is not None:
        committed = consumer.committed(
            [kafka.TopicPartition(asked.topic, each) for each in partitions], timeout=BROKER_SECONDS
        )
        if any(each.offset >= 0 for each in committed) and not positions:
            others = asked.group
    return Reached(begin, removed, others)

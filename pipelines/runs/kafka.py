"""A topic of Kafka as a stream's feed: reached, and with the offsets at which a run begins."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ldpbeam.pipelines.errors import UserError
from ldpbeam.transforms.sources.feeds import Offsets
from ldpbeam.transforms.sources.kafka import NO_GROUP
from ldpbeam.transforms.sources.kafka_client import KafkaTopic, client, settings_in
from ldpbeam.transforms.sources.kafka_span import KafkaSpan

#: Seconds to wait for brokers that do not answer.
BROKER_SECONDS = 10.0
#: What a destination of Kafka begins with; other destinations are topics of Pub/Sub.
SCHEME = "kafka://"
EARLIEST, LATEST = "earliest", "latest"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKERS = re.compile(r"[^\s,:/@]+:[0-9]+(,[^\s,:/@]+:[0-9]+)*")


@dataclass(frozen=True)
class KafkaRequest:
    """A topic to read, and where in it a first run begins.

    Attributes:
        topic: the topic.
        begin: :data:`EARLIEST`, :data:`LATEST`, or a time of the brokers in epoch milliseconds.
        group: the group whose committed offsets show how far runs have come; None for none.
    """

    topic: KafkaTopic
    begin: str | int = EARLIEST
    group: str | None = None


@dataclass(frozen=True)
class Reached:
    """What the brokers say of a topic.

    Attributes:
        starts: by partition, the offset at which a run begins.
        removed: by partition, (the offset that was asked for, the first that there is), if retention has
            removed the former.
        ends: by partition, the offset after the last message.
        others: the group, if somebody else has committed offsets for it; None if nobody has.
    """

    starts: Mapping[int, int]
    removed: Mapping[int, tuple[int, int]]
    ends: Mapping[int, int]
    others: str | None


def reach(asked: KafkaRequest, positions: Mapping[int, int]) -> Reached:
    """Ask the brokers for a topic.

    Args:
        asked: the topic, and where to begin.
        positions: the offsets up to which earlier runs have read, by partition; of others, ``asked.begin``
            says where to begin, if no partition has been read.

    Raises:
        UserError: if the brokers do not answer, refuse, or have no such topic.
    """
    with _asking("--kafka", asked.topic, asked.group or NO_GROUP) as answer:
        return _reached(asked, *answer, positions)


def span_of(topic: KafkaTopic, begin: str | int, end: str | int) -> KafkaSpan:
    """The offsets of a topic from one place on and before another.

    Args:
        topic: the topic.
        begin: :data:`EARLIEST`, :data:`LATEST` (the end as it is now), or a time of the brokers in epoch
            milliseconds.
        end: the same.

    Raises:
        UserError: if the brokers do not answer, refuse, or have no such topic.
    """
    with _asking("--kafka", topic, NO_GROUP) as answer:
        ends = _ends(topic.name, *answer)
        firsts, afters = (_offsets(topic.name, *answer, ends, where) for where in (begin, end))
    offsets = tuple(
        Offsets(partition, first, afters[partition])
        for partition, first in sorted(firsts.items())
        if first < afters[partition]
    )
    return KafkaSpan(topic, offsets)


def reach_destination(topic: KafkaTopic) -> None:
    """Ask the brokers for the topic to which estimates are published.

    Raises:
        UserError: if they do not answer, refuse, or have no such topic.
    """
    with _asking("--publish-to", topic, NO_GROUP):
        pass


def topic_of(brokers: str, name: str, config: str | None) -> KafkaTopic:
    """The topic that ``--kafka`` and ``--topic`` name.

    Raises:
        UserError: if something is malformed, or the file of settings cannot be used. Its text has nothing of
            what precedes an @, as that may be secret.
    """
    if "@" in brokers:
        raise UserError(
            f"--kafka {_without_users(brokers)}: write it as HOST:PORT, and users and passwords into the "
            "file of --kafka-config"
        )
    if not _BROKERS.fullmatch(brokers):
        raise UserError(f"--kafka {brokers}: write it as HOST:PORT, or HOST:PORT,HOST:PORT")
    if not _TOPIC.fullmatch(name):
        raise UserError(
            f"--topic {name}: a topic of Kafka has 1 to 249 letters, digits and . _ -; topics of Pub/Sub are "
            "read without --kafka"
        )
    return _with_settings(KafkaTopic(brokers, name, config))


def topic_at(option: str, text: str, config: str | None) -> KafkaTopic:
    """The topic that ``kafka://BROKERS/TOPIC`` names.

    Raises:
        UserError: as of :func:`topic_of`.
    """
    brokers, _, topic = text.removeprefix(SCHEME).partition("/")
    if "@" in text:
        raise UserError(
            f"{option} {SCHEME}{_without_users(text)}: write it as {SCHEME}HOST:PORT/TOPIC, and users and "
            "passwords into the file of --kafka-config"
        )
    if not text.startswith(SCHEME) or not _BROKERS.fullmatch(brokers) or not _TOPIC.fullmatch(topic):
        raise UserError(f"{option} {text}: write it as {SCHEME}HOST:PORT/TOPIC")
    return _with_settings(KafkaTopic(brokers, topic, config))


def _without_users(text: str) -> str:
    """A text that has an @, without what precedes it."""
    return f"...@{text.rpartition('@')[2]}"


def _with_settings(topic: KafkaTopic) -> KafkaTopic:
    if topic.config is not None:
        try:
            settings_in(topic.config)
        except ValueError as error:
            raise UserError(f"--kafka-config {error}") from None
    return topic


@contextmanager
def _asking(option: str, topic: KafkaTopic, group: str) -> Iterator[tuple[Any, Any, list[int]]]:
    """The module of Kafka, a consumer, and the partitions of a topic.

    Raises:
        UserError: if the brokers do not answer, refuse, or have no such topic, also inside the block.
    """
    try:
        import confluent_kafka as kafka
    except ImportError:
        raise UserError("Kafka needs confluent-kafka: pip install 'ldpbeam[kafka]'") from None
    errors: list[str] = []
    ours = {"group.id": group, "error_cb": lambda error: errors.append(error.str())}
    try:
        consumer = client(kafka.Consumer, topic, ours)
        try:
            listed = consumer.list_topics(topic.name, timeout=BROKER_SECONDS).topics[topic.name]
            if listed.error is not None:
                named = f"--topic {topic.name}" if option == "--kafka" else f"{option} {topic.name}"
                raise UserError(f"{named}: {topic.brokers} says: {listed.error.str()}")
            yield kafka, consumer, sorted(listed.partitions)
        finally:
            consumer.close()
    except ValueError as error:
        raise UserError(f"{option} {error}") from None
    except kafka.KafkaException as error:
        silent = f"no answer within {BROKER_SECONDS:.0f} seconds: {error.args[0].str()}"
        raise UserError(f"{option} {topic.brokers}: {errors[-1] if errors else silent}") from None


def _reached(
    asked: KafkaRequest, kafka: Any, consumer: Any, partitions: list[int], positions: Mapping[int, int]
) -> Reached:
    ends = _ends(asked.topic.name, kafka, consumer, partitions)
    # A partition that appeared after earlier runs is read from its beginning.
    where = EARLIEST if positions else asked.begin
    begin = _offsets(asked.topic.name, kafka, consumer, partitions, ends, where)
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
        committed = _committed(
            kafka, consumer, [kafka.TopicPartition(asked.topic.name, each) for each in partitions]
        )
        if any(each.offset >= 0 for each in committed) and not positions:
            others = asked.group
    return Reached(begin, removed, {each: after for each, (_, after) in ends.items()}, others)


def _committed(kafka: Any, consumer: Any, asked: list[Any]) -> list[Any]:
    """The offsets that the consumer's group has committed; brokers may need time to find its coordinator."""
    end = time.monotonic() + BROKER_SECONDS
    while True:
        try:
            committed: list[Any] = consumer.committed(asked, timeout=BROKER_SECONDS)
            return committed
        except kafka.KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > end:
                raise
            time.sleep(0.1)


def _ends(topic: str, kafka: Any, consumer: Any, partitions: list[int]) -> dict[int, tuple[int, int]]:
    """By partition, the offset of the first message that there is, and the one after the last."""
    return {
        each: consumer.get_watermark_offsets(kafka.TopicPartition(topic, each), timeout=BROKER_SECONDS)
        for each in partitions
    }


def _offsets(
    topic: str,
    kafka: Any,
    consumer: Any,
    partitions: list[int],
    ends: Mapping[int, tuple[int, int]],
    where: str | int,
) -> dict[int, int]:
    """By partition, the offset of a place: a word, or the first message from a time on."""
    if isinstance(where, str):
        return {each: ends[each][where == LATEST] for each in partitions}
    asked_for = [kafka.TopicPartition(topic, each, where) for each in partitions]
    answers = consumer.offsets_for_times(asked_for, timeout=BROKER_SECONDS)
    return {each.partition: each.offset if each.offset >= 0 else ends[each.partition][1] for each in answers}

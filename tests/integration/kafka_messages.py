"""Topics on a Kafka broker, and messages in them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from support.waiting import PATIENCE

#: Of a message, the partition that it goes to.
Chosen = Callable[[int, Any], int]


def new_topic(address: str, partitions: int = 1, **settings: str) -> str:
    """A new topic, whose name nobody has used; settings have underscores for dots."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"t-{uuid.uuid4().hex}"
    config = {setting.replace("_", "."): value for setting, value in settings.items()}
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(PATIENCE)
    return name


def produce_in_transactions(
    address: str, topic: str, messages: Sequence[Any], *, aborted: Sequence[Any]
) -> None:
    """Write messages to partition 0 in a transaction that is committed, others in two that are aborted.

    Each transaction takes an offset for its marker.
    """
    from confluent_kafka import Producer

    writer = Producer({"bootstrap.servers": address, "transactional.id": uuid.uuid4().hex})
    writer.init_transactions(PATIENCE)
    for some, end in (
        (aborted, writer.abort_transaction),
        (messages, writer.commit_transaction),
        (aborted, writer.abort_transaction),
    ):
        writer.begin_transaction()
        for message in some:
            writer.produce(topic, message.data, partition=0, headers={"content-type": message.content_type})
        writer.flush(PATIENCE)
        end(PATIENCE)


def add_partitions(address: str, topic: str, partitions: int) -> None:
    """Let a topic have so many partitions."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": address})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE)


def remove_before(address: str, topic: str, offset: int, partition: int = 0) -> None:
    """Remove the messages before an offset, as retention does."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    place = TopicPartition(topic, partition, offset)
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_records([place])[place].result(PATIENCE)


def allow(address: str, user: str, topic: str, operation: str) -> None:
    """Give a user a right to a topic."""
    from confluent_kafka import admin

    binding = admin.AclBinding(
        admin.ResourceType.TOPIC, topic, admin.ResourcePatternType.LITERAL, f"User:{user}", "*",
        admin.AclOperation[operation], admin.AclPermissionType.ALLOW,
    )  # fmt: skip
    client = admin.AdminClient({"bootstrap.servers": address})
    client.create_acls([binding])[binding].result(PATIENCE)


def produce(
    address: str,
    topic: str,
    messages: Sequence[Any],
    partitions: int = 1,
    chosen: Chosen | None = None,
    time_of: Callable[[Any], int] = lambda message: 0,
) -> None:
    """Produce messages, by default to one partition after the other; in each they keep their order.

    Their time is the clock's, unless a function gives another in epoch milliseconds.
    """
    from confluent_kafka import Producer

    problems: list[Any] = []

    def note(error: Any, _: Any) -> None:
        if error is not None:
            problems.append(error)

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    for number, message in enumerate(messages):
        partition = number % partitions if chosen is None else chosen(number, message)
        headers = [("content-type", message.content_type.encode())]
        while True:
            try:
                place = {"partition": partition, "timestamp": time_of(message)}
                producer.produce(topic, message.data, headers=headers, on_delivery=note, **place)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    assert not problems, problems[0]


def ends(address: str, topic: str, partitions: int) -> list[int]:
    """The offset after the last message of each partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "looks"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=PATIENCE)[1]
            for number in range(partitions)
        ]
    finally:
        consumer.close()


def committed(address: str, topic: str, group: str, partitions: int) -> list[int]:
    """The offsets that a group has committed; below 0 of partitions without any."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return [each.offset for each in consumer.committed(asked, timeout=PATIENCE)]
    except KafkaException:  # a new broker has no coordinator of groups at first
        return [-1] * partitions
    finally:
        consumer.close()


def consumed(address: str, topic: str) -> list[tuple[str, bytes]]:
    """The keys and values of all messages of a topic with one partition."""
    from confluent_kafka import Consumer, TopicPartition

    (last,) = ends(address, topic, 1)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "looks", "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(last, PATIENCE) if last else []
        assert {dict(message.headers())["content-type"] for message in messages} == {b"application/json"}
        return [(message.key().decode(), message.value()) for message in messages]
    finally:
        consumer.close()

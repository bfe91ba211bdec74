"""Reading a span of a topic of Kafka in a batch run: offsets of each partition, spread over workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.batch_input import BatchInput, Reading, in_parts
from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.kafka import BATCH_BYTES, BATCH_MESSAGES
from ldpbeam.transforms.sources.kafka_client import READING, KafkaTopic, client, is_out_of_range, passes
from ldpbeam.transforms.sources.kafka_messages import poll_of
from ldpbeam.transforms.sources.poll_batches import batches_of

#: The offsets that one worker reads at a time.
RANGE = 250_000
#: Seconds without an answer of the brokers after which a read fails.
PATIENCE = 60.0


def span_of_topic(topic: KafkaTopic, offsets: Sequence[Offsets]) -> BatchInput:
    """Offsets of a topic as an input, of which brokers do not say how many bytes it has.

    Args:
        topic: the topic.
        offsets: those of each partition that has any.
    """
    start = f"kafka://{topic.brokers}/{topic.name}"
    names = tuple(f"{start}/{partition}/{first}-{after}" for partition, first, after in offsets)
    return BatchInput(offsets, Reading(partial(_decode_range, topic), _in_ranges), None, names)


def _in_ranges(offsets: tuple[int, int, int]) -> Iterator[Offsets]:
    """Offsets of a partition in ranges that workers read side by side."""
    partition, first, after = offsets
    for start in range(first, after, RANGE):
        yield Offsets(partition, start, min(after, start + RANGE))


def _decode_range(
    topic: KafkaTopic, offsets: tuple[int, int, int], columns: Columns
) -> Iterator[pa.RecordBatch | list[DeadLetter]]:
    """What is decoded of a range of one partition.

    Raises:
        OSError: if the brokers do not answer, refuse, or no longer have the range.
    """
    for taken in read_offsets(topic, Offsets(*offsets), columns):
        yield from taken.batches
        yield list(taken.letters)


def read_offsets(topic: KafkaTopic, offsets: Offsets, columns: Columns) -> Iterator[FeedBatch]:
    """The batches of a range of one partition.

    Raises:
        OSError: if the brokers do not answer, refuse, or no longer have the range.
    """
    # Imported here because a run over files does not need it.
    import confluent_kafka

    problems: list[str] = []
    settings = READING | {"error_cb": lambda error: problems.append(error.str())}
    consumer = client(confluent_kafka.Consumer, topic, settings)
    name = f"{topic.name}/{offsets.partition}"
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic.name, offsets.partition, offsets.first)])
        messages = _messages(confluent_kafka.KafkaError, consumer, offsets, problems)
        for part in in_parts(messages, lambda one: len(one.value() or b""), BATCH_MESSAGES, BATCH_BYTES):
            yield from (batch for batch, _ in batches_of(name, columns, poll_of(name, part)))
    except (confluent_kafka.KafkaException, OSError) as error:
        said = error.args[0].str() if isinstance(error, confluent_kafka.KafkaException) else str(error)
        raise OSError(f"{name} at {topic.brokers}: {said}") from None
    finally:
        consumer.close()


def _messages(errors: Any, consumer: Any, offsets: Offsets, problems: list[str]) -> Iterator[Any]:
    """The messages of a range of the assigned partition, in their order.

    Raises:
        OSError: if they are not to be had.
    """
    quiet_since = time.monotonic()
    while True:
        answered = False
        for message in consumer.consume(BATCH_MESSAGES, 1.0):
            error = message.error()
            if error is None or error.code() == errors._PARTITION_EOF:
                answered = True
                # Offsets before the end may have no message.
                if message.offset() >= offsets.after:
                    return
                if error is None:
                    yield message
                    if message.offset() + 1 == offsets.after:
                        return
            elif message.topic() is None:
                # An error of the group, to which the user may have no right. Nothing is read from the group.
                problems.append(error.str())
            elif is_out_of_range(error):
                raise OSError(f"retention has removed offsets from {offsets.first:,} on while the run read")
            elif not passes(error):
                raise OSError(error.str())
            else:
                problems.append(error.str())
        if answered:
            # The time that the messages took from here on is not the brokers'.
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= PATIENCE:
            why = problems[-1] if problems else "no message"
            raise OSError(f"offset {offsets.after - 1:,} did not come for {PATIENCE:.0f} seconds: {why}")

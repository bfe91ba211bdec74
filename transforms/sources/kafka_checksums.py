"""Checksums of messages that were read, to detect that an offset has another message since.

A broker that lost the end of a log, in a power failure or because it became the leader without it, gives the
offsets of what is lost to new messages. Without replicas, it does not even raise its leader epoch.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ldpbeam.transforms.offsets import Checksum, spaced
from ldpbeam.transforms.sources.kafka_client import READING, KafkaTopic, client, is_out_of_range, passes

#: Seconds to wait for messages.
ANSWER_SECONDS = 10.0


def checksum_of(delivered: Any) -> Checksum:
    """The checksum of a message that librdkafka delivered."""
    seed = delivered.timestamp()[1] & 0xFFFFFFFF
    return Checksum(delivered.offset(), zlib.crc32(delivered.value() or b"", seed))


def checksums_of(delivered: Sequence[Any]) -> list[Checksum]:
    """The checksums of messages of a partition, in their order, but for those that would be thinned out."""
    offsets = np.array([message.offset() for message in delivered], dtype=np.int64)
    return [checksum_of(delivered[place]) for place in spaced(offsets).tolist()]


def checksums_at(topic: KafkaTopic, offsets: Mapping[int, int]) -> dict[int, Checksum | None]:
    """By partition, the checksum of the first message from an offset on; None if there is none.

    Raises:
        KafkaException: if the brokers do not answer.
    """
    # Imported here because a stream of another feed does not need it.
    import confluent_kafka

    errors, found = confluent_kafka.KafkaError, dict[int, Checksum | None]()
    settings = READING | {"queued.min.messages": 1}
    end = time.monotonic() + ANSWER_SECONDS
    with contextlib.closing(client(confluent_kafka.Consumer, topic, settings)) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic.name, *place) for place in offsets.items()])
        while found.keys() != offsets.keys():
            if time.monotonic() > end:
                raise confluent_kafka.KafkaException(errors(errors._TIMED_OUT))
            for message in consumer.consume(1_000, 0.2):
                error = message.error()
                if error is None:
                    found.setdefault(message.partition(), checksum_of(message))
                elif error.code() == errors._PARTITION_EOF or is_out_of_range(error):
                    found.setdefault(message.partition(), None)
                elif message.topic() is not None and not passes(error):
                    raise confluent_kafka.KafkaException(error)
    return found

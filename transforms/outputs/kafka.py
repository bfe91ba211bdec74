"""Publishing estimates to a topic of Kafka."""

from __future__ import annotations

import json
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.transforms.outputs.panes import PATIENCE, estimate_id
from ldpbeam.transforms.sources.kafka_client import KafkaTopic, client
from ldpbeam.transforms.sources.kafka_messages import CONTENT_TYPE


class PublishToKafka(beam.DoFn):
    """Publish estimates as JSON messages, each with its id as the key.

    The producer is idempotent: what it sends again after a broken connection is in the topic once, and in
    order. A bundle that the engine repeats has the same keys with the same bytes.

    Args:
        topic: the topic.
    """

    def __init__(self, topic: KafkaTopic) -> None:
        self.topic = topic
        self._producer: Any
        self._failed: list[str]

    def setup(self) -> None:
        """Make the producer, which connects when there is something to send."""
        from confluent_kafka import Producer

        ours = {
            "enable.idempotence": True,
            "delivery.timeout.ms": int(1000 * PATIENCE),
            "error_cb": lambda error: None,
        }
        self._producer = client(Producer, self.topic, ours)

    def start_bundle(self) -> None:
        """Start with no messages in flight."""
        self._failed = []

    def process(self, record: EstimateRecord) -> None:
        """Begin to publish an estimate."""
        message = json.dumps(json_fields(record)).encode()
        while True:
            try:
                self._producer.produce(
                    self.topic.name,
                    message,
                    key=estimate_id(record).encode(),
                    headers=[(CONTENT_TYPE, b"application/json")],
                    on_delivery=self._delivered,
                )
                return
            except BufferError:  # librdkafka's queue is full until some are delivered
                self._producer.poll(1.0)

    def finish_bundle(self) -> None:
        """Wait until the brokers have every estimate; after a failure the engine retries the bundle.

        Raises:
            OSError: if they do not have them all.
        """
        left = self._producer.flush(PATIENCE)
        if left or self._failed:
            said = self._failed[0] if self._failed else f"no answer for {PATIENCE:.0f} seconds"
            raise OSError(f"{self.topic}: {said}")

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error.str())

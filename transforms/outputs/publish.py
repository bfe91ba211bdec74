"""Publishing estimates as JSON messages, to a topic of Pub/Sub or of Kafka, each with its id."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.transforms.outputs.panes import estimate_id
from ldpbeam.transforms.sources.kafka_client import KafkaTopic, client

#: Seconds to wait until a server has the estimates of a pane.
PATIENCE = 60.0
JSON = "application/json"

#: Publishes estimates, and returns when the server has them all. It raises an OSError if it does not take
#: them.
Publisher = Callable[[Sequence[EstimateRecord]], None]


@dataclass(frozen=True)
class ToPubSub:
    """A topic of Pub/Sub; a message has the id of its estimate in the attribute ``id``.

    Attributes:
        topic: its full name, as ``projects/P/topics/T``.
    """

    topic: str

    def open(self) -> Publisher:
        """Connect to the server in ``PUBSUB_EMULATOR_HOST``, or Google's."""
        from google.api_core.exceptions import GoogleAPIError
        from google.cloud import pubsub_v1

        publisher = pubsub_v1.PublisherClient()

        def publish(records: Sequence[EstimateRecord]) -> None:
            sent = [
                publisher.publish(
                    self.topic, _message(record), **{"content-type": JSON, "id": estimate_id(record)}
                )
                for record in records
            ]
            for future in sent:
                try:
                    future.result(timeout=PATIENCE)
                except TimeoutError:
                    raise OSError(f"{self.topic}: no answer for {PATIENCE:.0f} seconds") from None
                except GoogleAPIError as error:
                    raise OSError(f"{self.topic}: {getattr(error, 'message', None) or error}") from None

        return publish


@dataclass(frozen=True)
class ToKafka:
    """A topic of Kafka; a message has the id of its estimate as its key.

    The producer is idempotent: what it sends again after a broken connection is in the topic once, and in
    order. A pane that is published again has the same keys with the same bytes.

    Attributes:
        topic: the topic.
    """

    topic: KafkaTopic

    def open(self) -> Publisher:
        """Make the producer, which connects when there is something to send."""
        from confluent_kafka import Producer

        failed: list[str] = []
        ours = {
            "enable.idempotence": True,
            "delivery.timeout.ms": int(1000 * PATIENCE),
            "error_cb": lambda error: None,
        }
        producer = client(Producer, self.topic, ours)

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error.str())

        def publish(records: Sequence[EstimateRecord]) -> None:
            failed.clear()
            for record in records:
                self._produce(producer, record, delivered)
            waiting = producer.flush(PATIENCE)
            if waiting or failed:
                said = failed[0] if failed else f"no answer for {PATIENCE:.0f} seconds"
                raise OSError(f"{self.topic}: {said}")

        return publish

    def _produce(self, producer: Any, record: EstimateRecord, delivered: Callable[[Any, Any], None]) -> None:
        while True:
            try:
                producer.produce(
                    self.topic.name,
                    _message(record),
                    key=estimate_id(record).encode(),
                    headers=[("content-type", JSON.encode())],
                    on_delivery=delivered,
                )
                return
            except BufferError:  # librdkafka's queue is full until some are delivered
                producer.poll(1.0)


def _message(record: EstimateRecord) -> bytes:
    return json.dumps(json_fields(record)).encode()

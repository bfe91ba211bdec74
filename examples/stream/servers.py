"""Where the demonstration's clients send reports, and from where it reads estimates: Pub/Sub or Kafka."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import broker
import client
import pubsub

#: Sends messages; and gives the estimates that come within two seconds.
Send = Callable[[Sequence[client.Outgoing]], None]
Receive = Callable[[], list[bytes]]
#: Partitions of the topic of reports.
PARTITIONS = 4


@dataclass(frozen=True)
class PubSub:
    """A Pub/Sub server with a topic for reports and one for estimates."""

    name: str
    reports: str = f"projects/{pubsub.PROJECT}/topics/reports"
    estimates: str = f"projects/{pubsub.PROJECT}/topics/estimates"

    @property
    def options(self) -> list[str]:
        """Those of ``ldpbeam stream``."""
        return ["--subscription", _subscription(self.reports), "--publish-to", self.estimates]

    def sender(self) -> Send:
        """A client of this process, which ``PUBSUB_EMULATOR_HOST`` leads to the server."""
        from google.cloud import pubsub_v1

        publisher = pubsub_v1.PublisherClient()
        return lambda messages: client.publish(publisher, self.reports, list(messages))

    def receiver(self) -> Receive:
        """A client of this process."""
        from google.api_core.exceptions import DeadlineExceeded
        from google.cloud import pubsub_v1

        subscriber, subscription = pubsub_v1.SubscriberClient(), _subscription(self.estimates)

        def receive() -> list[bytes]:
            request = {"subscription": subscription, "max_messages": 100}
            try:
                pulled = subscriber.pull(request=request, timeout=2).received_messages
            except DeadlineExceeded:
                return []
            if pulled:
                receipts = [one.ack_id for one in pulled]
                subscriber.acknowledge(request={"subscription": subscription, "ack_ids": receipts})
            return [one.message.data for one in pulled]

        return receive


@dataclass(frozen=True)
class Kafka:
    """A Kafka broker with a topic for reports and one for estimates."""

    name: str
    address: str
    reports: str = "reports"
    estimates: str = "estimates"

    @property
    def options(self) -> list[str]:
        """Those of ``ldpbeam stream``."""
        return [
            *("--kafka", self.address, "--topic", self.reports),
            *("--publish-to", f"kafka://{self.address}/{self.estimates}"),
        ]

    @property
    def client(self) -> dict[str, Any]:
        """The settings of clients, who would print that they miss the broker when it has ended."""
        return {"bootstrap.servers": self.address, "log_level": 0}

    def sender(self) -> Send:
        """A producer of this process."""
        from confluent_kafka import Producer

        producer = Producer({**self.client, "enable.idempotence": True})

        def send(messages: Sequence[client.Outgoing]) -> None:
            for number, message in enumerate(messages):
                headers = [("content-type", message.content_type.encode())]
                producer.produce(self.reports, message.data, partition=number % PARTITIONS, headers=headers)
            producer.flush(10)

        return send

    def receiver(self) -> Receive:
        """A consumer of this process."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self.client, "group.id": "demonstration"})
        consumer.assign([TopicPartition(self.estimates, 0, 0)])
        return lambda: [message.value() for message in consumer.consume(100, 2.0) if message.error() is None]


@contextlib.contextmanager
def running_pubsub() -> Iterator[PubSub]:
    """A server with both topics, as long as the block lasts.

    Raises:
        NoServerError: ``PUBSUB_EMULATOR_HOST`` names a server that does not answer.
    """
    with pubsub.running_server() as server, contextlib.ExitStack() as made:
        os.environ["PUBSUB_EMULATOR_HOST"] = server.address
        from google.cloud import pubsub_v1

        where = PubSub(f"Pub/Sub server: {server.name}")
        publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
        for topic in (where.reports, where.estimates):
            publisher.create_topic(name=topic)
            # The server may be one that goes on.
            made.callback(publisher.delete_topic, topic=topic)
            subscriber.create_subscription(name=_subscription(topic), topic=topic)
            made.callback(subscriber.delete_subscription, subscription=_subscription(topic))
        yield where


@contextlib.contextmanager
def running_kafka() -> Iterator[Kafka]:
    """A broker with both topics, as long as the block lasts.

    Raises:
        NoServerError: it cannot be had, or does not start.
    """
    with broker.running_broker() as running:
        from confluent_kafka.admin import AdminClient, NewTopic

        where = Kafka(f"Kafka broker: Apache Kafka {broker.VERSION} at {running.address}", running.address)
        topics = [NewTopic(where.reports, PARTITIONS, 1), NewTopic(where.estimates, 1, 1)]
        admin: Any = AdminClient(where.client)
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield where


def _subscription(topic: str) -> str:
    return topic.replace("topics", "subscriptions")

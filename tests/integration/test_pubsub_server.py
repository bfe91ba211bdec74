"""What any Pub/Sub server does, tried on the most real one there is."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")

from google.api_core import exceptions
from pubsub_clients import Clients, bodies


@pytest.fixture
def clients(pubsub: str, topic_and_subscription: Any) -> Iterator[Clients]:
    """Of the most real server there is."""
    with contextlib.closing(Clients(*topic_and_subscription(pubsub))) as made:
        yield made


def test_a_message_arrives_as_it_was_sent(clients: Clients) -> None:
    before, body = time.time(), os.urandom(1000) * 9_000
    (sent,) = clients.publish(body, attributes={"user": "u-1", "event": "2026-11-21T00:00:00Z"})
    (received,) = clients.pull(1)
    message = received.message
    assert message.data == body
    assert dict(message.attributes) == {"user": "u-1", "event": "2026-11-21T00:00:00Z"}
    assert message.message_id == sent
    assert abs(message.publish_time.timestamp() - before) < 60


@pytest.mark.slow
def test_what_is_acknowledged_is_not_sent_again_and_the_rest_is_after_its_deadline(clients: Clients) -> None:
    clients.publish(b"done", b"forgotten", b"longer")
    received = {message.message.data: message for message in clients.pull(3)}
    clients.set_deadline([*received.values()], 2)
    clients.acknowledge([received[b"done"]])
    clients.set_deadline([received[b"longer"]], 60)
    assert bodies(clients.pull(3, seconds=4)) == [b"forgotten"]


def test_a_message_that_is_given_back_comes_again_at_once(clients: Clients) -> None:
    (sent,) = clients.publish(b"again")
    clients.set_deadline(clients.pull(1), 0)
    (second,) = clients.pull(1, seconds=5)  # well before the deadline of ten seconds
    assert second.message.message_id == sent


def test_each_subscription_gets_each_message(clients: Clients) -> None:
    first, second = clients.subscription, f"{clients.subscription}-other"
    clients.subscriber.create_subscription(name=second, topic=clients.topic)
    clients.publish(b"both")
    clients.acknowledge(clients.pull(1))
    clients.subscription = second
    assert bodies(clients.pull(1)) == [b"both"]
    clients.subscriber.delete_subscription(subscription=second)
    clients.subscription = first


def test_what_cannot_be_is_refused(clients: Clients) -> None:
    publisher, subscriber = clients.publisher, clients.subscriber
    nowhere, other = "projects/ldp-test/topics/nowhere", f"{clients.subscription}-2"
    for call in (
        lambda: publisher.create_topic(name="projects/ldp-test/topics/x"),
        lambda: subscriber.create_subscription(
            request={"name": other, "topic": clients.topic, "ack_deadline_seconds": 601}
        ),
        lambda: clients.publish(),
        lambda: clients.publish(b""),
        lambda: clients.publish(*[b"one too many"] * 1001),
        lambda: subscriber.pull(subscription=clients.subscription, max_messages=0),
    ):
        with pytest.raises(exceptions.InvalidArgument):
            call()
    for call in (
        lambda: publisher.get_topic(topic=nowhere),
        lambda: subscriber.create_subscription(name=other, topic=nowhere),
        lambda: subscriber.get_subscription(subscription=other),
        lambda: subscriber.pull(subscription=other, max_messages=1),
    ):
        with pytest.raises(exceptions.NotFound):
            call()


# The faults that the tests' own server has when it is asked to.

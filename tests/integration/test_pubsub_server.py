"""What any Pub/Sub server does, tried on the most real one there is, and the faults of the tests' own one."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")

from google.api_core import exceptions
from pubsub_clients import Clients, bodies
from pubsub_deliveries import Counts, Faults
from pubsub_server import PubSubServer


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


@pytest.fixture
def own(own_pubsub: PubSubServer, topic_and_subscription: Any) -> Iterator[Clients]:
    with contextlib.closing(Clients(*topic_and_subscription(own_pubsub.address))) as made:
        yield made


def test_an_answer_has_at_most_four_megabytes_unless_one_message_has_more(own: Clients) -> None:
    own.publish(*(bytes(size * 10**6 - 1000) for size in (3, 3, 1)))
    own.publish(bytes(5 * 10**6))
    request = {"subscription": own.subscription, "max_messages": 10}
    answers = [own.subscriber.pull(request=request).received_messages for _ in range(3)]
    sizes = [[len(body) // 10**6 for body in bodies(answer)] for answer in answers]
    assert sizes == [[2], [2, 0], [5]]


def test_counts_say_where_a_subscription_stands(own: Clients, own_pubsub: PubSubServer) -> None:
    own.publish(b"1", b"2", b"3", b"4")
    assert own_pubsub.counts(own.subscription) == Counts(delivered=0, acked=0, unacked=4, outstanding=0)
    received = own.pull(3)
    assert own_pubsub.counts(own.subscription) == Counts(delivered=3, acked=0, unacked=4, outstanding=3)
    own.acknowledge(received[:1])
    own.acknowledge(received[:1])
    own.set_deadline(received[1:2], 0)
    assert own_pubsub.counts(own.subscription) == Counts(delivered=3, acked=1, unacked=3, outstanding=1)


def test_a_repeat_of_what_is_acknowledged_is_not_kept(own: Clients, own_pubsub: PubSubServer) -> None:
    own_pubsub.faults = Faults(redelivered=1.0, redelivered_after=0.1)
    own.publish(b"x")
    own.acknowledge(own.pull(1))
    own.set_deadline(own.pull(1), 0)
    assert own.pull(1, seconds=1) == []


def test_messages_are_shuffled_within_the_horizon_and_not_beyond(
    own: Clients, own_pubsub: PubSubServer
) -> None:
    own_pubsub.faults = Faults(seed=3, shuffled=0.5)
    sent = own.publish(*[b"early"] * 200)
    time.sleep(0.6)
    own.publish(*[b"late"] * 200)
    received = own.pull(400)
    assert bodies(received) == [b"early"] * 200 + [b"late"] * 200
    order = [message.message.message_id for message in received[:200]]
    assert sorted(order, key=int) == sent
    assert order == sorted(sent, key=lambda identifier: Faults(seed=3).draw("shuffle", identifier))
    assert order != sent


def test_deadlines_pass_though_they_are_extended_and_late_acknowledgements_do_not_count(
    own: Clients, own_pubsub: PubSubServer
) -> None:
    own_pubsub.faults = Faults(deadline=0.5)
    own.publish(b"x")
    first = own.pull(1)
    own.set_deadline(first, 600)
    assert bodies(own.pull(1, seconds=5)) == [b"x"]
    own.acknowledge(first)  # too late: that delivery has ended
    assert own_pubsub.counts(own.subscription).acked == 0
    own_pubsub.faults = Faults()
    own.acknowledge(own.pull(1))
    assert own_pubsub.counts(own.subscription) == Counts(delivered=3, acked=1, unacked=0, outstanding=0)


def test_a_server_refuses_acknowledgements_pauses_and_drops_connections(
    own: Clients, own_pubsub: PubSubServer
) -> None:
    own.publish(b"x")
    received, address = own.pull(1), own_pubsub.address
    own_pubsub.faults = Faults(refuse_acks=True)
    with pytest.raises(exceptions.FailedPrecondition):
        own.acknowledge(received)
    own_pubsub.faults = Faults()
    own_pubsub.pause()
    with pytest.raises(exceptions.DeadlineExceeded):
        own.acknowledge(received, timeout=0.5, retry=None)
    own_pubsub.resume()
    own_pubsub.drop_connections()
    # Nothing was done for those who gave up, and what is held stays held.
    assert own_pubsub.counts(own.subscription) == Counts(delivered=1, acked=0, unacked=1, outstanding=1)
    own.acknowledge(received)
    assert (own_pubsub.counts(own.subscription).acked, own_pubsub.address) == (1, address)


def test_nothing_of_a_server_stays_behind(topic_and_subscription: Any) -> None:
    before = set(threading.enumerate())
    with (
        PubSubServer() as server,
        contextlib.closing(Clients(*topic_and_subscription(server.address))) as own,
    ):
        own.publish(b"x")
        own.pull(1)
        server.drop_connections()
        server.pause()
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()]
    assert [name for name in left if name.startswith("pubsub-server")] == []

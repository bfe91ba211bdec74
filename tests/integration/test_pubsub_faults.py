"""The tests' own Pub/Sub server: its counts and limits, and what goes wrong when it is asked to."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")

from google.api_core import exceptions
from pubsub_clients import PATIENCE, Clients, Stream, bodies, eventually
from pubsub_deliveries import Counts, Faults
from pubsub_server import PubSubServer


@pytest.fixture
def own(own_pubsub: PubSubServer, topic_and_subscription: Any) -> Iterator[Clients]:
    with contextlib.closing(Clients(*topic_and_subscription(own_pubsub.address))) as found:
        yield found


def test_an_answer_carries_many_messages_but_no_more_than_the_stream_may_hold(own: Clients) -> None:
    own.publish(*[b"x"] * 300)
    stream = Stream(own)
    assert len(stream.hear()) == 300
    stream.end()
    own.publish(*[b"y" * 1000] * 300)
    stream = Stream(own, max_outstanding_messages=7)
    held = stream.hear()
    assert len(held) == 7
    stream.say(ack_ids=[message.ack_id for message in held[:3]])
    assert len(stream.hear()) == 3
    stream.end()
    stream = Stream(own, max_outstanding_bytes=10_000)
    assert 8 <= len(stream.hear()) <= 10
    stream.end()


def test_an_answer_has_at_most_four_megabytes_unless_one_message_has_more(own: Clients) -> None:
    for size in (3, 3, 5, 1):
        own.publish(bytes(size * 10**6 - 1000))
    stream = Stream(own)
    answers = [[len(body) for body in bodies(stream.hear())] for _ in range(4)]
    stream.end()
    assert answers == [[2_999_000], [2_999_000], [4_999_000], [999_000]]


def test_a_stream_without_a_subscription_ends(own: Clients) -> None:
    stream = Stream(own)
    own.subscriber.delete_subscription(subscription=own.subscription)
    with pytest.raises(exceptions.NotFound):
        stream.hear()
    stream.end()


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


def test_an_acknowledgement_after_the_deadline_does_not_count(own: Clients, own_pubsub: PubSubServer) -> None:
    own_pubsub.faults = Faults(deadline=0.2)
    own.publish(b"x")
    received = own.pull(1)
    time.sleep(0.3)
    own.acknowledge(received)
    assert own_pubsub.counts(own.subscription) == Counts(delivered=1, acked=0, unacked=1, outstanding=0)


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


def test_deadlines_pass_though_they_are_extended(own: Clients, own_pubsub: PubSubServer) -> None:
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


def test_acknowledgements_are_refused(own: Clients, own_pubsub: PubSubServer) -> None:
    own_pubsub.faults = Faults(refuse_acks=True)
    own.publish(b"x")
    stream = Stream(own)
    received = stream.hear()
    with pytest.raises(exceptions.FailedPrecondition):
        own.acknowledge(received)
    stream.say(
        ack_ids=[received[0].ack_id],
        modify_deadline_ack_ids=[received[0].ack_id],
        modify_deadline_seconds=[0],
    )
    received = stream.hear()  # given back after the acknowledgement: that did not count
    assert bodies(received) == [b"x"]
    own_pubsub.faults = Faults()
    own.acknowledge(received)
    stream.end()
    assert own_pubsub.counts(own.subscription).acked == 1


def test_a_pause_lets_calls_hang_and_does_nothing_for_those_who_gave_up(
    own: Clients, own_pubsub: PubSubServer
) -> None:
    own.publish(b"x")
    received = own.pull(1)
    seen: list[bytes] = []
    with own.receiving(lambda message: seen.append(message.data)):
        own_pubsub.pause()
        with pytest.raises(exceptions.DeadlineExceeded):
            own.acknowledge(received, timeout=0.5, retry=None)
        hanging = own.publisher.publish(own.topic, b"y")
        with pytest.raises(TimeoutError):
            hanging.result(0.5)
        assert seen == []
        own_pubsub.resume()
        hanging.result(PATIENCE)
        eventually(lambda: seen == [b"y"])
    assert own_pubsub.counts(own.subscription).acked == 0
    own.publisher.stop()


def test_dropped_connections_end_calls_and_keep_messages(own: Clients, own_pubsub: PubSubServer) -> None:
    stream = Stream(own)
    own.publish(b"held")
    held = stream.hear()
    address = own_pubsub.address
    own_pubsub.drop_connections()
    with pytest.raises(exceptions.ServiceUnavailable):
        stream.hear()
    stream.end()
    assert own_pubsub.address == address
    assert own_pubsub.counts(own.subscription).outstanding == 1
    own.acknowledge(held)
    assert own_pubsub.counts(own.subscription).acked == 1


def test_nothing_of_a_server_stays_behind(topic_and_subscription: Any) -> None:
    before = set(threading.enumerate())
    with PubSubServer() as server:
        clients = Clients(*topic_and_subscription(server.address))
        with clients.receiving(lambda message: message.ack()):
            clients.publish(b"x")
            eventually(lambda: server.counts(clients.subscription).acked == 1)
            server.drop_connections()
            server.pause()
        clients.close()
    left = [thread for thread in threading.enumerate() if thread not in before and thread.is_alive()]
    assert [thread.name for thread in left if thread.name.startswith("pubsub-server")] == []

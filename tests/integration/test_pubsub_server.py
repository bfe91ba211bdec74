"""What any Pub/Sub server does: the tests' own one, and the most real one there is."""

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
from google.cloud import pubsub_v1
from pubsub_clients import PATIENCE, Clients, Stream, bodies, eventually


@pytest.fixture(params=["own", pytest.param("real", marks=pytest.mark.slow)])
def clients(request: pytest.FixtureRequest, topic_and_subscription: Any) -> Iterator[Clients]:
    """Of the tests' own server, and of the most real one there is."""
    own = request.param == "own"
    address = request.getfixturevalue("own_pubsub").address if own else request.getfixturevalue("pubsub")
    with contextlib.closing(Clients(*topic_and_subscription(address))) as found:
        yield found


def test_a_message_arrives_as_it_was_sent(clients: Clients) -> None:
    sent = clients.publisher.publish(clients.topic, b"body", user="u-1", event="2026-11-21T00:00:00Z")
    before = time.time()
    identifier = sent.result(PATIENCE)
    (received,) = clients.pull(1)
    message = received.message
    assert (message.data, dict(message.attributes)) == (
        b"body",
        {"user": "u-1", "event": "2026-11-21T00:00:00Z"},
    )
    assert message.message_id == identifier
    assert abs(message.publish_time.timestamp() - before) < 60
    clients.publisher.stop()


@pytest.mark.slow
def test_what_is_acknowledged_is_not_sent_again_and_the_rest_is_after_its_deadline(clients: Clients) -> None:
    clients.publish(b"done", b"forgotten")
    received = clients.pull(2)
    clients.set_deadline(received, 2)
    clients.acknowledge([message for message in received if message.message.data == b"done"])
    assert bodies(clients.pull(2, seconds=4)) == [b"forgotten"]


@pytest.mark.slow
def test_a_longer_deadline_keeps_a_message_from_being_sent_again(clients: Clients) -> None:
    clients.publish(b"longer", b"shorter")
    received = clients.pull(2)
    clients.set_deadline(received, 2)
    clients.set_deadline([message for message in received if message.message.data == b"longer"], 60)
    assert bodies(clients.pull(2, seconds=4)) == [b"shorter"]


def test_a_message_that_is_given_back_comes_again_at_once(clients: Clients) -> None:
    (sent,) = clients.publish(b"again")
    first = clients.pull(1)
    clients.set_deadline(first, 0)
    (second,) = clients.pull(1, seconds=5)  # well before the deadline of ten seconds
    assert second.message.message_id == sent


def test_each_subscription_gets_each_message(clients: Clients) -> None:
    other = f"{clients.subscription}-other"
    clients.subscriber.create_subscription(name=other, topic=clients.topic)
    clients.publish(b"both")
    (first,) = clients.pull(1)
    clients.acknowledge([first])
    clients.subscription, own = other, clients.subscription
    assert bodies(clients.pull(1)) == [b"both"]
    clients.subscriber.delete_subscription(subscription=other)
    clients.subscription = own


def test_the_library_receives_everything_that_several_threads_publish(clients: Clients) -> None:
    count, seen, lock = 500, [], threading.Lock()

    def callback(message: Any) -> None:
        with lock:
            seen.append(message.data)
        message.ack()

    def publish(part: int) -> None:
        clients.publish(*(b"%d" % number for number in range(part * count, (part + 1) * count)))

    with clients.receiving(callback):
        threads = [threading.Thread(target=publish, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eventually(lambda: len(set(seen)) == 4 * count)
    assert set(seen) == {b"%d" % number for number in range(4 * count)}


def test_a_message_may_have_ten_megabytes(clients: Clients) -> None:
    body = os.urandom(1000) * 10_000
    clients.publish(body)
    seen: list[bytes] = []
    with clients.receiving(lambda message: (seen.append(message.data), message.ack())):
        eventually(lambda: seen != [])
    assert seen[0] == body


def test_what_cannot_be_is_refused(clients: Clients) -> None:
    missing = "projects/ldp-test/topics/nowhere"
    publisher, subscriber = clients.publisher, clients.subscriber
    with pytest.raises(exceptions.AlreadyExists):
        publisher.create_topic(name=clients.topic)
    with pytest.raises(exceptions.AlreadyExists):
        subscriber.create_subscription(name=clients.subscription, topic=clients.topic)
    with pytest.raises(exceptions.InvalidArgument):
        publisher.create_topic(name="projects/ldp-test/topics/x")
    with pytest.raises(exceptions.InvalidArgument):
        subscriber.create_subscription(
            request={"name": f"{clients.subscription}-2", "topic": clients.topic, "ack_deadline_seconds": 601}
        )
    with pytest.raises(exceptions.InvalidArgument):
        clients.publish()
    with pytest.raises(exceptions.InvalidArgument):
        clients.publish(b"")
    with pytest.raises(exceptions.InvalidArgument):
        clients.publish(*[b"one too many"] * 1001)
    with pytest.raises(exceptions.InvalidArgument):
        subscriber.pull(subscription=clients.subscription, max_messages=0)
    for call in (
        lambda: publisher.get_topic(topic=missing),
        lambda: publisher.delete_topic(topic=missing),
        lambda: publisher.publish(missing, b"x").result(PATIENCE),
        lambda: subscriber.create_subscription(name=f"{clients.subscription}-2", topic=missing),
        lambda: subscriber.get_subscription(subscription=f"{clients.subscription}-2"),
        lambda: subscriber.delete_subscription(subscription=f"{clients.subscription}-2"),
        lambda: subscriber.pull(subscription=f"{clients.subscription}-2", max_messages=1),
    ):
        with pytest.raises(exceptions.NotFound):
            call()
    publisher.stop()


def test_a_subscription_outlives_its_topic(clients: Clients) -> None:
    clients.publish(b"left")
    clients.publisher.delete_topic(topic=clients.topic)
    kept = clients.subscriber.get_subscription(subscription=clients.subscription)
    assert (kept.topic, kept.ack_deadline_seconds) == ("_deleted-topic_", 10)
    assert bodies(clients.pull(1)) == [b"left"]


@pytest.mark.slow
def test_the_deadline_of_the_subscription_counts_where_nothing_else_is_said(clients: Clients) -> None:
    clients.publish(b"x")
    assert bodies(clients.pull(1)) == [b"x"]
    assert clients.pull(1, seconds=7) == []
    assert bodies(clients.pull(1, seconds=8)) == [b"x"]


def test_a_stream_takes_acknowledgements_and_deadlines(clients: Clients) -> None:
    clients.publish(b"done", b"back")
    stream = Stream(clients, stream_ack_deadline_seconds=600)  # longer than the test waits
    received: list[Any] = []
    while len(received) < 2:
        received += stream.hear()
    ack_ids = {message.message.data: message.ack_id for message in received}
    stream.say(
        ack_ids=[ack_ids[b"done"]],
        modify_deadline_ack_ids=[ack_ids[b"back"]],
        modify_deadline_seconds=[0],
    )
    assert bodies(stream.hear()) == [b"back"]
    stream.end()


def test_a_stream_that_says_it_is_done_ends(clients: Clients) -> None:
    request = pubsub_v1.types.StreamingPullRequest(
        subscription=clients.subscription, stream_ack_deadline_seconds=10
    )
    assert list(clients.subscriber.streaming_pull(requests=iter([request]), retry=None, timeout=20)) == []

"""Pub/Sub as a feed, over gRPC to the tests' own server, which fails on demand."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pubsub_v1 = pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")

from google.api_core import exceptions  # noqa: E402
from google.auth.exceptions import RefreshError  # noqa: E402
from google.pubsub_v1 import PublisherClient  # noqa: E402

from ldpbeam.schemas.messages.decode import Message  # noqa: E402
from ldpbeam.schemas.reports.columns import Columns  # noqa: E402
from ldpbeam.transforms.reports.counts import COUNTS, DEAD_LETTERS  # noqa: E402
from ldpbeam.transforms.reports.dead_letters import Disclosure, in_columns  # noqa: E402
from ldpbeam.transforms.reports.emitted import emit  # noqa: E402
from ldpbeam.transforms.sources import pubsub  # noqa: E402
from ldpbeam.transforms.sources.feeds import FeedBatch  # noqa: E402
from ldpbeam.transforms.sources.message_batches import batch_of  # noqa: E402
from ldpbeam.transforms.sources.pubsub import PubSubFeed  # noqa: E402

TOPIC, SUBSCRIPTION = "projects/ldp-test/topics/reports", "projects/ldp-test/subscriptions/estimates"
FEED = PubSubFeed(SUBSCRIPTION, Columns(), "out/runs/run", lease_seconds=0)
PATIENCE = 240.0  # seconds until something that should come is given up; never reached when all is well
SETTLED = 0.3  # seconds in which what must not happen would have happened
RECORD = {"attribute": "x", "service": "a", "event_time": 5, "payload": 0.5}


class Running:
    """The server, one topic and its subscription, and what is published and pulled there."""

    def __init__(self, server: Any, folder: Path) -> None:
        self.server = server
        self.feed = replace(FEED, folder=str(folder))
        self._publisher = PublisherClient(transport=pubsub_v1.PublisherClient().transport)
        self._subscriber = pubsub_v1.SubscriberClient()
        self._publisher.create_topic(name=TOPIC)
        self._subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)

    def publish(self, *users: str) -> None:
        """A message with one report for each of some users."""
        self.publish_data(*(json.dumps({**RECORD, "user_id": user}).encode() for user in users))

    def publish_data(self, *data: bytes, **attributes: str) -> None:
        messages = [{"data": part, "attributes": attributes} for part in data]
        self._publisher.publish(request={"topic": TOPIC, "messages": messages}, timeout=PATIENCE)

    def delete_subscription(self) -> None:
        self._subscriber.delete_subscription(subscription=SUBSCRIPTION)

    def close(self) -> None:
        self._publisher.transport.close()
        self._subscriber.close()

    @property
    def counts(self) -> Any:
        return self.server.counts(SUBSCRIPTION)

    def strike(self, **faults: Any) -> None:
        self.server.faults = replace(self.server.faults, **faults)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Any]:
        """An open feed, for the block."""
        opened = self.feed.open()
        try:
            yield opened
        finally:
            opened.close()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Running]:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "integration")
    from pubsub_server import PubSubServer

    monkeypatch.setattr(pubsub, "PULL_SECONDS", 2.0)
    with PubSubServer() as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        with contextlib.closing(Running(server, tmp_path / "run")) as running:
            yield running


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def take(opened: Any, reports: int) -> list[FeedBatch]:
    """Parcels, until so many reports have come."""
    feed_batches: list[FeedBatch] = []

    def enough() -> bool:
        feed_batch = opened.take()
        if feed_batch is not None:
            feed_batches.append(feed_batch)
        return len(users(*feed_batches)) >= reports

    wait_until(enough)
    return feed_batches


def users(*feed_batches: FeedBatch) -> list[str]:
    """Whose reports some feed_batches hold."""
    columns = [batch.column("user_id") for feed_batch in feed_batches for batch in feed_batch.batches]
    return [user.decode() for column in columns for user in column.to_pylist()]


def receipts(*feed_batches: FeedBatch) -> list[str]:
    return [receipt for feed_batch in feed_batches for receipt in feed_batch.receipts]


def test_messages_come_as_batches_and_what_does_not_decode_as_dead_letters(running: Running) -> None:
    before = time.time_ns() // 1_000_000
    lines = "".join(json.dumps({**RECORD, "user_id": user}) + "\n" for user in ("bob", "cho"))
    running.publish("ann")
    running.publish_data(lines.encode() + b"{\n", **{"content-type": "application/x-ndjson"})
    running.publish_data(b"\x00", **{"content-type": "text/plain"})
    after = time.time_ns() // 1_000_000
    with running.reading() as opened:
        wait_until(lambda: running.counts.delivered == 3 and len(opened._waiting) == 3)
        feed_batch = opened.take()
        assert feed_batch is not None
        assert sorted(users(feed_batch)) == ["ann", "bob", "cho"]
        assert {batch.schema.metadata[b"file"] for batch in feed_batch.batches} == {SUBSCRIPTION.encode()}
        assert len(feed_batch.receipts) == len(set(feed_batch.receipts)) == 3
        assert before <= feed_batch.published <= after
        letters = sorted((one.file, one.position, one.row, one.reason) for one in feed_batch.letters)
        assert letters == [
            (SUBSCRIPTION, 2, 2, "not_json"),
            (SUBSCRIPTION, 3, None, "unknown_content_type"),
        ]
        assert opened.take() is None


def test_a_parcel_has_so_many_messages_and_bytes_at_most(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "BATCH_MESSAGES", 4)
    running.publish(*(f"u{number}" for number in range(10)))
    with running.reading() as opened:
        wait_until(lambda: len(opened._waiting) == 10)
        assert [len(opened.take().receipts) for _ in range(2)] == [4, 4]
        monkeypatch.setattr(pubsub, "BATCH_BYTES", 1)
        assert [len(opened.take().receipts) for _ in range(2)] == [1, 1]
        assert opened.take() is None


@pytest.mark.parametrize("fault", ["the connection is dropped", "the server hangs", "the server is away"])
def test_it_goes_on_when_the_server_is_back(
    fault: str, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "PULL_SECONDS", 0.5)
    server = running.server
    with running.reading() as opened:
        running.publish("ann")
        feed_batches = take(opened, 1)
        if fault == "the connection is dropped":
            server.drop_connections()
        elif fault == "the server hangs":
            server.pause()
            time.sleep(2 * pubsub.PULL_SECONDS)
            assert opened.take() is None
            server.resume()
        else:
            server._stop()
            time.sleep(2 * pubsub.PULL_SECONDS)
            assert opened.take() is None
            server._start()
        running.publish("bob")
        feed_batches += take(opened, 1)
        assert users(*feed_batches) == ["ann", "bob"]
        opened.acknowledge(receipts(*feed_batches))
        assert (running.counts.acked, running.counts.unacked) == (2, 0)


def test_a_subscription_that_is_deleted_ends_it_after_what_had_come(running: Running) -> None:
    running.publish("ann")
    with running.reading() as opened:
        wait_until(lambda: len(opened._waiting) == 1)
        running.delete_subscription()
        wait_until(lambda: opened._problem is not None)
        feed_batch = opened.take()
        assert feed_batch is not None
        assert users(feed_batch) == ["ann"]
        for _ in range(2):
            with pytest.raises(OSError) as found:
                opened.take()
            assert str(found.value) == f"{SUBSCRIPTION}: {SUBSCRIPTION} does not exist"


@pytest.mark.parametrize(
    "error", [RefreshError("the credentials are gone"), ValueError("the channel is closed")]
)
def test_whatever_ends_the_pulling_is_said(
    error: Exception, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(**_: object) -> None:
        raise error

    with running.reading() as opened:
        monkeypatch.setattr(opened._pulling, "pull", pull)
        opened._puller.join(PATIENCE)
        assert not opened._puller.is_alive()
        with pytest.raises(OSError, match=str(error)):
            opened.take()


def test_it_is_silent_when_the_server_has_said_that_nothing_is_there(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running.reading() as opened:
        wait_until(lambda: opened.silent is not None)
        asked = opened.silent
        running.publish("ann")
        wait_until(lambda: len(opened._waiting) == 1)
        assert opened.silent is None
        # There is nothing more, but this has not been taken.
        wait_until(lambda: opened._pulls.empty is not None)
        assert opened.silent is None
        (ann,) = take(opened, 1)
        assert opened.silent > asked
        # With no room it does not ask, and more may be there.
        monkeypatch.setattr(pubsub, "MOST_MESSAGES", 2)
        running.publish("bob")
        (bob,) = take(opened, 1)
        time.sleep(SETTLED)
        assert opened.silent is None
        opened.acknowledge([*ann.receipts, *bob.receipts])
        wait_until(lambda: opened.silent is not None)


def test_a_pull_that_has_no_answer_says_nothing_until_the_lease_of_what_it_was_sent_has_ended(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of this test lets every pull that waits run into its deadline, as Google's may."""
    clock, asked = [1_000], []
    monkeypatch.setattr(pubsub, "elapsed", lambda: clock[0])
    monkeypatch.setattr(pubsub, "ASKING_SECONDS", 0.01)

    def pull(request: Any, **_: object) -> Any:
        asked.append(dict(request))
        if "return_immediately" not in request:
            raise exceptions.DeadlineExceeded("no answer")
        return SimpleNamespace(received_messages=[])

    def patched(kind: Any) -> Any:
        client = make(kind)
        client.pull = pull
        return client

    make = pubsub._client
    monkeypatch.setattr(pubsub, "_client", patched)
    running.feed = replace(running.feed, lease_seconds=10)
    with running.reading() as opened:
        wait_until(lambda: len(asked) > 3)
        assert opened.silent is None
        clock[0] = 10_999
        so_far = len(asked)
        wait_until(lambda: len(asked) > so_far + 2)
        assert opened.silent is None
        clock[0] = 11_000
        wait_until(lambda: opened.silent == 11_000)
    assert all(request.get("return_immediately") for request in asked[1:])


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ServiceUnavailable("away"),
        exceptions.DeadlineExceeded("no answer"),
        exceptions.RetryError("tried for a minute", None),
    ],
)
def test_it_is_not_silent_while_the_server_is_away(
    error: Exception, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def pull(**_: object) -> None:
        tried.append(error)
        time.sleep(0.01)
        raise error

    with running.reading() as opened:
        wait_until(lambda: opened.silent is not None)
        with monkeypatch.context() as patch:
            patch.setattr(opened._pulling, "pull", pull)
            wait_until(lambda: len(tried) >= 2)
            assert opened.silent is None
        wait_until(lambda: opened.silent is not None)


def test_acknowledgements_that_fail_are_errors_and_their_messages_stay_held(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "RECEIPTS_AT_ONCE", 2)
    running.publish("ann", "bob", "cho", "dee", "eve")
    with running.reading() as opened:
        own = receipts(*take(opened, 5))
        running.strike(refuse_acks=True)
        with pytest.raises(exceptions.FailedPrecondition):
            opened.acknowledge(own)
        assert set(opened._held) == set(own)
        assert running.counts.acked == 0
        running.strike(refuse_acks=False)
        opened.acknowledge(own)
        assert opened._held == {}
        assert (running.counts.acked, running.counts.unacked) == (5, 0)


def test_what_is_held_for_long_is_not_sent_again_even_if_the_server_was_away(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's clock moves only between two extensions, so that no machine is too slow for them."""
    import pubsub_server

    clock = [1_000.0]
    monkeypatch.setattr(pubsub_server, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    running.server._subscriptions[SUBSCRIPTION].config.ack_deadline_seconds = 3
    monkeypatch.setattr(pubsub, "EXTENDING_SECONDS", 0.2)
    monkeypatch.setattr(pubsub, "DEADLINE_SECONDS", 3)
    monkeypatch.setattr(pubsub, "BATCH_MESSAGES", 2)
    monkeypatch.setattr(pubsub, "RECEIPTS_AT_ONCE", 1)
    running.publish("ann", "bob", "cho")
    refused, extended = [], []

    def refuse(request: Any) -> None:
        refused.append(request)
        raise exceptions.ServiceUnavailable("away")

    with running.reading() as opened:
        extend = opened._client.modify_ack_deadline

        def watched(request: Any) -> None:
            extend(request=request)
            extended.append(request)

        with monkeypatch.context() as patch:
            patch.setattr(opened._client, "modify_ack_deadline", refuse)
            taken = take(opened, 2)  # of three: one waits
            wait_until(lambda: len(refused) >= 3)
        monkeypatch.setattr(opened._client, "modify_ack_deadline", watched)
        for _ in range(4):
            clock[0] += 2
            # One receipt a request: after six, each of the three was extended after the clock had moved.
            enough = len(extended) + 6
            wait_until(lambda enough=enough: len(extended) >= enough)
        assert (running.counts.delivered, running.counts.outstanding) == (3, 3)
        taken += take(opened, 1)
        assert sorted(users(*taken)) == ["ann", "bob", "cho"]
        opened.acknowledge(receipts(*taken))
        assert (running.counts.acked, running.counts.unacked) == (3, 0)


def test_closing_gives_back_at_once_what_was_not_taken(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "BATCH_MESSAGES", 4)
    monkeypatch.setattr(pubsub, "RECEIPTS_AT_ONCE", 4)
    running.publish(*(f"u{number}" for number in range(10)))
    with running.reading() as opened:
        wait_until(lambda: len(opened._waiting) == 10)
        feed_batch = opened.take()
        opened.close()
        assert (running.counts.unacked, running.counts.outstanding) == (10, 4)
        assert opened.take() is None
        with running.reading() as other:
            rest = take(other, 4) + take(other, 2)
            assert set(users(feed_batch, *rest)) == {f"u{number}" for number in range(10)}
            # What had been taken is acknowledged after the end, and is not the other's.
            opened.acknowledge(feed_batch.receipts)
            assert (running.counts.acked, running.counts.outstanding) == (4, 6)


def test_closing_gives_back_what_a_last_pull_brings(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pubsub_server

    # The last pull waits for the first message, however long that takes.
    monkeypatch.setattr(pubsub_server, "EMPTY_PULL", PATIENCE)
    monkeypatch.setattr(pubsub, "PULL_SECONDS", PATIENCE)
    pulling, client = threading.Event(), pubsub._client

    def watched(kind: Any) -> Any:
        made = client(kind)
        pull = made.pull

        def told(**request: Any) -> Any:
            pulling.set()
            return pull(**request)

        made.pull = told
        return made

    monkeypatch.setattr(pubsub, "_client", watched)
    with running.reading() as opened:
        assert pulling.wait(PATIENCE)
        closing = threading.Thread(target=opened.close)
        closing.start()
        wait_until(opened._closing.is_set)
        running.publish("ann")
        closing.join(PATIENCE)
        assert not closing.is_alive()
        assert running.counts.delivered == 1
        assert (running.counts.unacked, running.counts.outstanding) == (1, 0)


@pytest.mark.parametrize(
    "limit", [{"MOST_MESSAGES": 5}, {"MOST_BYTES": 5 * len(json.dumps({**RECORD, "user_id": "u10"}))}]
)
def test_it_pulls_no_more_than_it_may_hold_and_goes_on_when_that_is_acknowledged(
    limit: dict[str, int], running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**limit, "PULLED_AT_ONCE": 5}.items():
        monkeypatch.setattr(pubsub, name, value)
    everyone = [f"u{number}" for number in range(10, 30)]
    running.publish(*everyone)
    with running.reading() as opened:
        taken = take(opened, 5)
        # Taken is not acknowledged: there is no room.
        time.sleep(SETTLED)
        assert running.counts.delivered == 5
        assert opened.take() is None
        opened.acknowledge(receipts(*taken)[:2])
        if "MOST_MESSAGES" in limit:
            taken += take(opened, 5)
            time.sleep(SETTLED)
            assert running.counts.delivered == 10
        opened.acknowledge(receipts(*taken))
        while len(users(*taken)) < 20:
            more = take(opened, 1)
            opened.acknowledge(receipts(*more))
            taken += more
        assert sorted(users(*taken)) == everyone
        assert (running.counts.acked, running.counts.unacked) == (20, 0)


@pytest.mark.parametrize(
    ("identifier", "position"),
    [
        ("17", 17),
        ("", None),
        ("x17", None),
        ("9223372036854775807", 2**63 - 1),
        *((text, None) for text in ("9223372036854775808", "²")),
    ],
)
def test_a_bad_message_of_any_id_is_a_dead_letter(identifier: str, position: int | None) -> None:
    feed_batch = batch_of(SUBSCRIPTION, Columns(), [Message(identifier, b"{", "application/json")])
    assert [letter.position for letter in feed_batch.letters] == [position]
    _, *counts = emit(in_columns(feed_batch.letters), Disclosure())
    assert (DEAD_LETTERS, 1) in [one.value for one in counts if one.tag == COUNTS]

"""What a feed of Pub/Sub takes, over gRPC, and what a server says that is away, silent or gone."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")

from google.api_core import exceptions
from google.auth.exceptions import RefreshError
from google.pubsub_v1.types import PullResponse
from support.pubsub_feed import RECORD, SETTLED, SUBSCRIPTION, Running, commit, take, users
from support.waiting import PATIENCE, wait_until

from ldpbeam.transforms.sources import pubsub


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
        assert opened.position() == {"unconfirmed": ["1", "2", "3"]}
        assert before <= feed_batch.published <= after
        letters = sorted((one.file, one.position, one.row, one.reason) for one in feed_batch.letters)
        assert letters == [(SUBSCRIPTION, 2, 2, "not_json"), (SUBSCRIPTION, 3, None, "unknown_content_type")]
        assert opened.take() is None


def test_a_parcel_has_so_many_messages_and_bytes_at_most(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "BATCH_MESSAGES", 4)
    running.publish(*(f"u{number}" for number in range(10)))
    with running.reading() as opened:
        wait_until(lambda: len(opened._waiting) == 10)
        assert [len(users(opened.take())) for _ in range(2)] == [4, 4]
        monkeypatch.setattr(pubsub, "BATCH_BYTES", 1)
        assert [len(users(opened.take())) for _ in range(2)] == [1, 1]
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
        commit(opened)
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
            with pytest.raises(OSError) as ended:
                opened.take()
            assert str(ended.value) == f"{SUBSCRIPTION}: {SUBSCRIPTION} does not exist"


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
        wait_until(lambda: opened.state.silences[0] is not None)
        asked = opened.state.silences[0]
        running.publish("ann")
        wait_until(lambda: len(opened._waiting) == 1)
        assert opened.state.silences[0] is None
        # There is nothing more, but this has not been taken.
        wait_until(lambda: opened._pulls.empty is not None)
        assert opened.state.silences[0] is None
        take(opened, 1)
        assert opened.state.silences[0] > asked
        # With no room it does not ask, and more may be there.
        monkeypatch.setattr(pubsub, "MOST_MESSAGES", 2)
        running.publish("bob")
        take(opened, 1)
        time.sleep(SETTLED)
        assert opened.state.silences[0] is None
        commit(opened)
        wait_until(lambda: opened.state.silences[0] is not None)


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
        return PullResponse()

    def patched(kind: Any) -> Any:
        client = make(kind)
        client.pull = pull
        return client

    make = pubsub._client
    monkeypatch.setattr(pubsub, "_client", patched)
    running.feed = replace(running.feed, lease_seconds=10)
    with running.reading() as opened:
        wait_until(lambda: len(asked) > 3)
        assert opened.state.silences[0] is None
        clock[0] = 10_999
        so_far = len(asked)
        wait_until(lambda: len(asked) > so_far + 2)
        assert opened.state.silences[0] is None
        clock[0] = 11_000
        wait_until(lambda: opened.state.silences[0] == 11_000)
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
        wait_until(lambda: opened.state.silences[0] is not None)
        with monkeypatch.context() as patch:
            patch.setattr(opened._pulling, "pull", pull)
            wait_until(lambda: len(tried) >= 2)
            assert opened.state.silences[0] is None
        wait_until(lambda: opened.state.silences[0] is not None)

"""What a feed of Pub/Sub holds: it is acknowledged, extended, bounded, and given back."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")

from google.api_core import exceptions
from support.pubsub_feed import RECORD, SETTLED, SUBSCRIPTION, Running, receipts, take, users
from support.waiting import PATIENCE, wait_until

from ldpbeam.transforms.sources import pubsub


def test_acknowledgements_that_fail_are_errors_and_their_messages_stay_held(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "RECEIPTS_AT_ONCE", 2)
    running.publish("ann", "bob", "cho", "dee", "eve")
    with running.reading() as opened:
        given = receipts(*take(opened, 5))
        running.strike(refuse_acks=True)
        with pytest.raises(exceptions.FailedPrecondition):
            opened.acknowledge(given)
        assert set(opened._held) == set(given)
        assert running.counts.acked == 0
        running.strike(refuse_acks=False)
        opened.acknowledge(given)
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

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
from support.pubsub_feed import RECORD, SETTLED, SUBSCRIPTION, Running, commit, take, take_until, users
from support.waiting import PATIENCE, wait_until

from ldpbeam.transforms.sources import poll_batches, pubsub
from ldpbeam.transforms.sources.on_record import DEFEATED


def test_acknowledgements_that_fail_are_sent_again_and_their_messages_stay_held(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pubsub.FEEDS, "warning", lambda text, *of: warnings.append(text % of))
    monkeypatch.setattr(pubsub, "RECEIPTS_AT_ONCE", 2)
    monkeypatch.setattr(pubsub, "AGAIN_SECONDS", 0.01)
    running.publish("ann", "bob", "cho", "dee", "eve")
    with running.reading() as opened:
        take(opened, 5)
        given = set(opened._held)
        assert len(given) == 5
        running.strike(refuse_acks=True)
        ids = opened.position()["unconfirmed"]
        opened.commit()
        wait_until(lambda: warnings)
        assert set(opened._held) == given
        assert running.counts.acked == 0
        assert opened.position()["unconfirmed"] == ids
        assert len(ids) == 5
        running.strike(refuse_acks=False)
        wait_until(lambda: not opened._held)
        assert opened.position()["unconfirmed"] == []
        assert (running.counts.acked, running.counts.unacked) == (5, 0)
    assert warnings == [f"{SUBSCRIPTION}: messages are not acknowledged: acknowledgements are refused"]


def test_only_what_the_last_position_covers_is_acknowledged(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "BATCH_MESSAGES", 2)
    running.publish("ann", "bob", "cho", "dee")
    with running.reading() as opened:
        wait_until(lambda: len(opened._waiting) == 4)
        opened.take()
        covered = opened.position()["unconfirmed"]
        opened.take()
        opened.commit()
        wait_until(lambda: running.counts.acked == 2)
        time.sleep(SETTLED)
        assert running.counts.acked == 2
        assert len(covered) == 2
        wait_until(lambda: not opened._committed)
        assert set(opened.position()["unconfirmed"]).isdisjoint(covered)


def test_a_message_that_comes_again_is_taken_once_in_this_process_and_in_the_next(running: Running) -> None:
    running.strike(redelivered=1.0, redelivered_after=0.0)
    running.publish("ann", "bob")
    with running.reading() as opened:
        # The server has sent all four before the first is here.
        taken = take_until(
            opened,
            lambda taken: len(users(*taken)) >= 2 and running.counts.delivered == 4 and not opened._waiting,
        )
        assert sorted(users(*taken)) == ["ann", "bob"]
        position = opened.position()
        running.strike(refuse_acks=True, redelivered=0.0)
        opened.commit()
        # The process ends before any acknowledgement: with its end, the server has both again.
        opened._committed.clear()
    running.strike(refuse_acks=False)
    running.publish("cho")
    with running.going_on(json.loads(json.dumps(position))) as opened:
        assert users(*take_until(opened, lambda taken: taken and running.counts.acked == 2)) == ["cho"]
        commit(opened)
        assert (running.counts.acked, running.counts.unacked) == (3, 0)
        assert opened.position() == {"unconfirmed": []}


def test_what_the_server_delivers_after_it_has_confirmed_the_acknowledgement_is_not_taken_again(
    running: Running,
) -> None:
    running.strike(redelivered=1.0, redelivered_after=0.5)
    running.publish("ann")
    with running.reading() as opened:
        taken = take(opened, 1)
        commit(opened)
        taken += take_until(opened, lambda _: running.counts.delivered == 2 and not opened._waiting)
        assert users(*taken) == ["ann"]


def test_an_acknowledgement_that_may_have_come_too_late_confirms_nothing(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says that all is well; and delivers again what had expired."""
    monkeypatch.setattr(pubsub, "EXTENDING_SECONDS", PATIENCE)
    monkeypatch.setattr(pubsub, "LEAST_SECONDS", 0)
    running.publish("ann")
    with running.reading() as opened:
        take(opened, 1)
        (message,) = opened.position()["unconfirmed"]
        running.strike(deadline=0.0)
        opened.commit()
        wait_until(lambda: opened._committed == {message: None})
        assert opened.position() == {"unconfirmed": [message]}


def test_what_has_not_come_again_when_every_lease_has_ended_is_forgotten(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its acknowledgement was heard, though the process ended before the answer."""
    clock = [1_000]
    monkeypatch.setattr(pubsub, "elapsed", lambda: clock[0])
    with running.going_on({"unconfirmed": ["17"]}) as opened:
        for now, unconfirmed in ((61_000, ["17"]), (61_001, [])):
            clock[0] = now
            wait_until(lambda now=now: opened._pulls.empty == now)
            assert opened.position() == {"unconfirmed": unconfirmed}


def test_it_wants_a_commit_when_half_of_what_may_be_out_is_taken(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "MOST_MESSAGES", 4)
    running.publish("ann")
    with running.reading() as opened:
        take(opened, 1)
        assert not opened.wants_commit
        running.publish("bob")
        take(opened, 1)
        assert opened.wants_commit
        commit(opened)
        assert not opened.wants_commit
        monkeypatch.setattr(pubsub, "MOST_BYTES", 10)
        running.publish("cho")
        take(opened, 1)
        assert opened.wants_commit


def test_a_message_that_ends_two_processes_alone_is_a_dead_letter_and_all_others_count(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = poll_batches.decode_poll
    decoded: list[int] = []

    def decode_or_die(poll: Any, columns: Any) -> Any:
        decoded.append(len(poll.values))
        if b"{}" in poll.values:
            raise KeyError
        return decode(poll, columns)

    monkeypatch.setattr(poll_batches, "decode_poll", decode_or_die)
    everyone = [f"u{number}" for number in range(10)]
    running.publish(*everyone[:5])
    running.publish_data(b"{}")
    running.publish(*everyone[5:])
    for together in (11, 11, 11, 1, 1):
        opened = running.feed.open_at(None)
        record = opened._record
        wait_until(lambda opened=opened: len(opened._waiting) == 11)
        with pytest.raises(KeyError):
            list(iter(opened.take, None))
        assert decoded[-1] == together
        # As its end would: the server has the messages again, and the record stays.
        opened._record = SimpleNamespace(clear=lambda: None)
        opened.close()
        assert record._after is not None
    with running.reading() as opened:
        wait_until(lambda: len(opened._waiting) == 11)
        batches = list(iter(opened.take, None))
        assert sorted(users(*batches)) == everyone
        (letter,) = [letter for batch in batches for letter in batch.letters]
        assert (letter.reason, letter.record, letter.position) == (DEFEATED, b"{}", 6)
        commit(opened)
        assert (running.counts.acked, running.counts.unacked) == (11, 0)


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

    def refuse(request: Any, **_: Any) -> None:
        refused.append(request)
        raise exceptions.ServiceUnavailable("away")

    with running.reading() as opened:
        extend = opened._client.modify_ack_deadline

        def watched(request: Any, **given: Any) -> None:
            extend(request=request, **given)
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
        commit(opened)
        assert (running.counts.acked, running.counts.unacked) == (3, 0)


def test_closing_acknowledges_what_is_committed_and_gives_back_the_rest_at_once(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "BATCH_MESSAGES", 4)
    monkeypatch.setattr(pubsub, "RECEIPTS_AT_ONCE", 4)
    running.publish(*(f"u{number}" for number in range(10)))
    with running.reading() as opened:
        wait_until(lambda: len(opened._waiting) == 10)
        feed_batch = opened.take()
        opened.position()
        opened.take()  # nobody commits it
        opened.commit()
        opened.close()
        assert (running.counts.acked, running.counts.unacked, running.counts.outstanding) == (4, 6, 0)
        assert opened.take() is None
        with running.reading() as other:
            rest = take(other, 4) + take(other, 2)
            assert set(users(feed_batch, *rest)) == {f"u{number}" for number in range(10)}


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
        commit(opened)
        while len(users(*taken)) < 20:
            taken += take(opened, 1)
            commit(opened)
        assert sorted(users(*taken)) == everyone
        assert (running.counts.acked, running.counts.unacked) == (20, 0)

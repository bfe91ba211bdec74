"""A backlog of last week from a Pub/Sub server: each report counts once, and as in a batch run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stream_messages import (
    HOUR,
    WEEK_AGO,
    evenly,
    in_batches,
    one_by_one,
    publish,
    reports_of,
    rides,
)
from stream_runs import (
    Stream,
    answers,
    closes,
    statistics_of,
    streaming,
)

if TYPE_CHECKING:
    from pubsub_server import PubSubServer

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10s, allowed_lateness: 5m")
SPAN = 60_000
BATCHED, SINGLY, TOO_LATE = 20_000, 4_000, 30  # people, who each send two reports
BATCH = 200
REPEATED = 0.05
CROWD = 2_000  # people: several batches
EACH_TICK = 1.5  # seconds; the accounting is written once a second at most
IDLE = "15s"  # more than ticks and commits are apart


class Backlog:
    """People of a minute of a week ago: what they send, in messages and for a batch run."""

    def __init__(self) -> None:
        self.sent = [
            *reports_of(STUDY, "batched", evenly(WEEK_AGO, SPAN, BATCHED), seed=1),
            *reports_of(STUDY, "single", evenly(WEEK_AGO, SPAN, SINGLY), seed=2),
        ]
        many, single = self.sent[:2], self.sent[2:]
        self.messages = [*in_batches(many, BATCH), *one_by_one(single)]


class Ticks:
    """People who go on reporting, two reports now and then, so that a stream that ends when idle goes on."""

    def __init__(self, stream: Stream, topic: str) -> None:
        self.stream = stream
        self.topic = topic
        self.sent: list[Any] = []

    def until(self, truth: Callable[[], bool], event_time: int) -> None:
        """Report of one time until something is true."""
        due = 0.0

        def is_true() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                self.report(event_time)
                due = time.monotonic() + EACH_TICK
            return truth()

        self.stream.wait_until(is_true)

    def report(self, event_time: int, people: int = 1) -> None:
        """Some people report of one time, each in messages of their own."""
        seed = len(self.sent)
        reports = reports_of(STUDY, f"tick-{seed}", [event_time] * people, seed)
        publish(self.topic, one_by_one(reports))
        self.sent += reports


def close_windows(stream: Stream, ticks: Ticks) -> None:
    """Report of an hour later until the windows of the backlog are closed, then what is too late for them."""
    ticks.report(WEEK_AGO + HOUR // 2)
    # More people than may be wrong about the time.
    ticks.report(WEEK_AGO + HOUR, people=CROWD)
    ticks.until(lambda: stream.said.count(" on time: ") == SPAN // 10_000 + 1, WEEK_AGO + HOUR)
    late = reports_of(STUDY, "too late", evenly(WEEK_AGO, SPAN, TOO_LATE), seed=4)
    publish(ticks.topic, one_by_one(late))


def check(stream: Stream, sent: Sequence[Any], batch: Any) -> None:
    assert stream.wait() == 0, stream.said
    found, used = stream.left, sum(len(part.times) for part in sent)
    print(stream.said)
    assert found.accounting == {
        "in": used + 2 * TOO_LATE,
        "used": used,
        # A message that comes again is known by its id, and not taken.
        "duplicates": 0,
        "late": 2 * TOO_LATE,
        "out_of_range": 0,
        "dead_letters": 0,
        "damaged_files": 0,
        # The window of the one person who reports half an hour later.
        "not_estimated": 1,
        "reports_not_estimated": 2,
        "dead_letters_by_reason": {},
    }
    assert closes(found.accounting)
    assert batch.accounting["used"] == used
    assert found.statistics == statistics_of(batch.snapshots)
    assert found.estimates == answers(batch.estimates)
    assert {(s.pane_timing, s.complete) for s in found.snapshots.values()} == {("on_time", True)}


def test_a_backlog_whose_server_sends_again_and_shuffles(
    own_pubsub: PubSubServer, topic_and_subscription: Any, batch_of: Any, tmp_path: Path
) -> None:
    from pubsub_deliveries import Faults

    names, backlog = topic_and_subscription(own_pubsub.address), Backlog()
    # The whole minute arrives in seconds: shuffled within some of them it is shuffled within the minute.
    faults = Faults(seed=5, redelivered=REPEATED, redelivered_after=1.0, shuffled=2.0)
    own_pubsub.faults = faults
    options = ["--subscription", names.subscription, "--max-disorder", "1m", "--stop-when-idle", IDLE]
    with streaming(tmp_path, STUDY, *options) as stream:
        ids = publish(names.topic, backlog.messages)
        again = [faults.draw("redeliver", name) < REPEATED for name in ids]
        assert any(again)
        # On a busy machine a lease may end, and then a message comes once more.
        least = len(ids) + sum(again)

        def all_delivered() -> bool:
            counts = own_pubsub.counts(names.subscription)
            return counts.unacked == counts.outstanding == 0 and counts.delivered >= least

        stream.wait_until(all_delivered)
        own_pubsub.faults = Faults()
        ticks = Ticks(stream, names.topic)
        close_windows(stream, ticks)
        sent = backlog.sent + ticks.sent
        check(stream, sent, batch_of(sent))

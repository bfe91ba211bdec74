"""``ldpbeam stream`` on a real Flink cluster: with a task manager or a worker lost, and stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import flink as jobs
import pytest
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, publish, reports_of, rides
from stream_runs import Stream, answers, closes, run_batch, statistics_of, streaming

from ldpbeam.runners.flink.cluster import Cluster

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

#: Long enough that no window closes by the clock alone.
STUDY = rides("size: 10m, allowed_lateness: 10m")
SIZE = 10 * MINUTE
#: With a window that is open in all others: its users report in each of them.
JOINED = """\
study: joined
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 32
    services: {maps: {mechanism: square_wave, epsilon: 1.0}}
windows: {size: 10m, joined: 1h, allowed_lateness: 10m, max_age: 30000d}
intervals: {strict: true}
"""
#: Longer than it takes until the server sends again what a reader had that is gone.
DEADLINE, IDLE = 10, ("--stop-when-idle", "13s")


def on(cluster: Cluster, *options: object) -> list[str]:
    return ["--runner", "flink", "--flink-master", cluster.address, *map(str, options)]


class Halves:
    """A stream that has taken half of what is sent; the other half is sent after something happened."""

    def __init__(self, stream: Stream, names: Any, server: Any, study: str = STUDY) -> None:
        self.topic = names.topic
        first = reports_of(study, "first", evenly(WEEK_AGO, 3 * SIZE, 20_000), seed=1)
        who = "first" if study == JOINED else "second"
        self.sent = [*first, *reports_of(study, who, evenly(WEEK_AGO + SIZE, 3 * SIZE, 20_000), seed=2)]
        self.taken = len(first)
        publish(names.topic, in_batches(first))
        stream.wait_until_said("^run .* reading ")
        # Something is in a checkpoint, and the rest on its way.
        stream.wait_until(lambda: server.counts(names.subscription).acked > 0)

    def go_on(self) -> None:
        publish(self.topic, in_batches(self.sent[self.taken :]))


def check_undisturbed(stream: Stream, halves: Halves, batch: Any) -> None:
    """What the stream left is what a run leaves that nobody disturbed."""
    assert stream.wait() == 0, stream.said
    print(stream.said)
    left = stream.left
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert {(s.pane_timing, s.complete) for s in left.snapshots.values()} == {("on_time", True)}
    # A message that was safe and not yet acknowledged comes again, and is known.
    again = left.accounting["duplicates"]
    assert left.accounting == {**batch.accounting, "in": batch.accounting["in"] + again, "duplicates": again}
    assert closes(left.accounting)
    assert not [path for path in left.output.rglob(".*") if path.is_file()]


def test_workers_and_a_task_manager_that_are_lost_are_made_good(
    flink: Cluster, own_pubsub: Any, topic_and_subscription: Any, batch_of: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(own_pubsub.address, ack_deadline_seconds=DEADLINE)
    options = ["--subscription", names.subscription, "--max-disorder", "2h", *IDLE]
    with streaming(tmp_path, STUDY, None, *on(flink), *options) as stream:
        halves = Halves(stream, names, own_pubsub)
        job = flink.rest.jobs()[0]["jid"]

        def restored() -> int:
            return int(flink.rest.checkpoints(job)["counts"]["restored"])

        for worker in jobs.workers(flink):
            os.kill(worker, signal.SIGKILL)
        stream.wait_until(lambda: restored() > 0)
        flink.kill_task_manager(flink.task_managers[0])
        # Sent at once, so that the stream does not end as an idle one.
        halves.go_on()
        flink.start_task_manager()
        flink.wait()
        check_undisturbed(stream, halves, batch_of(halves.sent))
        assert len(flink.rest.problems(job)) >= 2
        assert restored() >= 2
    assert own_pubsub.counts(names.subscription).unacked == 0


def test_it_goes_on_from_a_savepoint_amid_joined_windows(
    flink: Cluster,
    own_pubsub: Any,
    topic_and_subscription: Any,
    run_estimate: Any,
    write_reports: Any,
    tmp_path: Path,
) -> None:
    names = topic_and_subscription(own_pubsub.address, ack_deadline_seconds=DEADLINE)
    options = ["--subscription", names.subscription, "--max-disorder", "2h", *IDLE]
    with streaming(tmp_path, JOINED, None, *on(flink), *options) as stream:
        halves = Halves(stream, names, own_pubsub, JOINED)
        job = flink.rest.jobs()[0]["jid"]
        savepoint = jobs.stop_with_savepoint(flink, job, tmp_path / "savepoints")
        assert stream.wait() == 0, stream.said
        assert f"--resume {stream.left.run} and --savepoint {savepoint}" in " ".join(stream.said.split())
        assert "JobCancellationException" not in stream.said
        assert not stream.left.records
    resumed = ["--resume", stream.left.run, "--savepoint", savepoint]
    with streaming(tmp_path, JOINED, None, *on(flink), *options, *resumed) as again:
        again.wait_until_said("^run .* reading ")
        halves.go_on()
        batch = run_batch(run_estimate, write_reports, tmp_path / "batch", JOINED, halves.sent)
        assert any(snapshot.joined for snapshot in batch.snapshots)
        check_undisturbed(again, halves, batch)
        assert again.left.run == stream.left.run
    assert own_pubsub.counts(names.subscription).unacked == 0


def test_it_stops_when_it_is_asked_to(
    flink: Cluster, own_pubsub: Any, topic_and_subscription: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(own_pubsub.address, ack_deadline_seconds=600)
    sent = reports_of(STUDY, "some", evenly(WEEK_AGO, 3 * SIZE, 2_000), seed=1)
    options = ["--subscription", names.subscription, "--max-disorder", "10s"]
    with streaming(tmp_path, STUDY, None, *on(flink), *options) as stream:
        publish(names.topic, in_batches(sent))
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: len(stream.left.records) == 2 * 2)
        assert stream.end(signal.SIGTERM) == 0, stream.said
        print(stream.said)
        left = stream.left
    assert {(s.window, s.pane_timing, s.complete) for s in left.snapshots.values()} == {
        ((WEEK_AGO, WEEK_AGO + SIZE), "on_time", True),
        ((WEEK_AGO + SIZE, WEEK_AGO + 2 * SIZE), "on_time", True),
        ((WEEK_AGO + 2 * SIZE, WEEK_AGO + 3 * SIZE), "early", False),
    }
    assert left.accounting["in"] == left.accounting["used"] == 4_000
    assert own_pubsub.counts(names.subscription).unacked == 0
    assert flink.rest.jobs()[0]["state"] == "CANCELED"
    jobs.wait_for(lambda: not jobs.workers(flink), "the workers to end")

"""``ldpbeam stream`` on a real Flink cluster: with a task manager or a worker lost, and stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from flink import flink_cluster  # noqa: F401 (a fixture)
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, one_by_one, publish, reports_of, rides
from stream_runs import answers, closes, run_batch, statistics_of, streaming

from ldpbeam.runners.flink.cluster import Cluster

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

#: Long enough that no window closes by the clock alone.
STUDY = rides("size: 10m, allowed_lateness: 10m")
SIZE = 10 * MINUTE
IDLE = ("--stop-when-idle", "20s")


def on(cluster: Cluster, *options: object) -> list[str]:
    return ["--runner", "flink", "--flink-master", cluster.address, *map(str, options)]


@pytest.fixture
def batch_of(run_estimate: Any, write_reports: Any, tmp_path: Path) -> Callable[[Sequence[Any]], Any]:
    """The batch run over some reports."""
    return lambda sent: run_batch(run_estimate, write_reports, tmp_path / "batch", STUDY, sent)


def test_a_backlog_is_that_of_a_batch_run(
    flink: Cluster, pubsub: str, topic_and_subscription: Any, batch_of: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(pubsub, ack_deadline_seconds=60)
    many = reports_of(STUDY, "many", evenly(WEEK_AGO, 6 * SIZE, 30_000), seed=1)
    single = reports_of(STUDY, "single", evenly(WEEK_AGO, 6 * SIZE, 1_000), seed=2)
    publish(names.topic, in_batches(many) + one_by_one(single))
    options = ["--subscription", names.subscription, "--max-disorder", "2h", *IDLE]
    with streaming(tmp_path, STUDY, None, *on(flink), *options) as stream:
        assert stream.wait() == 0, stream.said
        print(stream.said)
        left = stream.left
    batch = batch_of([*many, *single])
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert closes(left.accounting)
    assert left.accounting["used"] == batch.accounting["used"]
    assert left.accounting["late"] == 0

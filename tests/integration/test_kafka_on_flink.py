"""``ldpbeam stream`` of a topic of Kafka on a real Flink cluster, with a task manager lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flink as jobs
import pytest
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, reports_of, rides
from stream_runs import answers, statistics_of, streaming

from ldpbeam.runners.flink.cluster import Cluster

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
SIZE, PARTITIONS = 10 * MINUTE, 4


def test_readers_go_on_elsewhere_when_a_task_manager_is_lost(
    flink: Cluster, kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, PARTITIONS)
    first = reports_of(STUDY, "first", evenly(WEEK_AGO, 3 * SIZE, 20_000), seed=1)
    second = reports_of(STUDY, "second", evenly(WEEK_AGO + SIZE, 3 * SIZE, 20_000), seed=2)
    produce(kafka.address, topic, in_batches(first), PARTITIONS)
    options = ["--runner", "flink", "--flink-master", flink.address, "--kafka", kafka.address]
    options += ["--topic", topic, "--max-disorder", "2h", "--stop-when-idle", "13s"]
    with streaming(tmp_path, STUDY, None, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        # Something is in a checkpoint.
        stream.wait_until(lambda: any((stream.left.own).glob("journal-*.json")))
        job = flink.rest.jobs()[0]["jid"]
        flink.kill_task_manager(flink.task_managers[0])
        flink.start_task_manager()
        flink.wait()
        produce(kafka.address, topic, in_batches(second), PARTITIONS)
        assert stream.wait() == 0, stream.said
        left = stream.left
        assert flink.rest.checkpoints(job)["counts"]["restored"] > 0
        jobs.wait_for(lambda: not jobs.workers(flink), "the workers to end")
    batch = batch_of([*first, *second])
    assert left.accounting == batch.accounting
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert {(s.pane_timing, s.complete) for s in left.snapshots.values()} == {("on_time", True)}

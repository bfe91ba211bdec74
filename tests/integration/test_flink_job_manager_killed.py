"""A stream on Flink whose job manager is killed: the same command goes on with the last checkpoint."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from flink import start_cluster
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import answers, statistics_of, streaming

from ldpbeam.times import rfc3339

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE, PARTITIONS = 10 * MINUTE, 2
STUDY = rides("size: 10m, allowed_lateness: 10m")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_same_command_goes_on_with_the_last_checkpoint(
    parallelism: int, kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, PARTITIONS)
    first = reports_of(STUDY, "first", evenly(WEEK_AGO, 3 * SIZE, 300), seed=1)
    after = reports_of(STUDY, "after", evenly(WEEK_AGO + 3 * SIZE, 2 * SIZE, 200), seed=2)
    options = ["--runner", "flink", "--parallelism", parallelism, "--kafka", kafka.address, "--topic", topic]
    options += ["--max-disorder", "1m"]
    produce(kafka.address, topic, by_time(one_by_one(first)), PARTITIONS)
    with (
        start_cluster(tmp_path / "cluster", task_managers=parallelism) as cluster,
        streaming(tmp_path, STUDY, None, *options, "--flink-master", cluster.address) as stream,
    ):
        stream.wait_until_said("^run .* reading ")
        run = stream.left.run
        # Two windows are closed, and one is open.
        stream.wait_until(lambda: len(stream.left.records) == 2 * 2)
        stream.wait_until(lambda: (stream.left.run_folder / "checkpoints.json").exists())
        os.kill(cluster.job_manager.pid, signal.SIGKILL)
        assert stream.wait() == 2, stream.said
    produce(kafka.address, topic, by_time(one_by_one(after)), PARTITIONS)
    with (
        start_cluster(tmp_path / "another", task_managers=parallelism) as cluster,
        streaming(tmp_path, STUDY, None, *options, "--flink-master", cluster.address) as stream,
    ):
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: len(stream.left.records) == 4 * 2)
        stream.wait_until(lambda: stream.left.accounting.get("in") == 1_000)
        assert stream.end(signal.SIGTERM) == 0, stream.said
        left, said = stream.left, " ".join(stream.said.split())
    assert f"the job of run {run} was lost" in said
    assert left.run == run
    batch = batch_of([*first, *after])
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.accounting == batch.accounting
    # The stop ended the last window before its time.
    last = WEEK_AGO + 4 * SIZE
    assert {(s.window[0], s.complete) for s in left.snapshots.values() if s.window is not None} == {
        (WEEK_AGO + n * SIZE, n < 4) for n in range(5)
    }
    closed = [record for record in batch.estimates if record["window_start"] != rfc3339(last)]
    assert {place: left.estimates[place] for place in answers(closed)} == answers(closed)

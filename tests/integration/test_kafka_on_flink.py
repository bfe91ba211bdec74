"""``ldpbeam stream`` of a topic of Kafka on a real Flink cluster, of which a part that reads is killed."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import flink as jobs
import numpy as np
import psutil
import pytest
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, in_batches, one_by_one, reports_of, rides
from stream_runs import Left, answers, run_batch, statistics_of, streaming
from test_kafka_uneven_partitions import hold_up_and_push_nothing

from ldpbeam.runners.flink.cluster import Cluster
from ldpbeam.runners.flink.processes import Process

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
SIZE, PARTITIONS = 10 * MINUTE, 4
#: So many random moments at which a task manager is killed that reads.
KILLS = int(os.environ.get("LDPBEAM_TEST_FLINK_KILLS", "1"))
#: Longer than it takes until another task manager reads.
IDLE = ("--stop-when-idle", "13s")


def reads(cluster: Cluster, address: str) -> list[Process]:
    """The task managers whose workers are connected to a broker."""
    port = int(address.rpartition(":")[2])
    return [
        manager
        for manager in cluster.task_managers
        if any(port in _ports(process) for process in jobs.family(manager.pid))
    ]


def _ports(process: int) -> set[int]:
    """The ports to which a process is connected."""
    try:
        connections = psutil.Process(process).net_connections("tcp")
    except psutil.NoSuchProcess:  # it has just ended
        return set()
    return {each.raddr.port for each in connections if each.raddr}


def journals(left: Any) -> int:
    """How many readers have committed reports."""
    paths = (left.output / "runs" / left.run).glob("journal-*.json")
    return sum(bool(json.loads(path.read_text())["windows"]) for path in paths)


def test_each_partition_has_a_reader_and_others_read_on_when_a_task_manager_is_killed(
    flink: Cluster, kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, PARTITIONS)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 3 * SIZE, 5_000), seed=1)
    messages = in_batches(sent)
    parts = np.array_split(np.arange(len(messages)), KILLS + 1)
    draw = random.Random(KILLS)
    options = ["--runner", "flink", "--flink-master", flink.address, "--kafka", kafka.address]
    options += ["--topic", topic, "--group", topic, "--max-disorder", "2h", *IDLE]
    produce(kafka.address, topic, [messages[place] for place in parts[0]], PARTITIONS)
    with streaming(tmp_path, STUDY, None, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        # Something of each partition is in a checkpoint.
        stream.wait_until(lambda: journals(stream.left) == PARTITIONS)
        job = flink.rest.jobs()[0]["jid"]
        for part in parts[1:]:
            stream.wait_until(lambda: bool(reads(flink, kafka.address)))
            signal.sigtimedwait([], draw.uniform(0, 3))
            flink.kill_task_manager(draw.choice(reads(flink, kafka.address)))
            flink.start_task_manager()
            flink.wait()
            produce(kafka.address, topic, [messages[place] for place in part], PARTITIONS)
        assert stream.wait() == 0, stream.said
        print(stream.said)
        left = stream.left
        assert flink.rest.checkpoints(job)["counts"]["restored"] >= 1
    batch = batch_of(sent)
    assert left.accounting == batch.accounting
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert {(s.pane_timing, s.complete) for s in left.snapshots.values()} == {("on_time", True)}


def test_panes_come_early_on_time_and_late(
    flink: Cluster, kafka: Any, run_estimate: Any, write_reports: Any, tmp_path: Path
) -> None:
    study = rides("size: 10m, allowed_lateness: 10m, early_reports: 100")
    topic = new_topic(kafka.address, 2)
    sent = reports_of(study, "people", evenly(WEEK_AGO, 3 * SIZE, 600), seed=1)
    late = reports_of(study, "late", evenly(WEEK_AGO + SIZE, SIZE, 50), seed=2)
    messages = by_time(one_by_one(sent))
    options = ["--runner", "flink", "--flink-master", flink.address, "--kafka", kafka.address]
    options += ["--topic", topic, "--max-disorder", "1m"]

    def panes(left: Left) -> set[tuple[Any, str]]:
        return {(s.window, s.pane_timing) for s in left.snapshots.values()}

    first, second = ((WEEK_AGO + n * SIZE, WEEK_AGO + (n + 1) * SIZE) for n in (0, 1))
    with streaming(tmp_path, study, None, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        produce(kafka.address, topic, messages[:200], 2)
        stream.wait_until(lambda: (first, "early") in panes(stream.left))
        produce(kafka.address, topic, messages[200:], 2)
        stream.wait_until(lambda: {(first, "on_time"), (second, "on_time")} <= panes(stream.left))
        produce(kafka.address, topic, by_time(one_by_one(late)), 2)
        stream.wait_until(lambda: stream.left.accounting["in"] == 1_300)
        stream.wait_until(lambda: (second, "late") in panes(stream.left))
        assert stream.end(signal.SIGTERM) == 0, stream.said
        left = stream.left
    batch = run_batch(run_estimate, write_reports, tmp_path / "batch", study, [*sent, *late])
    assert left.accounting == batch.accounting
    assert left.statistics == statistics_of(batch.snapshots)


def test_partitions_that_each_have_a_reader_neither_hold_up_nor_push_the_windows_of_others(
    flink: Cluster, kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    engine = ("--runner", "flink", "--flink-master", flink.address)
    hold_up_and_push_nothing(kafka, batch_of, tmp_path, None, *engine)

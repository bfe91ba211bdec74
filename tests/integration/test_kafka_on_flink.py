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
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, reports_of, rides
from stream_runs import answers, statistics_of, streaming
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


def test_partitions_that_each_have_a_reader_neither_hold_up_nor_push_the_windows_of_others(
    flink: Cluster, kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    engine = ("--runner", "flink", "--flink-master", flink.address)
    hold_up_and_push_nothing(kafka, batch_of, tmp_path, None, *engine)

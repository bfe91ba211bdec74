"""A stream that was killed needs nothing of the topic that it has read, though its windows are open."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import committed, ends, new_topic, produce, remove_before
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")


def test_retention_may_remove_what_was_read_while_its_windows_are_open(
    kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, 2)
    gone, kept = (
        reports_of(STUDY, who, evenly(WEEK_AGO, 2 * SIZE, 200), seed)
        for seed, who in enumerate(["gone", "kept"])
    )
    later = reports_of(STUDY, "later", evenly(WEEK_AGO + 2 * SIZE, 2 * SIZE, 200), seed=2)
    options = ["--kafka", kafka.address, "--topic", topic, "--group", topic, "--max-disorder", "2h"]
    produce(kafka.address, topic, by_time(one_by_one(gone)), chosen=lambda number, message: 0)
    produce(kafka.address, topic, by_time(one_by_one(kept)), chosen=lambda number, message: 1)
    with streaming(tmp_path, STUDY, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        # The manifest is written before offsets are committed.
        stream.wait_until(lambda: committed(kafka.address, topic, topic, 2) == ends(kafka.address, topic, 2))
        stream.end(signal.SIGKILL)
    remove_before(kafka.address, topic, 400, partition=0)
    produce(kafka.address, topic, by_time(one_by_one(later)), 2)
    with streaming(tmp_path, STUDY, *options, "--stop-when-idle", "3s") as stream:
        assert stream.wait() == 0, stream.said
        left = stream.left
    assert left.statistics == statistics_of(batch_of([*gone, *kept, *later]).snapshots)
    assert {s.complete for s in left.snapshots.values()} == {True}
    assert left.accounting["in"] == left.accounting["used"] == 1_200


def test_windows_that_may_lack_what_retention_removed_unread_are_incomplete(
    kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, 1)
    read, lost = (
        reports_of(STUDY, who, evenly(WEEK_AGO, 2 * SIZE, 200), seed)
        for seed, who in enumerate(["read", "lost"])
    )
    later = reports_of(STUDY, "later", evenly(WEEK_AGO + 2 * SIZE, 2 * SIZE, 200), seed=2)
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "2h"]
    produce(kafka.address, topic, by_time(one_by_one(read)))
    with streaming(tmp_path, STUDY, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: stream.left.accounting.get("in") == 400)
        assert stream.end(signal.SIGTERM) == 0, stream.said
    produce(kafka.address, topic, by_time(one_by_one(lost)))
    remove_before(kafka.address, topic, 800)
    produce(kafka.address, topic, by_time(one_by_one(later)))
    with streaming(tmp_path, STUDY, *options, "--stop-when-idle", "3s") as stream:
        assert stream.wait() == 3, stream.said
        left, said = stream.left, " ".join(stream.said.split())
    assert f"{topic}, partition 0: retention has removed the messages from offset 400 to 799" in said
    assert left.statistics == statistics_of(batch_of([*read, *later]).snapshots)
    assert {s.complete for s in left.snapshots.values()} == {False}

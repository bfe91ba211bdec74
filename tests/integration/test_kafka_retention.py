"""Windows that may lack what retention removed before it was read are incomplete."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import new_topic, produce, remove_before
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")


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

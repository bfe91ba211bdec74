"""A stream that was killed, and whose topic has lost messages meanwhile that open windows need, says so."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import committed, ends, new_topic, produce, remove_before
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import Left, statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")


def counted(left: Left) -> list[list[int]]:
    """The offset up to which what became of a partition's messages is counted, by partition."""
    path = left.run_folder / "counted.json"
    return list(json.loads(path.read_text())["positions"]) if path.exists() else []


def test_windows_whose_messages_retention_has_removed_are_incomplete_and_the_others_are_right(
    kafka: Any, prism: str, batch_of: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, 2)
    lost, kept = (
        reports_of(STUDY, who, evenly(WEEK_AGO, 2 * SIZE, 200), seed)
        for seed, who in enumerate(["lost", "kept"])
    )
    later = reports_of(STUDY, "later", evenly(WEEK_AGO + 2 * SIZE, 2 * SIZE, 200), seed=2)
    options = ["--kafka", kafka.address, "--topic", topic, "--group", topic, "--max-disorder", "2h"]
    produce(kafka.address, topic, by_time(one_by_one(lost)), chosen=lambda number, message: 0)
    produce(kafka.address, topic, by_time(one_by_one(kept)), chosen=lambda number, message: 1)
    with streaming(tmp_path, STUDY, prism, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: counted(stream.left) == [[0, 400], [1, 400]])
        # The journal is written before offsets are committed.
        stream.wait_until(lambda: committed(kafka.address, topic, topic, 2) == ends(kafka.address, topic, 2))
        stream.end(signal.SIGKILL)
    remove_before(kafka.address, topic, 400, partition=0)
    produce(kafka.address, topic, by_time(one_by_one(later)), 2)
    with streaming(tmp_path, STUDY, prism, *options, "--stop-when-idle", "3s") as stream:
        assert stream.wait() == 3, stream.said
        left, said = stream.left, " ".join(stream.said.split())
    assert f"{topic}, partition 0: retention has removed the messages from offset 0 to 399" in said
    assert "400 reports that were read are in no estimate" in said
    assert left.statistics == statistics_of(batch_of([*kept, *later]).snapshots)
    assert {(s.window, s.complete) for s in left.snapshots.values()} == {
        ((WEEK_AGO + n * SIZE, WEEK_AGO + (n + 1) * SIZE), n >= 2) for n in range(4)
    }
    assert (left.accounting["in"], left.accounting["used"]) == (1_200, 800)

"""Partitions that are silent, or whose messages are of next year, leave the windows of others alone.

Each of them by itself, by hand: tests/transforms/test_partitions_of_a_feed.py.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import new_topic, produce
from stream_messages import HOUR, MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE, WINDOWS = 10 * MINUTE, 12
STUDY = rides("size: 10m, allowed_lateness: 10m")
NEXT_YEAR = WEEK_AGO + 372 * 24 * HOUR
#: How many partitions have messages in order, and those beside them: one never has a message.
HONEST, ONCE, FALSE, NEVER = 3, 3, 4, 5


def test_partitions_neither_hold_up_nor_push_the_windows_of_others(
    kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    """Windows of partitions in order close amid a stream as in a batch run, with the others beside."""
    topic = new_topic(kafka.address, NEVER + 1)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, WINDOWS * SIZE, 3_000), seed=1)
    once = reports_of(STUDY, "once", [WEEK_AGO] * 10, seed=2)
    false = reports_of(STUDY, "false", evenly(NEXT_YEAR, SIZE, 300), seed=3)
    messages, half = by_time(one_by_one(sent)), 3_000
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "10m"]
    with streaming(tmp_path, STUDY, *options) as stream:
        produce(kafka.address, topic, one_by_one(once), chosen=lambda number, message: ONCE)
        produce(kafka.address, topic, one_by_one(false), chosen=lambda number, message: FALSE)
        produce(kafka.address, topic, messages[:half], HONEST)
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: stream.left.accounting.get("in") == half + 20 + 600)
        # If another partition had pushed the watermark, these would be late.
        produce(kafka.address, topic, messages[half:], HONEST)
        # The last windows stay open, as clients may have told up to one time in 20 falsely.
        closed = [(WEEK_AGO + n * SIZE, WEEK_AGO + (n + 1) * SIZE) for n in range(WINDOWS - 3)]
        stream.wait_until(lambda: set(closed) <= {place[1] for place in stream.left.statistics})
        assert stream.end(signal.SIGTERM) == 0, stream.said
        left = stream.left
    batch = statistics_of(batch_of([*sent, *once]).snapshots)
    assert {place: one for place, one in left.statistics.items() if place[1] in closed} == {
        place: one for place, one in batch.items() if place[1] in closed
    }
    assert {s.pane_timing for s in left.snapshots.values() if s.window in closed} == {"on_time"}
    assert left.accounting["in"] == left.accounting["used"] + left.accounting["in_open_windows"] + 600
    assert (left.accounting["out_of_range"], left.accounting["late"]) == (600, 0)

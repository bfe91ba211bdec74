"""A partition that is silent, or whose messages are of next year, leaves the windows of others alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import new_topic, produce
from stream_messages import HOUR, MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import statistics_of, streaming

from ldpbeam.runners.flink.cluster import Cluster

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE, WINDOWS = 10 * MINUTE, 12
STUDY = rides("size: 10m, allowed_lateness: 10m")
NEXT_YEAR = WEEK_AGO + 372 * 24 * HOUR
#: Partitions in which messages come in order, and the one beside them that has others.
HONEST, OTHER = 3, 3


@pytest.mark.parametrize("other", ["never had a message", "had messages once", "is of next year"])
def test_one_partition_neither_holds_up_nor_pushes_the_windows_of_others(
    other: str, kafka: Any, prism: str, batch_of: Any, tmp_path: Path
) -> None:
    holds_up_and_pushes_nothing(other, HONEST + 1, kafka, batch_of, tmp_path, prism)


def test_nor_do_an_empty_one_and_one_of_next_year_where_each_has_a_reader(
    kafka: Any, flink: Cluster, batch_of: Any, tmp_path: Path
) -> None:
    engine = ("--runner", "flink", "--flink-master", flink.address)
    holds_up_and_pushes_nothing("is of next year", HONEST + 2, kafka, batch_of, tmp_path, None, *engine)


def holds_up_and_pushes_nothing(
    other: str, partitions: int, kafka: Any, batch_of: Any, folder: Path, prism: str | None, *engine: str
) -> None:
    """Windows of partitions in order close amid a stream as in a batch run, with another partition beside."""
    topic = new_topic(kafka.address, partitions)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, WINDOWS * SIZE, 3_000), seed=1)
    times = {
        "never had a message": [],
        "had messages once": [WEEK_AGO] * 10,
        "is of next year": evenly(NEXT_YEAR, SIZE, 300),
    }[other]
    beside = reports_of(STUDY, "others", times, seed=2) if len(times) else []
    false = sum(len(part.times) for part in beside if other == "is of next year")
    messages, half = by_time(one_by_one(sent)), 3_000
    options = [*engine, "--kafka", kafka.address, "--topic", topic, "--max-disorder", "10m"]
    with streaming(folder, STUDY, prism, *options) as stream:
        produce(kafka.address, topic, one_by_one(beside), chosen=lambda number, message: OTHER)
        produce(kafka.address, topic, messages[:half], HONEST)
        read = half + sum(len(part.times) for part in beside)
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: stream.left.accounting.get("in") == read)
        # If the other partition had pushed the watermark, these would be late.
        produce(kafka.address, topic, messages[half:], HONEST)
        # The last windows stay open, as clients may have told up to one time in 20 falsely.
        closed = [(WEEK_AGO + n * SIZE, WEEK_AGO + (n + 1) * SIZE) for n in range(WINDOWS - 3)]
        stream.wait_until(lambda: set(closed) <= {place[1] for place in stream.left.statistics})
        assert stream.end(signal.SIGTERM) == 0, stream.said
        left = stream.left
    used = [*sent, *(beside if not false else [])]
    batch = statistics_of(batch_of(used).snapshots)
    assert {place: one for place, one in left.statistics.items() if place[1] in closed} == {
        place: one for place, one in batch.items() if place[1] in closed
    }
    assert {s.pane_timing for s in left.snapshots.values() if s.window in closed} == {"on_time"}
    assert left.accounting["in"] == left.accounting["used"] + false
    assert (left.accounting["out_of_range"], left.accounting["late"]) == (false, 0)

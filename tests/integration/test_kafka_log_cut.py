"""A broker that has lost the end of its log, and has new messages at its offsets: the stream sees it."""

from __future__ import annotations

import signal
import struct
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import Left, statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")
IDLE = ("--stop-when-idle", "3s")


def lose_end(broker: Any, data: Path, topic: str, offset: int) -> None:
    """Start a broker anew without the messages of partition 0 from an offset on, as after a power failure.

    The offset must be the first of a batch of the log, as that of a call of ``produce`` is.
    """
    broker.kill()
    folder = data / f"{topic}-0"
    log = folder / f"{0:020}.log"
    content, at, base = log.read_bytes(), 0, 0
    while at < len(content):
        base, length = struct.unpack_from(">qi", content, at)
        if base >= offset:
            break
        at += 12 + length
    assert base == offset
    with log.open("r+b") as stream:
        stream.truncate(at)
    for path in folder.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot"):
            path.unlink()
    broker.start()


def committed(left: Left, messages: int) -> bool:
    """Whether so many messages of partition 0 are in the last commit."""
    return [0, messages] in left.manifest.get("position", {}).get("offsets", ())


def test_what_came_at_the_offsets_of_lost_messages_is_read(
    own_kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    broker = own_kafka()
    topic = new_topic(broker.address)
    options = ["--kafka", broker.address, "--topic", topic, "--max-disorder", "1m"]
    first = reports_of(STUDY, "kept", evenly(WEEK_AGO, 2 * SIZE, 50), seed=1)
    lost = reports_of(STUDY, "lost", evenly(WEEK_AGO + 2 * SIZE, SIZE, 100), seed=2)
    new = reports_of(STUDY, "new", evenly(WEEK_AGO + 3 * SIZE, 2 * SIZE, 200), seed=3)
    for sent in (first, lost):
        produce(broker.address, topic, by_time(one_by_one(sent)))
    with streaming(tmp_path, STUDY, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: stream.said.count(" on time: ") == 2 and committed(stream.left, 300))
        stream.end(signal.SIGKILL)
    lose_end(broker, tmp_path / "kafka" / "data", topic, 100)
    produce(broker.address, topic, by_time(one_by_one(new)))
    with streaming(tmp_path, STUDY, *options, *IDLE) as stream:
        assert stream.wait() == 3, stream.said
        left, said = stream.left, " ".join(stream.said.split())
    assert "partition 0: the broker has lost 200 messages that were read, from offset 100 on" in said
    # What was read is kept. Nobody knows whether others were in the log.
    assert left.statistics == statistics_of(batch_of([*first, *lost, *new]).snapshots)
    assert {(s.window, s.complete) for s in left.snapshots.values()} == {
        ((WEEK_AGO + n * SIZE, WEEK_AGO + (n + 1) * SIZE), n < 2) for n in range(5)
    }
    assert left.accounting["in"] == left.accounting["used"] == 700
    # What is there now is known: the next run finds nothing new.
    with streaming(tmp_path, STUDY, *options, *IDLE) as stream:
        assert stream.wait() == 0, stream.said
        assert stream.left.accounting["in"] == 0

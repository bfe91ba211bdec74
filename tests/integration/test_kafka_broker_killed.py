"""A local stream of Kafka whose broker is killed, and starts again with its data, loses nothing."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka_messages import new_topic, produce
from stream_messages import (
    MINUTE,
    WEEK_AGO,
    by_time,
    evenly,
    one_by_one,
    reports_of,
    rides,
    shuffled_within,
)
from stream_runs import answers, statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE, PARTITIONS = 10 * MINUTE, 4
STUDY = rides("size: 10m, allowed_lateness: 10m")
#: So many random moments at which the broker is killed.
KILLS = int(os.environ.get("LDPBEAM_TEST_BROKER_KILLS", "1"))


def test_a_stream_goes_on_when_its_broker_was_killed(own_kafka: Any, batch_of: Any, tmp_path: Path) -> None:
    broker = own_kafka()
    topic = new_topic(broker.address, PARTITIONS)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 12 * SIZE, 6_000), seed=1)
    messages = shuffled_within(by_time(one_by_one(sent)), 100, seed=2)
    parts = np.array_split(np.arange(len(messages)), KILLS + 1)
    options = ["--kafka", broker.address, "--topic", topic, "--group", topic, "--max-disorder", "10m"]
    draw = random.Random(KILLS)
    with streaming(tmp_path, STUDY, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        for part in parts[:-1]:
            produce(broker.address, topic, [messages[place] for place in part], PARTITIONS)
            # Some time after the messages have come, whatever the stream does then.
            signal.sigtimedwait([], draw.uniform(0, 3))
            broker.kill()
            signal.sigtimedwait([], draw.uniform(0, 3))
            broker.start()
        produce(broker.address, topic, [messages[place] for place in parts[-1]], PARTITIONS)
        stream.wait_until(lambda: stream.left.accounting.get("in") == len(messages))
        # The next process closes what is open, as nothing follows; a stop may leave it without estimates.
        stream.end(signal.SIGKILL)
    with streaming(tmp_path, STUDY, *options, "--stop-when-idle", "3s") as stream:
        assert stream.wait() == 0, stream.said
        left = stream.left
    batch = batch_of(sent)
    assert left.accounting == batch.accounting
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert {snapshot.complete for snapshot in left.snapshots.values()} == {True}

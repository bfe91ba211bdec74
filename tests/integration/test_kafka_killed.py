"""A local stream of a topic of Kafka that is killed at any moment loses nothing, and counts nothing twice."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka_messages import new_topic, produce
from stream_messages import (
    MINUTE,
    WEEK_AGO,
    by_time,
    client,
    evenly,
    one_by_one,
    reports_of,
    rides,
    shuffled_within,
)
from stream_runs import Left, answers, statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")
#: So many random moments at which the stream is killed.
KILLS = int(os.environ.get("LDPBEAM_TEST_KILLS", "2"))
IDLE = ("--stop-when-idle", "3s")
PARTITIONS = 4


def killed_again_and_again(
    kafka: Any, folder: Path, study: str, messages: Sequence[Any], kills: int
) -> tuple[int, Left]:
    """The exit code and what is left of a run that reads messages, and is killed so many times."""
    topic = new_topic(kafka.address, PARTITIONS)
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "10m"]
    draw = random.Random(kills)
    parts = np.array_split(np.arange(len(messages)), kills + 1)
    runs = set()
    for part in parts[:-1]:
        produce(kafka.address, topic, [messages[place] for place in part], PARTITIONS)
        with streaming(folder, study, *options) as stream:
            stream.wait_until_said("^run .* reading ")
            runs.add(stream.left.run)
            # Some time after it has begun to read, whatever it does then.
            stream.wait_until(lambda: stream.left.accounting != {} or draw.random() < 0.01)
            stream.process.poll()
            signal.sigtimedwait([], draw.uniform(0, 3))
            stream.end(signal.SIGKILL)
    produce(kafka.address, topic, [messages[place] for place in parts[-1]], PARTITIONS)
    with streaming(folder, study, *options, *IDLE) as stream:
        stream.wait_until_said("^run .* reading ")
        # It has read everything, and has windows left to estimate.
        stream.wait_until(lambda: stream.left.accounting.get("in") == len(messages))
        code, left = stream.end(signal.SIGKILL), stream.left
    if code == -signal.SIGKILL:
        with streaming(folder, study, *options, *IDLE) as stream:
            code, left = stream.wait(), stream.left
            runs.add(left.run)
    assert runs == {left.run}
    return code, left


def mixed(good: Sequence[Any], bad: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(good messages with one in 100 a second time and the bad ones among them, those of the second time)."""
    again = list(good[::100])
    messages: list[Any] = []
    each = len(good) // len(bad)
    for place, message in enumerate(good):
        messages.append(message)
        if place % 100 == 0:
            messages.append(again[place // 100])
        if place % each == each // 2 and place // each < len(bad):
            messages.append(bad[place // each])
    return messages, again


def test_a_stream_that_is_killed_again_and_again_is_as_if_nobody_had_disturbed_it(
    kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 12 * SIZE, 12_000), seed=1)
    good = shuffled_within(by_time(one_by_one(sent)), 100, seed=2)
    bad = [client.Outgoing(b"{", "application/json", 1)] * 50
    messages, again = mixed(good, bad)
    code, left = killed_again_and_again(kafka, tmp_path, STUDY, messages, KILLS)
    assert code == 0
    assert left.accounting == {
        "in": len(messages),
        "used": len(good),
        "duplicates": len(again),
        "late": 0,
        "out_of_range": 0,
        "dead_letters": len(bad),
        "damaged_files": 0,
        "dead_letters_by_reason": {"not_json": len(bad)},
    }
    batch = batch_of(sent)
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert {s.complete for s in left.snapshots.values()} == {True}
    # A letter may be in two files; its place says that it is the same.
    assert len({(letter["file"], letter["position"]) for letter in left.dead_letters}) == len(bad)

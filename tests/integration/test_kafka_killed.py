"""A local stream of a topic of Kafka that is killed at any moment loses nothing, and counts nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
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
from stream_runs import Left, answers, closes, statistics_of, streaming

from ldpbeam.times import milliseconds, rfc3339
from ldpbeam.transforms.state.journal import ended_at
from ldpbeam.words import counted

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE, DAY = 10 * MINUTE, 1440 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")
#: So many random moments at which the stream is killed.
KILLS = int(os.environ.get("LDPBEAM_TEST_KILLS", "2"))
IDLE = ("--stop-when-idle", "3s")
PARTITIONS = 4


def has_settled(left: Left) -> bool:
    """Whether windows of a run have settled, so that more of their reports are late."""
    path = left.run_folder / "counted.json"
    return path.exists() and json.loads(path.read_text())["settled"] is not None


def killed_again_and_again(
    kafka: Any, prism: str, folder: Path, study: str, messages: Sequence[Any], kills: int
) -> tuple[int, Left]:
    """The exit code and what is left of a run that reads messages, and is killed so many times."""
    topic = new_topic(kafka.address, PARTITIONS)
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "10m"]
    draw = random.Random(kills)
    parts = np.array_split(np.arange(len(messages)), kills + 1)
    runs = set()
    for part in parts[:-1]:
        produce(kafka.address, topic, [messages[place] for place in part], PARTITIONS)
        with streaming(folder, study, prism, *options) as stream:
            stream.wait_until_said("^run .* reading ")
            runs.add(stream.left.run)
            # Some time after it has begun to read, whatever it does then.
            stream.wait_until(lambda: stream.left.accounting != {} or draw.random() < 0.01)
            stream.process.poll()
            signal.sigtimedwait([], draw.uniform(0, 3))
            stream.end(signal.SIGKILL)
    produce(kafka.address, topic, [messages[place] for place in parts[-1]], PARTITIONS)
    with streaming(folder, study, prism, *options, *IDLE) as stream:
        stream.wait_until_said("^run .* reading ")
        # It ends by itself, and has windows left to estimate.
        stream.wait_until(lambda: ended_at(str(stream.left.output), stream.left.run) is not None)
        code, left = stream.end(signal.SIGKILL), stream.left
    if code == -signal.SIGKILL:
        with streaming(folder, study, prism, *options, *IDLE) as stream:
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
    kafka: Any, prism: str, batch_of: Any, tmp_path: Path
) -> None:
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 12 * SIZE, 12_000), seed=1)
    good = shuffled_within(by_time(one_by_one(sent)), 100, seed=2)
    bad = [client.Outgoing(b"{", "application/json", 1)] * 50
    messages, again = mixed(good, bad)
    code, left = killed_again_and_again(kafka, prism, tmp_path, STUDY, messages, KILLS)
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


def test_a_killed_stream_refuses_reports_that_are_too_far_and_no_honest_one(
    kafka: Any, prism: str, batch_of: Any, tmp_path: Path
) -> None:
    # Twenty windows on either side of the reports are open: more than theirs, however batches are cut.
    study = STUDY.replace("most_open: 100000", "most_open: 120")
    assert study != STUDY
    honest = WEEK_AGO, WEEK_AGO + 12 * SIZE
    sent = reports_of(STUDY, "people", evenly(honest[0], 12 * SIZE, 6_000), seed=1)
    good = shuffled_within(by_time(one_by_one(sent)), 100, seed=2)
    # Days away, and up to forty windows away: whether those are refused depends on what came with them.
    days = [WEEK_AGO - 5 * DAY, WEEK_AGO + 2 * DAY]
    far = one_by_one(reports_of(STUDY, "far", [*evenly(days[0], DAY, 25), *evenly(days[1], DAY, 25)], seed=3))
    sides = [honest[0] - 40 * SIZE, honest[1]]
    near = one_by_one(
        reports_of(STUDY, "near", [time for side in sides for time in evenly(side, 40 * SIZE, 25)], seed=4)
    )
    bad = shuffled_within([*far, *near], 10**6, seed=5)
    messages, again = mixed(good, bad)
    code, left = killed_again_and_again(kafka, prism, tmp_path, study, messages, max(1, KILLS // 2))
    assert code == 3
    counts = left.accounting
    assert counts["in"] == len(messages)
    assert closes(counts)
    assert (counts["dead_letters"], counts["duplicates"]) == (0, len(again))
    assert counts["out_of_range"] == counts["too_far"]
    assert len(far) <= counts["too_far"] <= len(bad)

    def of_honest(there: Mapping[Any, Any]) -> dict[Any, Any]:
        return {key: each for key, each in there.items() if honest[0] <= begin_of(key[1]) < honest[1]}

    batch = batch_of(sent)
    assert of_honest(left.statistics) == statistics_of(batch.snapshots)
    assert of_honest(left.estimates) == answers(batch.estimates)
    assert {s.complete for s in of_honest(left.snapshots).values()} == {True}


def begin_of(window: Any) -> int:
    """When the window of a statistic begins, which has both ends, or that of an estimate."""
    return milliseconds(window) if isinstance(window, str) else int(window[0])


def test_beyond_the_disorder_the_accounting_still_closes(kafka: Any, prism: str, tmp_path: Path) -> None:
    topic = new_topic(kafka.address, PARTITIONS)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 12 * SIZE, 6_000), seed=1)
    messages = shuffled_within(by_time(one_by_one(sent)), 10**6, seed=2)
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "1s"]
    half = len(messages) // 2
    produce(kafka.address, topic, messages[:half], PARTITIONS)
    with streaming(tmp_path, STUDY, prism, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: has_settled(stream.left))
        stream.end(signal.SIGKILL)
    produce(kafka.address, topic, messages[half:], PARTITIONS)
    with streaming(tmp_path, STUDY, prism, *options, *IDLE) as stream:
        assert stream.wait() == 0, stream.said
        left = stream.left
    assert left.accounting["in"] == len(messages)
    assert left.accounting["late"] > 0
    assert closes(left.accounting)


def test_a_stream_whose_stop_leaves_windows_without_estimates_goes_on_with_them(
    kafka: Any, prism: str, batch_of: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address, PARTITIONS)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 4 * SIZE, 2_000), seed=1)
    messages = by_time(one_by_one(sent))
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "1m"]
    produce(kafka.address, topic, messages[:2_500], PARTITIONS)
    with streaming(tmp_path, STUDY, prism, *options) as stream:
        stream.wait_until_said(" on time: ", times=1)
        # A run that was asked an hour ago has no time left to estimate what is open.
        asked, stop = tmp_path / "asked", stream.left.run_folder / "stop.json"
        asked.touch()
        os.utime(asked, (time.time() - 3_600,) * 2)
        asked.rename(stop)
        assert stream.wait() == 0, stream.said
        one, counts, said = stream.left, stream.left.accounting, " ".join(stream.said.split())
    assert {snapshot.complete for snapshot in one.snapshots.values()} == {True, False}
    left_open = {rfc3339(place[1][0]) for place, each in one.snapshots.items() if not each.complete}
    # A window that ended as the stop came has no estimates either.
    without = {rfc3339(place[1][0]) for place in one.snapshots} - {place[1] for place in one.estimates}
    assert left_open <= without
    assert counts["windows_ended_without_estimates"] == len(without)
    assert closes(counts)
    assert f"the stop left {counted(len(without), 'window')} without estimates; the statistics are" in said
    produce(kafka.address, topic, messages[2_500:], PARTITIONS)
    with streaming(tmp_path, STUDY, prism, *options, *IDLE) as stream:
        assert stream.wait() == 0, stream.said
        left = stream.left
    assert "goes on" in stream.said
    batch = batch_of(sent)
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert {s.complete for s in left.snapshots.values()} == {True}
    assert left.accounting["in"] == left.accounting["used"] == len(messages)
    # Nothing is left for another run to go on with.
    assert json.loads((left.run_folder / "counted.json").read_text())["ended"]

"""``ldpbeam stream`` from a real Kafka broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka_messages import committed, ends, new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, client, evenly, in_batches, one_by_one, reports_of, rides
from stream_runs import answers, closes, statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

#: Long enough that no window closes by the clock alone.
STUDY = rides("size: 10m, allowed_lateness: 10m", intervals=True)
SIZE = 10 * MINUTE
IDLE = ("--stop-when-idle", "3s")


def test_a_topic_gives_the_estimates_of_a_batch_run(kafka: Any, batch_of: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka.address, 4)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 3 * SIZE, 3_000), seed=1)
    bad = [
        client.Outgoing(b"neither said nor JSON", "", 1),
        client.Outgoing(b"{", "application/json", 1),
    ]
    single, many = sent[:1], sent[1:]
    produce(kafka.address, topic, [*one_by_one(single), *in_batches(many), *bad], 4)
    last = ends(kafka.address, topic, 4)
    options = ["--kafka", kafka.address, "--topic", topic, "--group", topic, "--max-disorder", "1h"]
    with streaming(tmp_path, STUDY, *options, *IDLE) as stream:
        assert stream.wait() == 0, stream.said
        left = stream.left
    batch = batch_of(sent)
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    assert {(s.pane_timing, s.complete) for s in left.snapshots.values()} == {("on_time", True)}
    assert left.accounting["in"] == 6_000 + len(bad)
    assert left.accounting["used"] == 6_000
    assert closes(left.accounting)
    # 3,000 single messages and 30 of many, one partition after the other.
    assert {(letter["file"], letter["position"], letter["reason"]) for letter in left.dead_letters} == {
        (f"{topic}/2", 757, "unknown_content_type"),
        (f"{topic}/3", 757, "not_json"),
    }
    assert committed(kafka.address, topic, topic, 4) == last
    # A second run into the folder begins where the first has ended.
    more = reports_of(STUDY, "more", evenly(WEEK_AGO + 6 * SIZE, SIZE, 100), seed=2)
    produce(kafka.address, topic, in_batches(more), 4)
    with streaming(tmp_path, STUDY, *options, *IDLE) as again:
        assert again.wait() == 0, again.said
    assert again.left.statistics == statistics_of(batch_of(more).snapshots)
    assert again.left.accounting["in"] == again.left.accounting["used"] == 200

"""A span of a topic of a real Kafka broker as a batch run reads it, and estimates that go to a topic."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from kafka_messages import ends, new_topic, produce
from stream_messages import (
    MINUTE,
    WEEK_AGO,
    by_time,
    client,
    evenly,
    in_batches,
    one_by_one,
    reports_of,
    rides,
)
from stream_runs import answers, streaming
from support.waiting import PATIENCE
from test_stream_metrics import check_equal, counted, scraped

import ldpbeam as ldp
from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.transforms.outputs.panes import estimate_id

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
PARTITIONS = 3
BAD = [client.Outgoing(b"neither said nor JSON", "", 1), client.Outgoing(b"{", "application/json", 1)]


@pytest.fixture(scope="module")
def parts() -> list[Any]:
    """What two crowds send, one after the other."""
    return [reports_of(STUDY, f"crowd {n}", evenly(WEEK_AGO, 30 * MINUTE, 500), seed=n) for n in range(2)]


@pytest.fixture(scope="module")
def topic(kafka: Any, parts: list[Any]) -> tuple[str, str]:
    """A topic with both crowds and two bad messages, and a time of the brokers between the crowds."""
    name = new_topic(kafka.address, PARTITIONS)
    produce(kafka.address, name, [*one_by_one(parts[0][:1]), *in_batches(parts[0][1:]), *BAD], PARTITIONS)
    time.sleep(0.01)
    between = str(time.time_ns() // 1_000_000)
    time.sleep(0.01)
    produce(kafka.address, name, in_batches(parts[1]), PARTITIONS)
    return name, between


@pytest.mark.parametrize("read", ["all", "first", "second", "none"])
def test_a_span_of_a_topic_is_estimated_as_files_are(
    read: str,
    kafka: Any,
    topic: tuple[str, str],
    parts: list[Any],
    batch_of: Any,
    command: Any,
    tmp_path: Path,
) -> None:
    name, between = topic
    span = {
        "all": ["--from-offset", "earliest"],
        "first": ["--to-offset", between],
        "second": ["--from-offset", between, "--to-offset", "latest"],
        "none": ["--from-offset", "latest"],
    }[read]
    (tmp_path / "study.yaml").write_text(STUDY)
    output = tmp_path / "out"
    options = [
        "--study",
        tmp_path / "study.yaml",
        "--output",
        output,
        "--kafka",
        kafka.address,
        "--topic",
        name,
    ]
    ran = command("estimate", *options, *span, "--max-bad-fraction", 1, "--json")
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    sent = [*(parts[0] if read in ("all", "first") else []), *(parts[1] if read in ("all", "second") else [])]
    bad = len(BAD) if read in ("all", "first") else 0
    used = sum(len(part.times) for part in sent)
    assert (result["accounting"]["in"], result["accounting"]["used"]) == (used + bad, used)
    assert result["accounting"]["dead_letters"] == bad
    if sent:
        assert answers(result["estimates"]) == answers(batch_of(sent).estimates)
    assert ("the input has no report" in ran.err) == (not sent)


def test_a_pipeline_reads_a_span_of_a_topic(kafka: Any, topic: tuple[str, str]) -> None:
    with beam.Pipeline() as pipeline:
        reports = pipeline | ldp.beam.ReadReports(
            STUDY, f"kafka://{kafka.address}/{topic[0]}", to_offset=topic[1]
        )
        counts = reports.counts | beam.CombinePerKey(sum)
        number = reports.reports | beam.Map(lambda batch: batch.num_rows) | beam.CombineGlobally(sum)
        assert_that(number, equal_to([1_000]), label="reports")
        assert_that(
            counts | beam.Filter(lambda count: "/" not in count[0]),
            equal_to([("in", 1_002), ("dead_letters", 2)]),
            label="counts",
        )


def test_estimates_are_published_by_their_ids_and_metrics_are_the_brokers_and_the_accountings(
    kafka: Any, prism: str, tmp_path: Path
) -> None:
    name, published = new_topic(kafka.address, PARTITIONS), new_topic(kafka.address)
    sent = reports_of(STUDY, "crowd", evenly(WEEK_AGO, 30 * MINUTE, 500), seed=1)
    messages = by_time(one_by_one(sent))
    produce(kafka.address, name, [*messages, *messages[-20:], *BAD], PARTITIONS)
    read = len(messages) + 20 + len(BAD)
    options = ("--kafka", kafka.address, "--topic", name)
    options += ("--publish-to", f"kafka://{kafka.address}/{published}")
    watched = ("--metrics-port", "0", "--log-json", "--max-disorder", "1s")
    with streaming(tmp_path, STUDY, prism, *options, *watched) as stream:
        stream.wait_until_said("^run .* reading ")
        url = re.findall(r'"url": "([^"]*)"', stream.said)[0]
        stream.wait_until_said('"event": "rate"')
        # All windows close, as nothing follows, so reports of an hour before are late.
        stream.wait_until(lambda: counted(url) == (read, read))
        stream.wait_until(lambda: len(stream.left.records) == 6)
        late = reports_of(STUDY, "late", evenly(WEEK_AGO - 60 * MINUTE, 10 * MINUTE, 15), seed=2)
        ahead = reports_of(STUDY, "ahead", evenly(WEEK_AGO + 10**9, 10 * MINUTE, 10), seed=3)
        produce(kafka.address, name, [*one_by_one(late), *one_by_one(ahead)], PARTITIONS)
        read += 2 * (15 + 10)
        stream.wait_until(lambda: counted(url) == (read, read))
        stream.wait_until(lambda: scraped(url)["ldpbeam_lag_messages"] == 0)
        last = scraped(url)
        assert stream.end(signal.SIGTERM) == 0, stream.said
        records, counts = stream.left.records, stream.left.accounting
    check_equal(last, counts)
    assert counts["dead_letters_by_reason"] == {"not_json": 1, "unknown_content_type": 1}
    fates = {"used": 1_000, "duplicates": 20, "late": 30, "out_of_range": 20, "dead_letters": 2}
    assert {fate: counts[fate] for fate in fates} == fates
    assert counts["in"] == read
    messages = consumed(kafka.address, published)
    assert {key: json.loads(value) for key, value in messages} == {
        estimate_id(read_record(EstimateRecord, json.dumps(record).encode())): record for record in records
    }
    assert len(messages) == len(records) == 6


def consumed(address: str, topic: str) -> list[tuple[str, bytes]]:
    """The keys and values of all messages of a topic with one partition."""
    from confluent_kafka import Consumer, TopicPartition

    (last,) = ends(address, topic, 1)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "looks", "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(last, PATIENCE) if last else []
        assert {dict(message.headers())["content-type"] for message in messages} == {b"application/json"}
        return [(message.key().decode(), message.value()) for message in messages]
    finally:
        consumer.close()

"""A span of a topic of a real Kafka broker as a batch run and a pipeline read it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, client, evenly, in_batches, one_by_one, reports_of, rides
from stream_runs import answers

import ldpbeam as ldp

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
        "--study", tmp_path / "study.yaml", "--output", output, "--kafka", kafka.address, "--topic", name,
    ]  # fmt: skip
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

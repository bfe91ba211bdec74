"""The metrics of a stream of Kafka while it runs: what is scraped last is what its accounting holds."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import committed, consumed, ends, new_topic, produce
from prometheus_client.parser import text_string_to_metric_families
from stream_messages import MINUTE, WEEK_AGO, by_time, client, evenly, one_by_one, reports_of, rides
from stream_runs import streaming

from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.transforms.outputs.panes import estimate_id

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

#: Three windows, the last of which the clock closes a few seconds after the last report.
STUDY = rides("size: 1m, allowed_lateness: 1m")
PARTITIONS = 3
BAD = [client.Outgoing(b"neither said nor JSON", "", 1), client.Outgoing(b"{", "application/json", 1)]


def test_metrics_are_the_brokers_and_the_accountings_and_estimates_are_published_by_their_ids(
    kafka: Any, tmp_path: Path
) -> None:
    name, published = new_topic(kafka.address, PARTITIONS), new_topic(kafka.address)
    sent = reports_of(STUDY, "crowd", evenly(WEEK_AGO, 3 * MINUTE, 500), seed=1)
    messages = by_time(one_by_one(sent))
    produce(kafka.address, name, [*messages, *messages[-20:], *BAD], PARTITIONS)
    read = len(messages) + 20 + len(BAD)
    options = ("--kafka", kafka.address, "--topic", name, "--group", name)
    options += ("--publish-to", f"kafka://{kafka.address}/{published}")
    watched = ("--metrics-port", "0", "--log-json", "--max-disorder", "1s")
    with streaming(tmp_path, STUDY, *options, *watched) as stream:
        stream.wait_until_said("^run .* reading ")
        url = re.findall(r'"url": "([^"]*)"', stream.said)[0]
        stream.wait_until(lambda: _get(url, "/readyz") == 200)
        stream.wait_until(lambda: _get(url, "/metrics") == 200)
        # All windows close, as nothing follows, so reports of an hour before are late.
        stream.wait_until(lambda: counted(url) == (read, read))
        stream.wait_until(lambda: len(stream.left.records) == 6)
        late = reports_of(STUDY, "late", evenly(WEEK_AGO - 60 * MINUTE, MINUTE, 15), seed=2)
        ahead = reports_of(STUDY, "ahead", evenly(WEEK_AGO + 10**9, MINUTE, 10), seed=3)
        produce(kafka.address, name, [*one_by_one(late), *one_by_one(ahead)], PARTITIONS)
        read += 2 * (15 + 10)
        stream.wait_until(lambda: counted(url) == (read, read))
        stream.wait_until(lambda: scraped(url)["ldpbeam_lag_messages"] == 0)
        stream.wait_until_said('"event": "rate"')
        last = scraped(url)
        assert _get(url, "/healthz") == 200
        assert stream.end(signal.SIGTERM) == 0, stream.said
        records, counts = stream.left.records, stream.left.accounting
        lines = [json.loads(line) for line in stream.said.splitlines() if line.startswith("{")]
    check_equal(last, counts)
    assert committed(kafka.address, name, name, PARTITIONS) == ends(kafka.address, name, PARTITIONS)
    assert counts["dead_letters_by_reason"] == {"not_json": 1, "unknown_content_type": 1}
    fates = {"used": 1_000, "duplicates": 20, "late": 30, "out_of_range": 20, "dead_letters": 2}
    assert {fate: counts[fate] for fate in fates} == fates
    assert counts["in"] == read
    # The last window may still have late reports.
    assert (last["ldpbeam_open_windows"], last["ldpbeam_solve_seconds_count"]) == (1, 3)
    assert last["ldpbeam_resident_memory_bytes engine"] > 2**20
    assert last["ldpbeam_fit_tests"] > 0
    # A line of the log for each window that closed.
    panes = [line for line in lines if line.get("event") == "pane"]
    assert [line["reports"] for line in panes] == [334, 334, 332]
    assert {line["pane_timing"] for line in panes} == {"on_time"}
    messages = consumed(kafka.address, published)
    assert {key: json.loads(value) for key, value in messages} == {
        estimate_id(read_record(EstimateRecord, json.dumps(record).encode())): record for record in records
    }
    assert len(messages) == len(records) == 6


def scraped(url: str) -> dict[str, float]:
    """The samples at an address: their names, and a label's value after it."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def check_equal(samples: Mapping[str, float], accounting: Mapping[str, Any]) -> None:
    """Check that every count of an accounting is in samples."""
    counts = dict(accounting)
    reasons = counts.pop("dead_letters_by_reason")
    assert {key: n for key, n in samples.items() if key.startswith("ldpbeam_dead_letters_total ")} == {
        f"ldpbeam_dead_letters_total {reason}": n for reason, n in reasons.items()
    }
    assert samples["ldpbeam_reports_read_total"] == counts.pop("in")
    for outcome in ("used", "duplicates", "late", "out_of_range", "dead_letters"):
        assert samples[f"ldpbeam_reports_total {outcome}"] == counts.pop(outcome)
    assert samples["ldpbeam_in_open_windows"] == counts.pop("in_open_windows", 0)
    assert {name: samples[f"ldpbeam_{name}_total"] for name in counts} == counts


def counted(url: str) -> tuple[float, float]:
    """How many reports were read, and how many of them have an outcome."""
    samples = scraped(url)
    outcomes = (number for name, number in samples.items() if name.startswith("ldpbeam_reports_total "))
    return samples["ldpbeam_reports_read_total"], sum(outcomes)


def _get(url: str, path: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code

"""Reports of nobody on Kafka, with kills: no file and no answer has an id, and all count as in files."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, client
from stream_runs import Left, answers, statistics_of, streaming
from support.encoded import arrow_stream
from support.watched_ids import Watched, reports, seen_in, user_id

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = """\
study: nobody
users: none
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 32
    services: {maps: {mechanism: square_wave, epsilon: 1.0}, taxi: {mechanism: piecewise, epsilon: 0.5}}
windows: {size: 10m, allowed_lateness: 10m, max_age: 30000d}
intervals: false
"""
RECORDS = reports(9_000, WEEK_AGO + np.sort(np.random.default_rng(3).integers(0, 6 * SIZE, 9_000)))
#: Ids in messages that are none, and where names of the study belong.
BAD = [
    client.Outgoing(f'{{"user_id": "{user_id(1)}", '.encode(), "application/json", 1),
    client.Outgoing(user_id(3).encode(), user_id(3), 1),
    client.Outgoing(json.dumps({**RECORDS[0], "service": user_id(5)}).encode(), "application/json", 1),
]


def messages() -> list[Any]:
    """Single reports in JSON and many in Arrow streams, in the order of their times; each third of them."""
    found = []
    for start in range(0, len(RECORDS), 300):
        part = RECORDS[start : start + 300]
        if start // 300 % 3:
            found += [client.Outgoing(json.dumps(one).encode(), "application/json", 1) for one in part]
            continue
        data = arrow_stream(pa.Table.from_pylist(part))
        found.append(client.Outgoing(data, "application/vnd.apache.arrow.stream", len(part)))
    return [*found[:1000], *BAD, *found[1000:]]


def answer_of(url: str) -> bytes:
    """What an address answers, also when it says that something is not as it should be."""
    try:
        with urllib.request.urlopen(url) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.read()


def test_a_stream_that_is_killed_writes_no_id_and_counts_as_a_batch_run_does(
    kafka: Any, run_estimate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "in.jsonl"
    lines.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    batch = run_estimate(tmp_path / "batch", STUDY, [lines])
    expected = statistics_of(batch.snapshots)
    assert batch.accounting["duplicates"] == len(RECORDS) // 3
    # The stream is killed twice; all that it writes is looked through.
    temporary, folder = tmp_path / "tmp", tmp_path / "stream"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    sent = messages()
    topic, parts = new_topic(kafka.address, 2), np.array_split(np.arange(len(sent)), 3)
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "10m", "--log-json"]
    options += ["--metrics-port", "0"]
    with Watched(temporary, folder) as watched:
        for part in parts:
            produce(kafka.address, topic, [sent[place] for place in part], 2)
            last = part is parts[-1]
            ended = ["--stop-when-idle", "3s"] if last else []
            with streaming(folder, STUDY, *options, *ended) as stream:
                stream.wait_until_said('"message": "?run .* reading |^run .* reading ')
                if last:
                    assert stream.wait() == 0, stream.said
                else:
                    stream.wait_until(lambda stream=stream: stream.left.accounting != {})  # type: ignore[misc]
                    (url,) = re.findall(r'"url": "([^"]*)"', stream.said)
                    for door in ("metrics", "healthz", "readyz"):
                        assert not seen_in(answer_of(f"{url}/{door}"))
                    stream.end(signal.SIGKILL)
                said, left = stream.said, Left(stream.output, stream.left.run)
                assert not seen_in(said.encode()), said
    assert watched.shown == set() and len(watched.files) > 10
    assert left.accounting["in"] == len(RECORDS) + len(BAD)
    assert left.accounting["dead_letters"] == len(BAD)
    assert left.accounting["duplicates"] == batch.accounting["duplicates"]
    assert left.statistics == expected
    assert left.estimates == answers(batch.estimates)

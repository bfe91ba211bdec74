"""Nothing of a local run listens beyond loopback, and another account gets nothing from what listens."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flink as jobs
import pytest
from listeners import NOBODY, Listener, listeners, tried_as
from stream_messages import MINUTE, WEEK_AGO, evenly, one_by_one, publish, reports_of, rides
from stream_runs import MARK, closes, processes_of, streaming
from terminal import paused, terminal

if TYPE_CHECKING:
    from pubsub_server import PubSubServer

pytestmark = pytest.mark.slow

STUDY = rides("size: 10m")
BATCH = """
study: s
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 16
    services: {a: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {alone: {estimator: ems}}
"""
COMBINED = "ldpbeam.transforms.windows.combine:CombineGroups.extract_output"


def beyond_loopback(found: set[Listener]) -> list[str]:
    return sorted(listener.place for listener in found if not listener.loopback)


def test_another_account_gets_nothing_from_a_stream(
    own_pubsub: PubSubServer, topic_and_subscription: Any, prism: str, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        sentence = "only root can try what another account can: run this test as root"
        pytest.fail(sentence, pytrace=False) if jobs.REQUIRED else pytest.skip(sentence)
    names = topic_and_subscription(own_pubsub.address)
    sent = reports_of(STUDY, "sent", evenly(WEEK_AGO, 5 * MINUTE, 500), seed=1)
    publish(names.topic, one_by_one(sent))
    with streaming(tmp_path, STUDY, prism, "--subscription", names.subscription) as stream:
        # Acknowledged: so its workers run.
        stream.wait_until(lambda: own_pubsub.counts(names.subscription).unacked == 0)
        found = listeners(stream.processes())
        # One of the engine, and one of the pool of workers.
        assert {listener.pid == stream.process.pid for listener in found} == {True, False}
        places = sorted(listener.place for listener in found)
        worked = tried_as(NOBODY, sockets=places, folders=sorted({str(Path(p).parent) for p in places}))
        assert not any(worked.values()), worked
        for place in places:
            # The account itself reaches them.
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(place)
        assert beyond_loopback(found) == []
        assert stream.end(15) == 0, stream.said
        left = stream.left
    assert left.accounting["used"] == 1_000
    assert closes(left.accounting)


@pytest.mark.parametrize("runner", ["direct", "prism"])
def test_a_batch_listens_on_nothing_that_others_reach(
    runner: str, request: pytest.FixtureRequest, write_lines: Any, tmp_path: Path
) -> None:
    # Without an engine, which so small files do not need, nothing would listen.
    options = ["--estimate-on", "worker"]
    options += ["--prism-location", request.getfixturevalue("prism")] if runner == "prism" else []
    study = tmp_path / "study.yaml"
    study.write_text(BATCH)
    record = {"attribute": "x", "service": "a", "event_time": "2025-01-01T00:00:00Z", "payload": 0.5}
    reports = write_lines(tmp_path / "reports.jsonl", [{"user_id": str(n), **record} for n in range(100)])
    run = ["estimate", "--study", study, "--input", reports, "--output", tmp_path / "out", "--runner", runner]
    mark = f"batch-{os.getpid()}"
    with terminal(paused(COMBINED, tmp_path, *run, *options), {MARK: mark}) as batch:
        batch.wait_until((tmp_path / "reached").exists)
        found = listeners(processes_of(mark))
        (tmp_path / "go").touch()
        assert batch.wait() == 0, batch.said
    assert beyond_loopback(found) == []
    assert len(found) == (2 if runner == "prism" else 0), found
    assert all(own.port is None for own in found)
    assert processes_of(mark) == []

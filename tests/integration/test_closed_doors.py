"""Nothing of a run on this machine listens."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from listeners import listeners
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, in_batches, publish, reports_of, rides
from stream_runs import MARK, processes_of, streaming
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
#: A function in the midst of a run.
AMID = {
    "local": "ldpbeam.pipelines.commands.estimate:tally_here",
    "direct": "ldpbeam.transforms.windows.combine:CombineGroups.extract_output",
}


def test_a_stream_listens_on_nothing(
    own_pubsub: PubSubServer, topic_and_subscription: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(own_pubsub.address)
    sent = reports_of(STUDY, "sent", evenly(WEEK_AGO, 25 * MINUTE, 500), seed=1)
    publish(names.topic, by_time(in_batches(sent)))
    with streaming(tmp_path, STUDY, "--subscription", names.subscription) as stream:
        # So the process that solves is there.
        stream.wait_until_said(" on time: ")
        assert len(stream.processes()) > 1
        assert listeners(stream.processes()) == set()
        assert stream.end(signal.SIGTERM) == 0, stream.said


@pytest.mark.parametrize("runner", ["local", "direct"])
def test_a_batch_listens_on_nothing(runner: str, write_lines: Any, tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(BATCH)
    record = {"attribute": "x", "service": "a", "event_time": "2025-01-01T00:00:00Z", "payload": 0.5}
    reports = write_lines(tmp_path / "reports.jsonl", [{"user_id": str(n), **record} for n in range(100)])
    run = ["estimate", "--study", study, "--input", reports, "--output", tmp_path / "out", "--runner", runner]
    mark = f"batch-{os.getpid()}"
    with terminal(paused(AMID[runner], tmp_path, *run), {MARK: mark}) as batch:
        batch.wait_until((tmp_path / "reached").exists)
        found = listeners(processes_of(mark))
        (tmp_path / "go").touch()
        assert batch.wait() == 0, batch.said
    assert found == set()
    assert processes_of(mark) == []

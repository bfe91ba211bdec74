"""Panes of a stream, in files and on a topic."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from stream_messages import (
    MINUTE,
    WEEK_AGO,
    evenly,
    in_batches,
    publish,
    pulled,
    reports_of,
    rides,
)
from stream_runs import answers, run_batch, statistics_of, streaming

from ldpbeam.schemas.outputs.checked import record_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.panes import estimate_id

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
#: One of its estimates begins where the last pane's ended, as long as panes are early.
EARLY = rides("size: 10m, allowed_lateness: 10m, early_reports: 500", intervals=True).replace(
    "estimates: {",
    "estimates: {alone: {estimator: ems, services: [maps], accelerated: true, tolerance: 1e-15}, ",
)
ESTIMATES = 3


def id_of(line: dict[str, Any]) -> str:
    """The id of an estimate that is published as this."""
    return estimate_id(record_of(EstimateRecord, line))


def test_panes_come_early_on_time_and_late(
    pubsub: str,
    topic_and_subscription: Any,
    run_estimate: Any,
    write_reports: Any,
    tmp_path: Path,
) -> None:
    from google.api_core.exceptions import NotFound
    from google.cloud import pubsub_v1

    names, told = topic_and_subscription(pubsub), topic_and_subscription(pubsub)
    first = reports_of(EARLY, "first", evenly(WEEK_AGO, SIZE // 2, 600), seed=1)
    second = reports_of(EARLY, "second", evenly(WEEK_AGO + SIZE // 2, SIZE // 2, 600), seed=2)
    # More people than may be wrong about the time.
    after = reports_of(EARLY, "after", [WEEK_AGO + SIZE + SIZE // 2] * 150, seed=3)
    late = reports_of(EARLY, "late", evenly(WEEK_AGO, SIZE, 50), seed=4)

    def send(sent: Any) -> None:
        publish(names.topic, in_batches(sent))

    options = ["--topic", names.topic, "--publish-to", told.topic, "--max-disorder", "10s"]
    # Longer than a busy machine takes from one step to the next.
    options += ["--stop-when-idle", "20s"]
    with streaming(tmp_path, EARLY, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        own = re.findall(r"reading (projects/ldp-test/subscriptions/ldpbeam-[\w-]+) at ", stream.said)
        send(first)
        stream.wait_until_said(" early")
        send(second)
        send(after)
        stream.wait_until_said(" on time")
        send(late)
        stream.wait_until_said(" late")
        # Said again it changes nothing, and gives no pane.
        send(late)
        assert stream.wait() == 0, stream.said
        left = stream.left
    with pubsub_v1.SubscriberClient() as subscriber, pytest.raises(NotFound):
        subscriber.get_subscription(subscription=own[0])
    every = [*first, *second, *after, *late]
    reports = sum(len(part.times) for part in every)
    assert left.accounting["in"] == reports + 100
    assert (left.accounting["used"], left.accounting["duplicates"]) == (reports, 100)
    batch = run_batch(run_estimate, write_reports, tmp_path / "batch", EARLY, every)
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.estimates == answers(batch.estimates)
    panes = len(re.findall(r" (?:early|on time|late)(?: \d+)?: ", stream.said))
    published = pulled(told.subscription, ESTIMATES * panes)
    found = [json.loads(message.data) for message in published]
    assert len(found) == ESTIMATES * panes
    assert {message.attributes["content-type"] for message in published} == {"application/json"}
    ids = [message.attributes["id"] for message in published]
    assert len(set(ids)) == len(ids)
    assert ids == [id_of(record) for record in found]
    last: list[Any] = []
    found.sort(key=lambda record: (record["window_start"], record["name"], record["pane_index"]))
    for (start, _), group in itertools.groupby(found, key=lambda r: (r["window_start"], r["name"])):
        of_window = list(group)
        last.append(of_window[-1])
        assert [record["pane_index"] for record in of_window] == list(range(len(of_window)))
        assert [record["complete"] for record in of_window] == [
            record["pane_timing"] != "early" for record in of_window
        ]
        counts = [record["reports"] for record in of_window]
        assert counts == sorted(counts)
        timings = [timing for timing, _ in itertools.groupby(r["pane_timing"] for r in of_window)]
        assert timings == (["early", "on_time", "late"] if start == rfc3339(WEEK_AGO) else ["on_time"])
    assert sorted(last, key=id_of) == sorted(left.records, key=id_of)

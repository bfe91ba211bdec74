"""``ReadFromPubSub | Estimate(study)`` on Beam's direct runner, and what that gives up."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import apache_beam as beam
import beam_stream as example
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, publish, reports_of, rides
from support.beam_reports import rows_of
from support.waiting import wait_until

import ldpbeam as ldp

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 30d")
#: The server, what the stream gave, and how many messages waited for their acknowledgement when one was
#: processed; the engine runs in this process.
_servers: list[Any] = []
_rows: list[ldp.beam.EstimateRow] = []
_waiting: list[int] = []


def _look(message: Any, subscription: str) -> Any:
    _waiting.append(_servers[-1].counts(subscription).unacked)
    return message


def _give(row: ldp.beam.EstimateRow) -> None:
    _rows.append(row)


def test_reports_of_last_week_are_late_and_all_are_counted_and_acknowledged_before_they_are(
    own_pubsub: Any, topic_and_subscription: Any, batch_of: Any
) -> None:
    names = topic_and_subscription(own_pubsub.address)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 30 * MINUTE, 300), seed=1)
    messages = in_batches(sent)
    publish(names.topic, messages[::2])
    _servers.append(own_pubsub)
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
    arriving = example.messages(pipeline, Namespace(kafka=None, subscription=names.subscription))
    found = arriving | beam.Map(_look, names.subscription) | ldp.beam.Estimate(STUDY)
    _ = found.estimates | "Give" >> beam.Map(_give)
    result = pipeline.run()
    last: dict[tuple[str | None, str], ldp.beam.EstimateRow] = {}

    def wait(reports: int) -> None:
        def counted() -> bool:
            last.update({(row.window_start, row.estimate): row for row in list(_rows)})
            return sum(row.reports for row in last.values() if row.estimate == "mean") == reports

        wait_until(counted, lambda: last)

    try:
        wait(300)
        publish(names.topic, messages[1::2])
        wait(600)
    finally:
        result.cancel()
    # The clock is the watermark.
    assert {row.pane_timing for row in last.values()} == {"late"}
    panes = [row._replace(pane_index=0, pane_timing="on_time") for row in last.values()]
    assert sorted(panes) == sorted(rows_of(batch_of(sent).estimates))
    # What is processed cannot come again, whatever becomes of it.
    assert {*_waiting} == {0}

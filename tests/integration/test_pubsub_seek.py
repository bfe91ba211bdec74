"""A subscription that is sought back by hand, as docs/streaming.md says, and why no run does it itself."""

from __future__ import annotations

import datetime
import signal
from pathlib import Path
from typing import Any

import pytest
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, publish, reports_of, rides
from stream_runs import statistics_of, streaming

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
from google.api_core.exceptions import MethodNotImplemented
from google.cloud.pubsub_v1 import SubscriberClient
from pubsub_clients import Clients, bodies

pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
IDLE = ("--stop-when-idle", "5s")


def seek(subscription: str, time: datetime.datetime) -> None:
    with SubscriberClient() as client:
        try:
            client.seek(request={"subscription": subscription, "time": time})
        except MethodNotImplemented:
            pytest.skip("this Pub/Sub server cannot seek; gcloud with its component pubsub-emulator has one")


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def test_what_a_killed_stream_lost_comes_again_into_a_new_folder(
    pubsub: str, topic_and_subscription: Any, prism: str, batch_of: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(pubsub, retain_acked_messages=True)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 30 * MINUTE, 2_000), seed=1)
    messages = in_batches(sent)
    half = len(messages) // 2
    options = ["--subscription", names.subscription, "--max-disorder", "2h"]
    before = now()
    publish(names.topic, messages[:half])
    with streaming(tmp_path / "killed", STUDY, prism, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: stream.left.accounting.get("in", 0) >= 1_000)
        stream.wait_until(lambda: bool(stream.left.named))
        stream.end(signal.SIGKILL)
    seek(names.subscription, before)
    publish(names.topic, messages[half:])
    with streaming(tmp_path / "again", STUDY, prism, *options, *IDLE) as again:
        assert again.wait() == 0, again.said
        left = again.left
    batch = batch_of(sent)
    assert left.statistics == statistics_of(batch.snapshots)
    assert left.accounting["used"] == batch.accounting["used"]
    assert all(snapshot.complete for snapshot in left.snapshots.values())


def test_a_message_that_nobody_has_taken_is_lost_if_it_is_older(
    pubsub: str, topic_and_subscription: Any
) -> None:
    """No reader knows which messages wait, so none can choose a time that loses nothing."""
    names = topic_and_subscription(pubsub, retain_acked_messages=True)
    clients = Clients(*names)
    before = now()
    clients.publish(b"waits")
    seek(names.subscription, before)
    received = clients.pull(1)
    assert bodies(received) == [b"waits"]
    clients.set_deadline(received, 0)
    seek(names.subscription, now())
    clients.publish(b"later")
    assert bodies(clients.pull(2, seconds=3)) == [b"later"]
    clients.close()

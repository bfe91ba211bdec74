"""A stream that stands still, as on a suspended machine, loses no report of a punctual publisher.

``LDPBEAM_PAUSES=20 LDPBEAM_PAUSE_SECONDS=15 pytest tests/integration/test_pauses.py`` pauses it more often.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stream_messages import one_by_one, publish, reports_of, rides
from stream_runs import Stream, closes, streaming

if TYPE_CHECKING:
    from pubsub_server import PubSubServer

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

PAUSES = int(os.environ.get("LDPBEAM_PAUSES", "1"))
#: Longer than a pull waits for its answer, and than the server keeps what it sent for whom it sent it to.
PAUSE_SECONDS = float(os.environ.get("LDPBEAM_PAUSE_SECONDS", "12"))
STUDY = rides("size: 2s, allowed_lateness: 1s")
OPTIONS = ("--max-disorder", "1s", "--drain")
#: Seconds between two publications (in between, pulls are answered empty), and the disorder.
EVERY, DISORDER = 3.0, 1.0


class Publisher:
    """Publishes reports at the moment of their event, and counts those for which that took too long."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.published = self.unpunctual = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._publish_on)

    def _publish_on(self) -> None:
        while not self._done.wait(EVERY):
            begun = time.time()
            who = f"at-{self.published}"
            messages = one_by_one(reports_of(STUDY, who, [int(1000 * begun)] * 50, seed=self.published))
            publish(self.topic, messages)
            self.published += len(messages)
            self.unpunctual += len(messages) * (time.time() - begun > DISORDER)

    @contextlib.contextmanager
    def publishing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._done.set()
            self._thread.join()


def pause(stream: Stream, seconds: float) -> None:
    """Stop every process of a stream for a time."""
    processes = stream.processes()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in processes:
            os.kill(process, number)
        if number == signal.SIGSTOP:
            time.sleep(seconds)


def test_no_report_of_a_punctual_publisher_is_late_after_a_pause(
    own_pubsub: PubSubServer, topic_and_subscription: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(own_pubsub.address, ack_deadline_seconds=10)
    publisher = Publisher(names.topic)
    with streaming(tmp_path, STUDY, "--subscription", names.subscription, *OPTIONS) as stream:
        stream.wait_until_said("^run .* reading ")
        with publisher.publishing():
            stream.wait_until_said(" on time: ", times=2)
            for number in range(PAUSES):
                panes = stream.said.count(" on time: ")
                pause(stream, PAUSE_SECONDS)
                # The watermark moves on after the pause.
                stream.wait_until(lambda panes=panes: stream.said.count(" on time: ") >= panes + 3)
                print(f"pause {number + 1}: {stream.left.accounting}", flush=True)
        stream.wait_until(lambda: own_pubsub.counts(names.subscription).unacked == 0)
        assert stream.end(signal.SIGTERM) == 0, stream.said
        left = stream.left.accounting
    print(f"{publisher.published} published, {publisher.unpunctual} unpunctual: {left}")
    assert left["late"] <= publisher.unpunctual
    assert left["used"] >= publisher.published - publisher.unpunctual
    assert closes(left)

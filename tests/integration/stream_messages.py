"""What the tests of ``ldpbeam stream`` send and get: people's reports, in messages of the demo's clients."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support.waiting import PATIENCE

from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.schemas.study.yaml_file import parse_study

CLIENT = Path(__file__).parents[2] / "examples" / "stream" / "client.py"
MINUTE, HOUR = 60_000, 3_600_000
#: An hour of a week ago: event times of a backlog, in whole windows.
WEEK_AGO = time.time_ns() // 1_000_000 // HOUR * HOUR - 7 * 24 * HOUR


def _client() -> Any:
    spec = importlib.util.spec_from_file_location("stream_client", CLIENT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


client = _client()


def rides(windows: str, *, intervals: bool = False) -> str:
    """A study of one number told to two services that are joined, with these windows.

    Intervals take most of the time of an estimate.
    """
    return (
        "study: rides\nattributes:\n  minutes:\n    domain: {numeric: [0, 180]}\n    buckets: 32\n"
        "    services: {maps: {mechanism: square_wave, epsilon: 1.0}, "
        "taxi: {mechanism: piecewise, epsilon: 0.5}}\n"
        "    estimates: {together: {estimator: ule}, mean: {estimator: ivw}}\n"
        f"windows: {{{windows}, max_age: 30000d}}\n"
        f"intervals: {'{level: 0.95}' if intervals else 'false'}\n"
    )


def reports_of(study: str, who: str, times: Sequence[int] | np.ndarray, seed: int) -> list[SentReports]:
    """What people send to both services of ``rides``, one at each of these times."""
    times = np.asarray(times, dtype=np.int64)
    minutes = 180 * np.random.default_rng(seed).beta(2, 5, len(times))
    users = [f"{who}-{number}" for number in range(len(times))]
    found: list[SentReports] = client.perturbed(parse_study(study), "minutes", minutes, users, times, seed)
    return found


def in_batches(sent: Sequence[SentReports], size: int = 100) -> list[Any]:
    """Messages of so many reports, one service after the other."""
    return [message for part in sent for message in client.in_batches(part, size)]


def one_by_one(sent: Sequence[SentReports]) -> list[Any]:
    """Messages of one report, one service after the other."""
    return [message for part in sent for message in client.one_by_one(part)]


def by_time(messages: Sequence[Any], services: int = 2) -> list[Any]:
    """Messages of one service after the other's, in the order of event time."""
    each = len(messages) // services
    return [messages[each * service + place] for place in range(each) for service in range(services)]


def evenly(start: int, length: int, people: int) -> np.ndarray:
    """So many event times in [start, start + length), ascending."""
    return start + np.arange(people) * length // people


def publish(topic: str, messages: Sequence[Any]) -> list[str]:
    """Publish messages in this very order; gives their ids.

    The publisher of the library sends several requests at a time, so it keeps no order.
    """
    from google.pubsub_v1 import PublisherClient

    publisher = _to_server(PublisherClient)
    ids: list[str] = []
    with contextlib.closing(publisher.transport):
        for part in _requests(messages):
            bodies = [{"data": m.data, "attributes": {"content-type": m.content_type}} for m in part]
            request = {"topic": topic, "messages": bodies}
            ids += publisher.publish(request=request, timeout=PATIENCE).message_ids
    return ids


def _requests(messages: Sequence[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    size = 0
    for message in messages:
        if part and (len(part) == 500 or size + len(message.data) > 2**22):
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.data)
    if part:
        yield part


def _to_server(kind: Any) -> Any:
    """A bare client of the server in ``PUBSUB_EMULATOR_HOST``."""
    import grpc

    options = [("grpc.max_receive_message_length", -1)]
    channel = grpc.insecure_channel(os.environ["PUBSUB_EMULATOR_HOST"], options=options)
    return kind(transport=kind.get_transport_class("grpc")(channel=channel))


def pulled(subscription: str, count: int) -> list[Any]:
    """So many messages of a subscription, acknowledged, and any that come with the last of them."""
    from google.api_core.exceptions import DeadlineExceeded
    from google.pubsub_v1 import SubscriberClient

    subscriber = _to_server(SubscriberClient)
    found: list[Any] = []
    end = time.monotonic() + PATIENCE
    with contextlib.closing(subscriber.transport):
        while len(found) < count and time.monotonic() < end:
            request = {"subscription": subscription, "max_messages": 1000}
            with contextlib.suppress(DeadlineExceeded):
                received = subscriber.pull(request=request, timeout=5, retry=None).received_messages
                found += [one.message for one in received]
                if received:
                    receipts = [one.ack_id for one in received]
                    subscriber.acknowledge(request={"subscription": subscription, "ack_ids": receipts})
    return found

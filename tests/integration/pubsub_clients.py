"""Clients of Pub/Sub for the tests: the library's own, and a bare stream."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.api_core import exceptions
from google.api_core.retry import Retry
from google.cloud import pubsub_v1
from google.pubsub_v1 import PublisherClient

PATIENCE = 240.0  # seconds until something that should come is given up; never reached when all is well


class Clients:
    """Both clients of one topic and its subscription."""

    def __init__(self, topic: str, subscription: str) -> None:
        self.topic, self.subscription = topic, subscription
        self.publisher = pubsub_v1.PublisherClient()
        # With PUBSUB_EMULATOR_HOST the library opens a channel that takes no answer above 4 MiB.
        channel = grpc.insecure_channel(
            os.environ["PUBSUB_EMULATOR_HOST"], options=[("grpc.max_receive_message_length", -1)]
        )
        transport = pubsub_v1.SubscriberClient.get_transport_class("grpc")(channel=channel)
        self.subscriber = pubsub_v1.SubscriberClient(transport=transport)

    def publish(self, *data: bytes) -> list[str]:
        """In one request; the messages' ids."""
        request = {"topic": self.topic, "messages": [{"data": part} for part in data]}
        # The publisher of the library waits to gather requests; the one below it sends this one.
        again = Retry(timeout=PATIENCE)
        return list(PublisherClient.publish(self.publisher, request=request, retry=again).message_ids)

    def pull(self, count: int, seconds: float = PATIENCE) -> list[Any]:
        """So many messages, or those that came in so many seconds."""
        found: list[Any] = []
        end = time.monotonic() + seconds
        while len(found) < count and (left := end - time.monotonic()) > 0:
            request = {"subscription": self.subscription, "max_messages": count - len(found)}
            with contextlib.suppress(exceptions.DeadlineExceeded):
                found += self.subscriber.pull(request=request, timeout=left + 1, retry=None).received_messages
        return found

    def acknowledge(self, received: list[Any], **options: Any) -> None:
        ack_ids = [message.ack_id for message in received]
        self.subscriber.acknowledge(
            request={"subscription": self.subscription, "ack_ids": ack_ids}, **options
        )

    def set_deadline(self, received: list[Any], seconds: int) -> None:
        """From now; 0 gives the messages back."""
        request = {"ack_ids": [message.ack_id for message in received], "ack_deadline_seconds": seconds}
        self.subscriber.modify_ack_deadline(request={"subscription": self.subscription, **request})

    @contextlib.contextmanager
    def receiving(self, callback: Callable[[Any], None], **flow: int) -> Iterator[Any]:
        """The streaming pull of the library, for the block."""
        future = self.subscriber.subscribe(
            self.subscription, callback, flow_control=pubsub_v1.types.FlowControl(**flow)
        )
        try:
            yield future
        finally:
            future.cancel()
            future.result(PATIENCE)

    def close(self) -> None:
        self.publisher.transport.close()
        self.subscriber.close()


class Stream:
    """A bare streaming pull: what the client says, and what it is told."""

    def __init__(self, clients: Clients, **first: Any) -> None:
        self._said: list[Any] = []
        self._more = threading.Condition()
        self._ended = False
        self.say(subscription=clients.subscription, **{"stream_ack_deadline_seconds": 10, **first})
        self.responses = clients.subscriber.streaming_pull(
            requests=self._requests(), retry=None, timeout=PATIENCE
        )

    def say(self, **request: Any) -> None:
        with self._more:
            self._said.append(pubsub_v1.types.StreamingPullRequest(**request))
            self._more.notify()

    def hear(self) -> list[Any]:
        return list(next(iter(self.responses)).received_messages)

    def end(self) -> None:
        self.responses.cancel()
        with self._more:
            self._ended = True
            self._more.notify()

    def _requests(self) -> Iterator[Any]:
        while True:
            with self._more:
                self._more.wait_for(lambda: self._said or self._ended)
                if self._ended:
                    return
                request = self._said.pop(0)
            yield request


def bodies(received: list[Any]) -> list[bytes]:
    return [message.message.data for message in received]


def eventually(truth: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not truth():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)

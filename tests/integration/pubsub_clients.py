"""The clients of a topic and its subscription that tests speak to a Pub/Sub server with."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

import grpc
from google.api_core import exceptions
from google.api_core.retry import Retry
from google.pubsub_v1 import PublisherClient, SubscriberClient
from support.waiting import PATIENCE


class Clients:
    """Both clients of one topic and its subscription."""

    def __init__(self, topic: str, subscription: str) -> None:
        self.topic, self.subscription = topic, subscription
        # The library's own clients gather what they publish, and take no answer above 4 MiB.
        self.publisher, self.subscriber = (
            kind(transport=kind.get_transport_class("grpc")(channel=_channel()))
            for kind in (PublisherClient, SubscriberClient)
        )

    def publish(self, *data: bytes, attributes: Mapping[str, str] | None = None) -> list[str]:
        """In one request; the messages' ids."""
        messages = [{"data": part, "attributes": dict(attributes or {})} for part in data]
        request = {"topic": self.topic, "messages": messages}
        return list(self.publisher.publish(request=request, retry=Retry(timeout=PATIENCE)).message_ids)

    def pull(self, count: int, seconds: float = PATIENCE) -> list[Any]:
        """So many messages, or those that came in so many seconds."""
        received: list[Any] = []
        end = time.monotonic() + seconds
        while len(received) < count and (left := end - time.monotonic()) > 0:
            request = {"subscription": self.subscription, "max_messages": count - len(received)}
            with contextlib.suppress(exceptions.DeadlineExceeded):
                answer = self.subscriber.pull(request=request, timeout=left + 1, retry=None)
                received += answer.received_messages
        return received

    def acknowledge(self, received: list[Any], **options: Any) -> None:
        ack_ids = [message.ack_id for message in received]
        self.subscriber.acknowledge(
            request={"subscription": self.subscription, "ack_ids": ack_ids}, **options
        )

    def set_deadline(self, received: list[Any], seconds: int) -> None:
        """From now; 0 gives the messages back."""
        request = {"ack_ids": [message.ack_id for message in received], "ack_deadline_seconds": seconds}
        self.subscriber.modify_ack_deadline(request={"subscription": self.subscription, **request})

    def close(self) -> None:
        self.publisher.transport.close()
        self.subscriber.transport.close()


def _channel() -> grpc.Channel:
    options = [("grpc.max_receive_message_length", -1)]
    return grpc.insecure_channel(os.environ["PUBSUB_EMULATOR_HOST"], options=options)


def bodies(received: list[Any]) -> list[bytes]:
    return [message.message.data for message in received]

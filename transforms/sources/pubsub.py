"""Pub/Sub as a feed: messages are pulled ahead, and their deadlines extended until they are acknowledged.

Pulls are unary. Google's client has a streaming one with leases of its own, but its emulator goes on
delivering to streams that have ended, so that the next run waits for deadlines, and sends a tenth as much.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbeam.schemas.messages.decode import Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.decoding import Record
from ldpbeam.transforms.sources.feeds import Feed, FeedBatch, OpenFeed
from ldpbeam.transforms.sources.message_batches import Received, next_batch

FEEDS = logging.getLogger("ldpbeam.feeds")
#: The attribute of a message that says what its data is.
CONTENT_TYPE = "content-type"
#: A batch is of at most so many messages and, but for the last of them, bytes.
BATCH_MESSAGES, BATCH_BYTES = 2_000, 16 * 2**20
#: So much is pulled and not acknowledged at most; what is more waits at the server.
MOST_MESSAGES, MOST_BYTES = 20_000, 256 * 2**20
#: A pull brings so many messages at most, and waits so many seconds for the first.
PULLED_AT_ONCE, PULL_SECONDS = 1_000, 5.0
#: Deadlines are looked after so often, and set so far ahead; a subscription's own are 10 seconds or more.
EXTENDING_SECONDS, DEADLINE_SECONDS = 3.0, 60
#: A server that does not answer for so many seconds is spoken of.
QUIET_SECONDS = 60.0
#: One request has so many receipts; it may have half a megabyte.
RECEIPTS_AT_ONCE = 1_000


@dataclass(frozen=True)
class PubSubFeed(Feed):
    """The messages of a subscription.

    Attributes:
        subscription: as in ``projects/P/subscriptions/S``.
        columns: which columns of reports matter.
        folder: the run's, where messages are on record while they are decoded.
        suspects: ids of messages that earlier runs left on record, and whether each was decoded alone.
    """

    subscription: str
    columns: Columns
    folder: str
    suspects: tuple[tuple[str, bool], ...] = ()

    @property
    def name(self) -> str:
        """The subscription."""
        return self.subscription

    def open(self) -> OpenFeed:
        """Begin to pull, from the server in ``PUBSUB_EMULATOR_HOST`` or Google's."""
        return _Pulled(self)


class _Pulled(OpenFeed):
    """Two threads: one pulls as long as there is room, one extends deadlines."""

    def __init__(self, feed: PubSubFeed) -> None:
        # Imported here: who reads files does not need it.
        from google.api_core import exceptions
        from google.cloud import pubsub_v1

        self.feed = feed
        self._record = Record(feed.folder, dict(feed.suspects))
        self._errors = exceptions
        self._client = _client(pubsub_v1.SubscriberClient)
        self._waiting: deque[Received] = deque()
        #: Of what was pulled and not acknowledged: the size, and when its deadline was last extended.
        self._held: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._problem: str | None = None
        #: Whether the last pull that was answered brought nothing.
        self._nothing_there = False
        self._puller = threading.Thread(target=self._pull_on, daemon=True)
        self._puller.start()
        threading.Thread(target=self._extend_on, daemon=True).start()

    def _pull_on(self) -> None:
        answered = time.monotonic()
        while not self._closing.is_set():
            with self._lock:
                full = (
                    len(self._held) >= MOST_MESSAGES or sum(n for n, _ in self._held.values()) >= MOST_BYTES
                )
            if full:
                self._closing.wait(0.05)
                continue
            try:
                request = {"subscription": self.feed.subscription, "max_messages": PULLED_AT_ONCE}
                pulled = self._client.pull(request=request, timeout=PULL_SECONDS).received_messages
            except self._errors.DeadlineExceeded:
                self._nothing_there = True
                continue
            except (
                self._errors.ServerError,
                self._errors.TooManyRequests,
                self._errors.Cancelled,
                self._errors.RetryError,
            ) as error:
                # The server is away, and may come back; what it holds waits there.
                self._nothing_there = False
                if time.monotonic() - answered >= QUIET_SECONDS:
                    FEEDS.warning("%s: no answer for a minute: %s", self.feed.subscription, error.message)
                    answered = time.monotonic()
                self._closing.wait(1.0)
                continue
            except Exception as error:  # refused, or no credentials any more: each its own error
                self._problem = getattr(error, "message", None) or str(error)
                return
            now = answered = time.monotonic()
            with self._lock:
                self._nothing_there = not pulled
                self._held.update((one.ack_id, (len(one.message.data), now)) for one in pulled)
                self._waiting.extend(map(_received, pulled))

    def _extend_on(self) -> None:
        while not self._closing.wait(EXTENDING_SECONDS):
            now = time.monotonic()
            with self._lock:
                due = [
                    receipt
                    for receipt, (_, extended) in self._held.items()
                    if now - extended >= EXTENDING_SECONDS
                ]
                self._held.update((receipt, (self._held[receipt][0], now)) for receipt in due)
            self._set_deadlines(due, DEADLINE_SECONDS)

    def _set_deadlines(self, receipts: Sequence[str], seconds: int) -> None:
        for some in _chunks(receipts):
            request = {
                "subscription": self.feed.subscription,
                "ack_ids": some,
                "ack_deadline_seconds": seconds,
            }
            # Where it fails messages are sent again, and dropped as duplicates.
            with contextlib.suppress(self._errors.GoogleAPICallError, self._errors.RetryError):
                self._client.modify_ack_deadline(request=request)

    def take(self) -> FeedBatch | None:
        received: list[Received] = []
        size = 0
        with self._lock:
            while self._waiting and len(received) < BATCH_MESSAGES and size < BATCH_BYTES:
                received.append(self._waiting.popleft())
                size += len(received[-1].message.data)
        if not received:
            if self._problem is not None:
                raise OSError(f"{self.feed.subscription}: {self._problem}")
            return None
        batch, rest = next_batch(self.feed.name, self.feed.columns, received, self._record)
        with self._lock:
            self._waiting.extendleft(reversed(rest))
        return batch

    @property
    def drained(self) -> bool:
        with self._lock:
            return self._nothing_there and not self._waiting

    def acknowledge(self, receipts: Sequence[str]) -> None:
        for some in _chunks(receipts):
            self._client.acknowledge(request={"subscription": self.feed.subscription, "ack_ids": some})
            with self._lock:
                for receipt in some:
                    self._held.pop(receipt, None)

    def close(self) -> None:
        self._closing.set()
        self._puller.join(PULL_SECONDS + 1)
        self._set_deadlines([waiting.receipt for waiting in self._waiting], 0)
        self._waiting.clear()


def _received(delivered: Any) -> Received:
    """A message as Google's client has it."""
    message = delivered.message
    return Received(
        delivered.ack_id,
        Message(message.message_id, message.data, message.attributes.get(CONTENT_TYPE, "")),
        int(1000 * message.publish_time.timestamp()),
    )


def _client(kind: Any) -> Any:
    """A client of Google's server, or of the one in ``PUBSUB_EMULATOR_HOST``."""
    host = emulator()
    if host is None:
        return kind()
    # The library's own channel to such a server takes four megabytes an answer, and a message may have ten.
    import grpc

    channel = grpc.insecure_channel(host, options=[("grpc.max_receive_message_length", -1)])
    return kind(transport=kind.get_transport_class("grpc")(channel=channel))


def _chunks(receipts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(receipts), RECEIPTS_AT_ONCE):
        yield list(receipts[start : start + RECEIPTS_AT_ONCE])


def emulator() -> str | None:
    """The server that clients are told to use in place of Google's, as they understand it."""
    return os.environ.get("PUBSUB_EMULATOR_HOST")

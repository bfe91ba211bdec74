"""Pub/Sub as a feed: it pulls messages ahead and extends their deadlines until they are acknowledged.

Pulls are unary. Google's client also has a streaming pull with leases of its own, but Google's emulator goes
on delivering to streaming pulls that have ended, so that the next run waits for deadlines. It also sends
only a tenth as many messages.
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

from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.feeds import WHOLE, Feed, FeedBatch, FeedState, OpenFeed, Share, elapsed
from ldpbeam.transforms.sources.message_batches import Received, next_batch
from ldpbeam.transforms.sources.watermark import Pulls
from ldpbeam.transforms.state.decoding import Record

FEEDS = logging.getLogger("ldpbeam.feeds")
#: The attribute of a message that names the format of its data.
CONTENT_TYPE = "content-type"
#: A batch takes no more messages when it has this many messages or bytes.
BATCH_MESSAGES, BATCH_BYTES = 2_000, 16 * 2**20
#: The most messages and bytes that are pulled and not acknowledged; others wait at the server.
MOST_MESSAGES, MOST_BYTES = 20_000, 256 * 2**20
#: The most messages of one pull, and the seconds that it waits for the first.
PULLED_AT_ONCE, PULL_SECONDS = 1_000, 5.0
#: Seconds between two pulls that do not wait, for servers that never answer a pull that waits.
ASKING_SECONDS = 0.5
#: A pull that took this many times PULL_SECONDS was not ended by its own deadline: this process stood still.
STOOD_STILL = 1.5
#: Seconds between two extensions of deadlines, and the deadline set; a subscription's is 10 seconds or more.
EXTENDING_SECONDS, DEADLINE_SECONDS = 3.0, 60
#: Seconds without an answer of the server after which a warning is logged.
QUIET_SECONDS = 60.0
#: Receipts per request; the server takes requests of up to half a megabyte.
RECEIPTS_AT_ONCE = 1_000


@dataclass(frozen=True)
class PubSubFeed(Feed):
    """The messages of a subscription.

    Attributes:
        subscription: its full name, as ``projects/P/subscriptions/S``.
        columns: the columns of reports that the study needs.
        folder: the run's folder, where messages are on record while they are decoded.
        suspects: ids of messages that earlier runs left on record, and with how many each was.
        lease_seconds: the subscription's acknowledgement deadline: so long the server keeps messages that it
            sent from being sent again. 600 is the longest that there is.
    """

    subscription: str
    columns: Columns
    folder: str
    suspects: tuple[tuple[str, int], ...] = ()
    lease_seconds: int = 600

    @property
    def name(self) -> str:
        """The subscription's full name."""
        return self.subscription

    def open(self, share: Share = WHOLE) -> OpenFeed:
        """Begin to pull from the server in ``PUBSUB_EMULATOR_HOST``, by default Google's."""
        return _Pulled(self)


class _Pulled(OpenFeed):
    """An open subscription: one thread pulls while there is room, another extends deadlines."""

    def __init__(self, feed: PubSubFeed) -> None:
        # Imported here because a stream of files does not need it.
        from google.api_core import exceptions
        from google.cloud import pubsub_v1

        self.feed = feed
        self._record = Record(feed.folder, dict(feed.suspects))
        self._errors = exceptions
        self._client = _client(pubsub_v1.SubscriberClient)
        # A client of its own for pulls, so that closing it ends a pull that has no answer.
        self._pulling = _client(pubsub_v1.SubscriberClient)
        self._waiting: deque[Received] = deque()
        #: By receipt of a message not yet acknowledged: its bytes, and when its deadline was last extended.
        self._held: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._problem: str | None = None
        self._pulls = Pulls(1000 * feed.lease_seconds)
        #: Whether a pull waits at the server for its first message.
        self._waits = True
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
            begun = time.monotonic()
            self._pulls.begin(elapsed())
            try:
                request = {"subscription": self.feed.subscription, "max_messages": PULLED_AT_ONCE}
                if not self._waits:
                    request["return_immediately"] = True
                # Not retried inside the client, which would hide that an attempt has failed.
                answer = self._pulling.pull(request=request, retry=None, timeout=PULL_SECONDS)
                pulled = answer.received_messages
            except self._errors.DeadlineExceeded:
                self._fail()
                # Google's server may let a pull that waits run into its deadline, again and again.
                if time.monotonic() - begun < STOOD_STILL * PULL_SECONDS:
                    self._waits = False
                continue
            except (
                self._errors.ServerError,
                self._errors.TooManyRequests,
                self._errors.Cancelled,
                self._errors.RetryError,
            ) as error:
                # The server may come back, and keeps its messages until then.
                self._fail()
                if time.monotonic() - answered >= QUIET_SECONDS:
                    FEEDS.warning("%s: no answer for a minute: %s", self.feed.subscription, error.message)
                    answered = time.monotonic()
                self._closing.wait(1.0)
                continue
            except Exception as error:  # refusals and lost credentials raise many kinds of error
                if not self._closing.is_set():
                    self._problem = getattr(error, "message", None) or str(error)
                return
            now = answered = time.monotonic()
            with self._lock:
                self._pulls.answer(len(pulled))
                self._held.update((item.ack_id, (len(item.message.data), now)) for item in pulled)
                settled = not self._pulls.doubtful
                self._waiting.extend(_received(item, settled) for item in pulled)
            if not (pulled or self._waits):
                self._closing.wait(ASKING_SECONDS)

    def _fail(self) -> None:
        with self._lock:
            self._pulls.fail(elapsed())

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
            # After a failure the server delivers again, and those reports are dropped as duplicates.
            with contextlib.suppress(self._errors.GoogleAPICallError, self._errors.RetryError):
                self._client.modify_ack_deadline(request=request)

    def passed(self) -> None:
        self._record.passed()

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
    def state(self) -> FeedState:
        with self._lock:
            return FeedState({0: None if self._waiting else self._pulls.empty})

    def acknowledge(self, receipts: Sequence[str]) -> None:
        for some in _chunks(receipts):
            self._client.acknowledge(request={"subscription": self.feed.subscription, "ack_ids": some})
            with self._lock:
                for receipt in some:
                    self._held.pop(receipt, None)

    def close(self) -> None:
        self._closing.set()
        self._puller.join(PULL_SECONDS + 1)
        self._pulling.close()
        self._puller.join(1)
        self._set_deadlines([waiting.receipt for waiting in self._waiting], 0)
        self._waiting.clear()


def _received(delivered: Any, settled: bool) -> Received:
    """Convert a message that Google's client delivered."""
    message = delivered.message
    return Received(
        delivered.ack_id,
        Message(message.message_id, message.data, message.attributes.get(CONTENT_TYPE, "")),
        int(1000 * message.publish_time.timestamp()),
        settled,
    )


def _client(kind: Any) -> Any:
    """A client of Google's server, or of the one in ``PUBSUB_EMULATOR_HOST``."""
    host = emulator()
    if host is None:
        return kind()
    # The library's own channel to an emulator takes answers of 4 MB at most; a message may have 10 MB.
    import grpc

    channel = grpc.insecure_channel(host, options=[("grpc.max_receive_message_length", -1)])
    return kind(transport=kind.get_transport_class("grpc")(channel=channel))


def _chunks(receipts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(receipts), RECEIPTS_AT_ONCE):
        yield list(receipts[start : start + RECEIPTS_AT_ONCE])


def emulator() -> str | None:
    """The server in ``PUBSUB_EMULATOR_HOST``, as ``host:port``; None for Google's own."""
    return os.environ.get("PUBSUB_EMULATOR_HOST")

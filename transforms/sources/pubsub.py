"""Pub/Sub as a feed: it pulls messages ahead and extends their deadlines until they are acknowledged.

Pulls are unary. Google's client also has a streaming pull with leases of its own, but Google's emulator goes
on delivering to streaming pulls that have ended, so that the next run waits for deadlines. It also sends
only a tenth as many messages.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.messages.decode import together
from ldpbeam.schemas.messages.placed import ids_of
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import (
    Feed,
    FeedBatch,
    FeedState,
    OpenFeed,
    Position,
    elapsed,
)
from ldpbeam.transforms.sources.kafka_messages import CONTENT_TYPE
from ldpbeam.transforms.sources.on_record import (
    AT_FAULT,
    DEFEATED,
    PROBLEM,
    OnRecord,
    at_once,
    ended,
)
from ldpbeam.transforms.sources.poll_batches import batches_of
from ldpbeam.transforms.sources.pulls import Pulls

FEEDS = logging.getLogger("ldpbeam.feeds")
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
#: Seconds between two extensions of deadlines, the deadline set, and the least that a subscription may have.
EXTENDING_SECONDS, DEADLINE_SECONDS, LEAST_SECONDS = 3.0, 60, 10
#: Seconds until acknowledgements that failed are sent again, and for which closing waits for them.
AGAIN_SECONDS, CLOSING_SECONDS = 1.0, 10.0
#: Seconds without an answer of the server after which a warning is logged.
QUIET_SECONDS = 60.0
#: How many ids of messages are remembered after the server has confirmed their acknowledgement.
REMEMBERED = 100_000
#: Receipts per request; the server takes requests of up to half a megabyte.
RECEIPTS_AT_ONCE = 1_000


@dataclass(frozen=True)
class PubSubFeed(Feed):
    """The messages of a subscription.

    The server may deliver a message twice, for example because an acknowledgement came too late. So the
    position names the messages that were taken and whose acknowledgement the server has not confirmed: when
    one of them comes again, in this process or in the next, it is not taken again. The server keeps the right
    to deliver again what it has confirmed: this process knows the last ones, and the next does not.

    Attributes:
        subscription: its full name, as ``projects/P/subscriptions/S``.
        columns: the columns of reports that the study needs.
        folder: the run's folder, where messages are on record while they are decoded.
        lease_seconds: the subscription's acknowledgement deadline: so long the server keeps messages that it
            sent from being sent again. 600 is the longest that there is.
    """

    subscription: str
    columns: Columns
    folder: str
    lease_seconds: int = 600

    @property
    def name(self) -> str:
        """The subscription's full name."""
        return self.subscription

    def open_at(self, position: Position | None) -> OpenFeed:
        """Begin to pull from the server in ``PUBSUB_EMULATOR_HOST``, by default Google's.

        Args:
            position: ``unconfirmed``, the ids of messages that were taken and may be delivered again.
        """
        unconfirmed = [] if position is None else position["unconfirmed"]
        return _Pulled(self, unconfirmed, OnRecord(self.folder))


def merged(positions: Iterable[Position]) -> dict[str, list[str]]:
    """The position after all that runs of one subscription have taken."""
    return {"unconfirmed": sorted({message for each in positions for message in each["unconfirmed"]})}


class Received(NamedTuple):
    """A message as it was delivered.

    Attributes:
        receipt: acknowledges this delivery.
        message: the id and the contents.
        published: when it was published, in epoch milliseconds.
        settled: whether no older message can still be on its way because a pull before this one failed.
    """

    receipt: str
    message: Message
    published: int
    settled: bool


class _Held(NamedTuple):
    """A delivery that is not acknowledged: its bytes, when its deadline was set, and until when it holds."""

    size: int
    extended: float
    lapses: float


class _Pulled(OpenFeed):
    """An open subscription: a thread pulls while there is room, others extend deadlines and acknowledge.

    A message is, in this order, held: it was pulled; taken; covered: the last position names it; committed:
    the disk has that position; and confirmed. Then it is forgotten.
    """

    def __init__(self, feed: PubSubFeed, unconfirmed: Sequence[str], record: OnRecord) -> None:
        # Imported here because a stream of files does not need it.
        from google.api_core import exceptions
        from google.cloud import pubsub_v1

        self.feed = feed
        self._record = record
        self._errors = exceptions
        self._client = _client(pubsub_v1.SubscriberClient)
        # A client of its own for pulls, so that closing it ends a pull that has no answer.
        self._pulling = _client(pubsub_v1.SubscriberClient)
        self._waiting: deque[Received] = deque()
        #: By receipt, the deliveries that are not acknowledged.
        self._held: dict[str, _Held] = {}
        #: By id of a message that was taken, or is covered, the receipt of its last delivery.
        self._taken: dict[str, str] = {}
        self._covered: dict[str, str] = {}
        self._taken_bytes = 0
        #: The same of those that are committed; None while no delivery holds: then another one may come.
        self._committed: dict[str, str | None] = dict.fromkeys(unconfirmed)
        #: The ids of those that were confirmed, the last ones.
        self._confirmed: dict[str, None] = {}
        #: When the last one lost its delivery: until the longest lease has ended, an empty pull says nothing.
        self._lapsed = elapsed()
        self._lock = threading.Lock()
        self._closing, self._wake = threading.Event(), threading.Event()
        self._problem: str | None = None
        self._pulls = Pulls(1000 * feed.lease_seconds)
        #: Whether a pull waits at the server for its first message.
        self._waits = True
        self._puller = threading.Thread(target=self._pull_on, daemon=True)
        self._puller.start()
        self._acknowledger = threading.Thread(target=self._acknowledge_on, daemon=True)
        self._acknowledger.start()
        threading.Thread(target=self._extend_on, daemon=True).start()

    def _pull_on(self) -> None:
        answered = time.monotonic()
        while not self._closing.is_set():
            with self._lock:
                full = (
                    len(self._held) >= MOST_MESSAGES
                    or sum(held.size for held in self._held.values()) >= MOST_BYTES
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
                # Google's wrapper takes 25 microseconds a message.
                pulled = type(answer).pb(answer).received_messages
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
            answered = time.monotonic()
            lapses = begun + max(self.feed.lease_seconds, LEAST_SECONDS)
            with self._lock:
                self._pulls.answer(len(pulled))
                self._held.update(
                    (item.ack_id, _Held(len(item.message.data), answered, lapses)) for item in pulled
                )
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
                    for receipt, held in self._held.items()
                    if now - held.extended >= EXTENDING_SECONDS
                ]
                self._held.update((receipt, self._held[receipt]._replace(extended=now)) for receipt in due)
            for some in _chunks(due):
                if self._set_deadline(some, DEADLINE_SECONDS):
                    with self._lock:
                        for receipt in self._held.keys() & some:
                            self._held[receipt] = self._held[receipt]._replace(lapses=now + DEADLINE_SECONDS)

    def _set_deadline(self, receipts: Sequence[str], seconds: int) -> bool:
        """Set the deadline of some deliveries; whether the server has. If not, it delivers again."""
        request = {
            "subscription": self.feed.subscription,
            "ack_ids": receipts,
            "ack_deadline_seconds": seconds,
        }
        try:
            self._client.modify_ack_deadline(request=request, retry=None, timeout=CLOSING_SECONDS)
        except (self._errors.GoogleAPICallError, self._errors.RetryError):
            return False
        return True

    def _acknowledge_on(self) -> None:
        """Acknowledge what is committed, until nothing is left after the end, or a while has passed."""
        warned, end = -QUIET_SECONDS, float("inf")
        while time.monotonic() < end:
            self._wake.clear()
            closing = self._closing.is_set()
            end = min(end, time.monotonic() + CLOSING_SECONDS) if closing else end
            with self._lock:
                due = {receipt: message for message, receipt in self._committed.items() if receipt}
            if closing and not due:
                return
            try:
                for some in _chunks(list(due)):
                    self._acknowledge(some)
                    self._confirm({receipt: due[receipt] for receipt in some}, time.monotonic())
            except Exception as error:  # refusals and lost credentials raise many kinds of error
                if time.monotonic() - warned >= QUIET_SECONDS:
                    said = getattr(error, "message", None) or str(error)
                    FEEDS.warning("%s: messages are not acknowledged: %s", self.feed.subscription, said)
                    warned = time.monotonic()
                self._wake.wait(AGAIN_SECONDS)
            else:
                self._wake.wait(0 if closing else None)

    def _acknowledge(self, receipts: Sequence[str]) -> None:
        request = {"subscription": self.feed.subscription, "ack_ids": receipts}
        self._client.acknowledge(request=request, retry=None, timeout=CLOSING_SECONDS)

    def _confirm(self, acknowledged: dict[str, str], now: float) -> None:
        """The server has answered an acknowledgement of these receipts, of which each has its message.

        It does not say that one came too late. Then the message comes again.
        """
        with self._lock:
            for receipt, message in acknowledged.items():
                held = self._held.pop(receipt, None)
                if self._committed.get(message) != receipt:
                    continue  # it has come again
                if held is not None and now <= held.lapses:
                    del self._committed[message]
                    self._confirmed[message] = None
                    if len(self._confirmed) > REMEMBERED:
                        del self._confirmed[next(iter(self._confirmed))]
                else:
                    self._committed[message], self._lapsed = None, elapsed()

    def take(self) -> FeedBatch | None:
        self._record.clear()
        ends: dict[str, int] = dict(map(tuple, self._record.suspects))
        with self._lock:
            received = self._next(ends)
        if not received:
            if self._problem is not None:
                raise OSError(f"{self.feed.subscription}: {self._problem}")
            return None
        message = received[0].message
        if ends.get(message.id, 0) >= AT_FAULT:
            number = ids_of([message.id]).numbers[0].as_py()
            letter = DeadLetter(self.feed.name, number, None, DEFEATED, PROBLEM, 1, message.data)
            self._take(received)
            return FeedBatch([], [letter], received[0].published)
        taken = {one.message.id: ended(ends.get(one.message.id, 0), len(received)) for one in received}
        self._record.write(taken.items(), [each for each in self._record.suspects if each[0] not in taken])
        poll = together([one.message for one in received])
        batch, count = next(batches_of(self.feed.name, self.feed.columns, poll))
        with self._lock:
            self._waiting.extendleft(reversed(received[count:]))
        self._take(received[:count])
        settled = all(one.settled for one in received)
        return batch._replace(
            oldest=min(one.published for one in received) if settled else None,
            published=max(one.published for one in received[:count]),
        )

    def _next(self, ends: Mapping[str, int]) -> list[Received]:
        """The waiting messages to take next; some may have crashed processes."""
        received: list[Received] = []
        size, known, most = 0, set[str](), BATCH_MESSAGES
        while self._waiting and len(received) < most and size < BATCH_BYTES:
            message = self._waiting[0].message
            with_it = at_once(ends.get(message.id, 0), BATCH_MESSAGES)
            if received and (with_it != most or message.id in known):
                break
            one = self._waiting.popleft()
            if self._comes_again(one):
                continue
            most = with_it
            known.add(message.id)
            received.append(one)
            size += len(message.data)
        return received

    def _comes_again(self, received: Received) -> bool:
        """Whether a message was taken before; then this delivery is the one to acknowledge."""
        message, receipt = received.message.id, received.receipt
        if message in self._confirmed:
            self._committed[message] = None
        for earlier in (self._taken, self._covered, self._committed):
            if message in earlier:
                before, earlier[message] = earlier[message], receipt
                if before is not None:
                    self._held.pop(before, None)
                self._wake.set()
                return True
        return False

    def _take(self, received: Sequence[Received]) -> None:
        with self._lock:
            self._taken.update((one.message.id, one.receipt) for one in received)
            self._taken_bytes += sum(len(one.message.data) for one in received)

    def position(self) -> Position:
        with self._lock:
            self._covered.update(self._taken)
            self._taken, self._taken_bytes = {}, 0
            longest = 1000 * max(self.feed.lease_seconds, DEADLINE_SECONDS)
            if not self._waiting and (self._pulls.empty or 0) > self._lapsed + longest:
                # What has not come by now was acknowledged, though the answer was lost.
                self._committed = {message: each for message, each in self._committed.items() if each}
            return {"unconfirmed": sorted({**self._committed, **self._covered})}

    def commit(self) -> None:
        with self._lock:
            self._committed.update(self._covered)
            self._covered = {}
            self._wake.set()

    @property
    def wants_commit(self) -> bool:
        """Whether half of what the server sends before an acknowledgement is taken and not committed."""
        return 2 * len(self._taken) >= MOST_MESSAGES or 2 * self._taken_bytes >= MOST_BYTES

    @property
    def state(self) -> FeedState:
        with self._lock:
            return FeedState({0: None if self._waiting else self._pulls.empty})

    def close(self) -> None:
        self._closing.set()
        self._wake.set()
        self._puller.join(PULL_SECONDS + 1)
        self._pulling.close()
        self._puller.join(1)
        self._acknowledger.join()
        with self._lock:
            held = list(self._held)
        # The next process gets at once what this one has not committed, and what it could not acknowledge.
        all(self._set_deadline(some, 0) for some in _chunks(held))
        self._waiting.clear()
        self._record.clear()


def content_type_of(attributes: Mapping[str, str]) -> str:
    """The format of a message's data that its attributes name, as headers would; empty if they name none."""
    if CONTENT_TYPE in attributes:
        return attributes[CONTENT_TYPE]
    return next((value for name, value in attributes.items() if name.lower() == CONTENT_TYPE), "")


def _received(delivered: Any, settled: bool) -> Received:
    """Convert a message that Google's client delivered, without its wrapper."""
    message = delivered.message
    return Received(
        delivered.ack_id,
        Message(message.message_id, message.data, content_type_of(message.attributes)),
        message.publish_time.ToMilliseconds(),
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

"""A subscription of the tests' own Pub/Sub server: what waits, who holds what until when, what goes wrong."""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.pubsub_v1 import types

RESPONSE_BYTES = 4_000_000  # of messages in an answer: many clients take 4 MiB; a larger message goes alone


@dataclass(frozen=True)
class Faults:
    """What goes wrong; which messages it strikes depends on the seed and the order of publishing alone."""

    seed: int = 0
    redelivered: float = 0.0  # share of messages sent once more, acknowledged or not
    redelivered_after: float = 0.5  # seconds after the first time
    deadline: float | None = None  # seconds until a delivery expires, whatever extensions are asked
    refuse_acks: bool = False  # acknowledgements fail

    def draw(self, what: str, message: str) -> float:
        """A number in [0, 1) of this message."""
        return random.Random(f"{self.seed} {what} {message}").random()


@dataclass(frozen=True)
class Counts:
    """Where a subscription stands."""

    delivered: int  # deliveries, repeats too
    acked: int  # messages, each once
    unacked: int  # messages, delivered or not
    outstanding: int  # deliveries neither acknowledged nor given back nor expired


@dataclass
class _Lease:
    message: Any
    expires: float


class Subscription:
    """Messages on their way to the readers of one subscription; whoever calls must hold the server's lock."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.waiting: list[tuple[float, int, Any, bool]] = []  # a heap: due, number, message, first time
        self.leases: dict[str, _Lease] = {}  # by ack id
        self.expiring: list[tuple[float, str]] = []  # a heap: no later than the lease expires, ack id
        self.unacked: set[str] = set()  # message ids
        self.delivered = self.acked = 0
        self._numbers = itertools.count()

    def put(self, message: Any, due: float, first: bool) -> None:
        """Let a message wait until ``due``, a time of the monotonic clock."""
        heapq.heappush(self.waiting, (due, next(self._numbers), message, first))

    def take(self, most: int, faults: Faults) -> list[Any]:
        """Messages that are due, as many as an answer should carry."""
        now = time.monotonic()
        self.expire(now)
        taken: list[Any] = []
        room = RESPONSE_BYTES
        while (
            self.waiting
            and self.waiting[0][0] <= now
            and len(taken) < most
            and (not taken or self.waiting[0][2].ByteSize() <= room)
        ):
            _, number, message, first = heapq.heappop(self.waiting)
            if first and faults.redelivered > faults.draw("redeliver", message.message_id):
                self.put(message, now + faults.redelivered_after, first=False)
            ack_id = f"{self.config.name}:{number}"
            deadline = self.config.ack_deadline_seconds if faults.deadline is None else faults.deadline
            expires = now + deadline
            self.leases[ack_id] = _Lease(message, expires)
            heapq.heappush(self.expiring, (expires, ack_id))
            room -= message.ByteSize()
            taken.append(types.ReceivedMessage.pb()(ack_id=ack_id, message=message))
        self.delivered += len(taken)
        return taken

    def expire(self, now: float) -> None:
        """Take back what was not acknowledged in time."""
        while self.expiring and self.expiring[0][0] <= now:
            _, ack_id = heapq.heappop(self.expiring)
            lease = self.leases.get(ack_id)
            if lease is not None and lease.expires > now:
                heapq.heappush(self.expiring, (lease.expires, ack_id))
            elif lease is not None:
                self.give_back(ack_id, now)

    def release(self, ack_id: str) -> str | None:
        """End a delivery: the id of its message, or None if it had ended before."""
        lease = self.leases.pop(ack_id, None)
        return None if lease is None else str(lease.message.message_id)

    def give_back(self, ack_id: str, now: float) -> None:
        """End a delivery; the message waits again unless another of its deliveries was acknowledged."""
        lease = self.leases.get(ack_id)
        if lease is not None and self.release(ack_id) in self.unacked:
            self.put(lease.message, now, first=False)

    def acknowledge(self, ack_ids: Iterable[str]) -> None:
        """Count the messages as done; what has expired is passed over."""
        self.expire(time.monotonic())
        for ack_id in ack_ids:
            message = self.release(ack_id)
            if message in self.unacked:
                self.unacked.remove(message)
                self.acked += 1

    def extend(self, ack_id: str, seconds: float, faults: Faults) -> None:
        """Move the deadline to so many seconds from now; with 0 the message is given back."""
        now = time.monotonic()
        self.expire(now)
        lease = self.leases.get(ack_id)
        if seconds == 0:
            self.give_back(ack_id, now)
        elif lease is not None and faults.deadline is None:
            if now + seconds < lease.expires:  # a later time is found when the earlier one has come
                heapq.heappush(self.expiring, (now + seconds, ack_id))
            lease.expires = now + seconds

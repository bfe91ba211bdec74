"""A log with partitions and a subscription, as a feed gives their messages: they outlive every process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.sources.feeds import FeedBatch, FeedState, OpenFeed
from simulation.world import Message, World, batch_of


@dataclass
class Time:
    """The server's time, and that of the machine, which somebody may set."""

    now: int
    skew: int = 0
    began: int = 0

    def elapsed(self) -> int:
        """Milliseconds since the process began."""
        return self.now - self.began

    def clock(self) -> int:
        """The machine's date."""
        return self.now + self.skew


class Log(OpenFeed):
    """A feed of a log whose messages stay, at the offsets of a position."""

    def __init__(self, world: World, time: Time, chance: random.Random, position: Mapping[str, Any]) -> None:
        self._world, self._time, self._chance = world, time, chance
        self._messages: dict[int, list[Message]] = {each: [] for each in range(world.partitions)}
        for message in world.messages:
            self._messages[message.partition].append(message)
        self._next = dict.fromkeys(self._messages, 0) | {int(p): o for p, o in position.get("offsets", ())}

    def _waiting(self, partition: int) -> int:
        return sum(
            message.published <= self._time.now
            for message in self._messages[partition][self._next[partition] :]
        )

    def take(self) -> FeedBatch | None:
        """Some messages of a partition."""
        ready = [partition for partition in self._messages if self._waiting(partition)]
        if not ready:
            return None
        partition = self._chance.choice(ready)
        first = self._next[partition]
        after = first + self._chance.randrange(self._waiting(partition)) + 1
        taken = self._messages[partition][first:after]
        self._next[partition] = after
        batches = [batch_of(self._world, message) for message in taken]
        published = [message.published for message in taken]
        return FeedBatch(
            batches, [], max(published), oldest=min(published), offsets=Offsets(partition, first, after)
        )

    @property
    def state(self) -> FeedState:
        """All was taken of partitions in which nothing waits."""
        elapsed = self._time.elapsed()
        return FeedState({each: None if self._waiting(each) else elapsed for each in self._messages})

    @property
    def at_the_end(self) -> bool:
        """Whether everything has been published and taken."""
        return all(self._next[each] == len(of) for each, of in self._messages.items())

    def position(self) -> Mapping[str, Any]:
        """The offsets."""
        return {"offsets": sorted(self._next.items())}

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Server:
    """What a server of Pub/Sub knows: which messages are acknowledged."""

    acknowledged: set[int] = field(default_factory=set)


class Subscription(OpenFeed):
    """A feed of a subscription, which delivers again what is not acknowledged, in any order."""

    def __init__(
        self,
        world: World,
        time: Time,
        chance: random.Random,
        position: Mapping[str, Any],
        server: Server,
        met: Counter[str],
    ) -> None:
        self._world, self._time, self._chance = world, time, chance
        self._server, self._met = server, met
        #: Messages that are in a manifest and perhaps not acknowledged; those that were taken since.
        self._unconfirmed = set(position.get("unconfirmed", ()))
        self._taken: set[int] = set()
        self._covered: set[int] = set()

    def _waiting(self) -> list[Message]:
        known = self._server.acknowledged | self._taken | self._covered
        return [
            message
            for message in self._world.messages
            if message.published <= self._time.now and message.number not in known
        ]

    def take(self) -> FeedBatch | None:
        """Some messages, the older ones more or less first."""
        some = self._waiting()[: self._chance.randrange(1, 6)]
        again = [message for message in some if message.number in self._unconfirmed]
        if again:
            self._met["delivered again after it was committed"] += 1
            self._server.acknowledged.update(message.number for message in again)
        new = [message for message in some if message.number not in self._unconfirmed]
        if not new:
            return None
        self._chance.shuffle(new)
        self._taken.update(message.number for message in new)
        published = [message.published for message in new]
        batches = [batch_of(self._world, each) for each in new]
        return FeedBatch(batches, [], max(published), oldest=min(published))

    @property
    def state(self) -> FeedState:
        """All was taken if nothing waits."""
        return FeedState({0: None if self._waiting() else self._time.elapsed()})

    @property
    def at_the_end(self) -> bool:
        """Whether everything has been published and taken."""
        return self._time.now >= self._world.messages[-1].published and not self._waiting()

    def position(self) -> Mapping[str, Any]:
        """The messages that were taken and are not known to be acknowledged."""
        self._covered |= self._taken
        self._taken = set()
        self._unconfirmed -= self._server.acknowledged
        return {"unconfirmed": sorted(self._covered - self._server.acknowledged | self._unconfirmed)}

    def commit(self) -> None:
        """Acknowledge what the position covers; an acknowledgement may be lost."""
        for number in self._covered:
            if self._chance.random() < 0.9:
                self._server.acknowledged.add(number)
            else:
                self._met["an acknowledgement was lost"] += 1

    def close(self) -> None:
        """Nothing is open."""

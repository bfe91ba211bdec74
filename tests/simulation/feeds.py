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
    #: Until when the server answers nothing.
    away_until: int = 0

    @property
    def away(self) -> bool:
        """Whether the server is away."""
        return self.now < self.away_until

    def elapsed(self) -> int:
        """Milliseconds since the process began."""
        return self.now - self.began

    def clock(self) -> int:
        """The machine's date."""
        return self.now + self.skew


@dataclass
class Server:
    """What a server keeps: the acknowledged messages of a subscription, the removed ones of a log."""

    acknowledged: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)


class Log(OpenFeed):
    """A feed of a log whose messages stay, at the offsets of a position, unless retention removes them."""

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
        self._messages: dict[int, list[Message]] = {each: [] for each in range(world.partitions)}
        for message in world.messages:
            self._messages[message.partition].append(message)
        self._next = dict.fromkeys(self._messages, 0) | {int(p): o for p, o in position.get("offsets", ())}
        #: The messages that were removed before they were taken; when that was last noticed.
        self._lost: list[int] = list(position.get("lost", ()))
        self._lost_at: int | None = None

    def _waiting(self, partition: int) -> int:
        return sum(
            message.published <= self._time.now
            for message in self._messages[partition][self._next[partition] :]
        )

    def take(self) -> FeedBatch | None:
        """Some messages of a partition."""
        ready = [partition for partition in self._messages if self._waiting(partition)]
        if self._time.away or not ready:
            return None
        partition = self._chance.choice(ready)
        first = self._next[partition]
        after = first + self._chance.randrange(self._waiting(partition)) + 1
        self._next[partition] = after
        there = [message for message in self._messages[partition][first:after] if message.reports]
        taken = [message for message in there if message.number not in self._server.removed]
        if len(taken) < len(there):
            self._met["fault: retention removed what was not read"] += 1
            self._lost += [message.number for message in there if message.number in self._server.removed]
            self._lost_at = self._time.now
        if not taken:
            return None
        batches = [batch_of(self._world, message) for message in taken]
        published = [message.published for message in taken]
        return FeedBatch(
            batches, [], max(published), oldest=min(published), offsets=Offsets(partition, first, after)
        )

    def remove(self) -> None:
        """Retention removes messages from the beginning of a partition, and one or two that were not read."""
        partition = self._chance.choice(list(self._messages))
        until = self._next[partition] + self._chance.randrange(3)
        self._server.removed.update(
            message.number
            for message in self._messages[partition][:until]
            if message.published < self._time.now
        )

    @property
    def state(self) -> FeedState:
        """All was taken of partitions in which nothing waits."""
        elapsed = self._time.elapsed()
        silences = {
            each: None if self._time.away or self._waiting(each) else elapsed for each in self._messages
        }
        return FeedState(silences, self._lost_at)

    @property
    def at_the_end(self) -> bool:
        """Whether everything has been published and taken."""
        return all(self._next[each] == len(of) for each, of in self._messages.items())

    def position(self) -> Mapping[str, Any]:
        """The offsets, and what is lost."""
        return {"offsets": sorted(self._next.items()), "lost": self._lost}

    def close(self) -> None:
        """Nothing is open."""


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
        if self._time.away:
            return None
        some = self._waiting()[: self._chance.randrange(1, 6)]
        again = [message for message in some if message.number in self._unconfirmed]
        if again:
            self._met["fault: delivered again after it was committed"] += 1
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
        return FeedState({0: None if self._time.away or self._waiting() else self._time.elapsed()})

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
        for number in sorted(self._covered - self._server.acknowledged):
            if self._chance.random() < 0.9:
                self._server.acknowledged.add(number)
            else:
                self._met["fault: an acknowledgement was lost"] += 1

    def close(self) -> None:
        """Nothing is open."""

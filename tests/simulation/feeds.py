"""A log with partitions and a subscription, as a feed gives their messages: they outlive every process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.sources.feeds import FeedBatch, FeedState, OpenFeed
from ldpbeam.transforms.sources.kafka_partition import Partition
from ldpbeam.transforms.sources.kafka_position import position_of, read_by
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
    """What a server keeps: the acknowledged messages of a subscription, the first offsets of a log."""

    acknowledged: set[int] = field(default_factory=set)
    first: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Delivered:
    """A message as librdkafka gives it."""

    at: int
    message: Message

    def __len__(self) -> int:
        return len(self.value())

    def offset(self) -> int:
        """Its offset."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """When it was published."""
        return 0, self.message.published

    def value(self) -> bytes:
        """What tells it from others."""
        return str(self.message.number).encode()


class Log(OpenFeed):
    """A feed of a log whose messages stay, at the offsets of a position, unless retention removes them.

    What waits, and where it goes on, is the affair of the partitions of the feed of Kafka.
    """

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
        #: The messages of each partition. One of an aborted transaction has an offset, and is not delivered.
        self._messages: dict[int, list[Delivered]] = {each: [] for each in range(world.partitions)}
        for message in world.messages:
            self._messages[message.partition].append(Delivered(world.offsets[message.number], message))
        for number, messages in self._messages.items():
            server.first.setdefault(number, messages[0].at if messages else 0)
        offsets, checksums = read_by(position)
        self._partitions = [
            Partition(each, offsets.get(each, first), checksums.get(each, ()), time.elapsed())
            for each, first in sorted(server.first.items())
        ]
        #: What is fetched next, and the end to which it was said to have come.
        self._fetched = {each.number: each.fetched_from for each in self._partitions}
        self._ended: dict[int, int] = {}
        #: The messages that were removed before they were taken; when that was last noticed.
        self._lost: list[int] = list(position.get("lost", ()))
        self._lost_at: int | None = None
        self._was_away = False

    def _end(self, number: int) -> int:
        published = [
            each.at + 1 for each in self._messages[number] if each.message.published <= self._time.now
        ]
        return published[-1] if published else self._server.first[number]

    def take(self) -> FeedBatch | None:
        """Some messages of a partition."""
        if self._time.away:
            self._was_away = True
            return None
        for partition in self._partitions:
            if self._was_away:
                self._met["fault: the last message was read again"] += bool(partition.checksums)
                partition.fetch_again()
                self._seek(partition)
            self._look(partition)
            self._fetch(partition)
            assert partition.problem is None, partition.problem
        self._was_away = False
        ready = [partition for partition in self._partitions if partition.waiting]
        if not ready:
            return None
        partition = self._chance.choice(ready)
        taken = partition.next_messages(self._chance.randrange(len(partition.waiting)) + 1, 2**30)
        first = partition.after
        partition.take(taken)
        batches = [batch_of(self._world, each.message) for each in taken]
        published = [each.message.published for each in taken]
        offsets = Offsets(partition.number, first, partition.after)
        return FeedBatch(batches, [], max(published), oldest=min(published), offsets=offsets)

    def _seek(self, partition: Partition) -> None:
        self._fetched[partition.number] = partition.fetched_from
        self._ended.pop(partition.number, None)

    def _look(self, partition: Partition) -> None:
        """Ask where a partition begins and ends."""
        first, end = self._server.first[partition.number], self._end(partition.number)
        partition.ends.look(self._time.elapsed(), end)
        if not partition.out_of_range or partition.waiting:
            return
        before = partition.position
        partition.go_on(first, end)
        if before < first:
            self._met["fault: retention removed what was not read"] += 1
            self._lost_at = self._time.now
            gone = [each.message for each in self._messages[partition.number] if before <= each.at < first]
            self._lost += [message.number for message in gone]
        self._seek(partition)

    def _fetch(self, partition: Partition) -> None:
        """Let some messages wait, and say where the partition ends."""
        number, end = partition.number, self._end(partition.number)
        if self._fetched[number] < self._server.first[number]:
            partition.out_of_range = True
        if partition.out_of_range:
            return
        new = [each for each in self._messages[number] if self._fetched[number] <= each.at < end]
        some = new[: self._chance.randrange(len(new) + 1)]
        for each in some:
            self._fetched[number] = each.at + 1
            if each.message.reports:
                partition.deliver(each)
        if len(some) == len(new) and self._ended.get(number) != end:
            self._ended[number] = end
            partition.end(end)

    def remove(self) -> None:
        """Retention removes messages from the beginning of a partition, and one or two that were not read."""
        partition = self._chance.choice(self._partitions)
        messages, end = self._messages[partition.number], self._end(partition.number)
        after = [each.at for each in messages if partition.position <= each.at < end]
        first = [*after, end][min(self._chance.randrange(3), len(after))]
        self._server.first[partition.number] = max(first, self._server.first[partition.number])

    @property
    def state(self) -> FeedState:
        """All was taken of partitions in which nothing waits."""
        silences = {each.number: each.ends.passed(each.position) for each in self._partitions}
        return FeedState(silences, self._lost_at)

    @property
    def at_the_end(self) -> bool:
        """Whether everything has been published and taken."""
        return all(
            each.position > messages[-1].at
            for each in self._partitions
            if (messages := self._messages[each.number])
        )

    def position(self) -> Mapping[str, Any]:
        """The offsets, checksums, and what is lost."""
        offsets = {each.number: each.position for each in self._partitions}
        checksums = {each.number: each.checksums for each in self._partitions}
        return {**position_of(offsets, checksums), "lost": self._lost}

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

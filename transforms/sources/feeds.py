"""A feed: it yields reports as they arrive, and acknowledges them when the engine has committed them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.state.records import Checksum, Offsets

#: A batch ends when it has this many decoded bytes: compressed input may decode to a thousand times its size.
DECODED_BYTES = 16 * 2**20


def elapsed() -> int:
    """This process's monotonic clock, in milliseconds: it never goes back, and nobody can set it."""
    return time.monotonic_ns() // 1_000_000


class FeedBatch(NamedTuple):
    """Reports and dead letters that a feed yields together.

    Attributes:
        batches: decoded batches; the metadata of their schemas names the file or subscription.
        letters: dead letters of what did not decode.
        receipts: what :meth:`OpenFeed.acknowledge` gets when the engine has committed the whole batch.
        published: when the newest of its messages or files was published, in epoch milliseconds.
        damaged: the paths of damaged files.
        oldest: when the oldest of its messages or files was published, and of those that were there with them
            and have not been taken; None if older ones may be on their way.
        offsets: where its messages stand, all in one partition; None if the feed has no offsets.
        checksums: of its messages, in their order, if the feed has offsets.
    """

    batches: Sequence[pa.RecordBatch]
    letters: Sequence[DeadLetter]
    receipts: Sequence[str]
    published: int
    damaged: Sequence[str] = ()
    oldest: int | None = None
    offsets: Offsets | None = None
    checksums: Sequence[Checksum] = ()

    @property
    def partition(self) -> int:
        """The partition of its messages; 0 if the feed has none."""
        return 0 if self.offsets is None else self.offsets.partition


@dataclass(frozen=True)
class Share:
    """What one of several readers reads of a feed.

    Attributes:
        number: which reader it is, from 0.
        readers: how many there are.
        positions: the offset at which it continues, by partition; of others it begins at the start.
        read: the checksum of the last message that is known to have been read, by partition.
    """

    number: int = 0
    readers: int = 1
    positions: Mapping[int, int] = field(default_factory=dict)
    read: Mapping[int, Checksum] = field(default_factory=dict)


#: The share of a reader that is alone and begins.
WHOLE = Share()


@dataclass(frozen=True)
class FeedState:
    """How far a feed that is being read has come.

    Attributes:
        silences: by partition, a time by which everything published had been taken, on the clock
            :func:`elapsed`; None if none is known, as while messages wait to be taken. A feed without
            partitions has one, 0.
        positions: by partition, the offset before which all messages were taken; none without offsets.
        lost: when it last found messages removed that it had not taken, in epoch milliseconds.
        lag: how far it is behind its server; None if only publish times tell.
    """

    silences: Mapping[int, int | None]
    positions: Mapping[int, int] = field(default_factory=dict)
    lost: int | None = None
    lag: Lag | None = None


class OpenFeed(ABC):
    """A feed that is being read; its methods are called by one thread at a time."""

    @abstractmethod
    def take(self) -> FeedBatch | None:
        """The next batch of messages that have arrived, or None. It never waits for more.

        Raises:
            OSError: if the feed failed for good, so that nothing can arrive any more.
        """

    def passed(self) -> None:  # noqa: B027 - a feed need not remember it
        """Learn that the stages in this process have passed on the batch that was taken last."""

    @property
    @abstractmethod
    def state(self) -> FeedState:
        """How far it has come. Any thread may ask."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading, and give back what was pulled and not taken."""

    def acknowledge(self, receipts: Sequence[str]) -> None:  # noqa: B027 - a feed need not tell anybody
        """Acknowledge batches that the engine has committed, by their receipts; allowed after ``close``."""


class Feed(ABC):
    """Where reports arrive; a feed is pickled, sent to a worker, and opened there."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that messages show and that dead letters have as their file."""

    @property
    def about(self) -> Mapping[str, str]:
        """What the file of a run says of it besides its name."""
        return {}

    @property
    def partitions(self) -> int:
        """How many readers may share it."""
        return 1

    @abstractmethod
    def open(self, share: Share = WHOLE) -> OpenFeed:
        """Begin to read on this worker; a feed without offsets ignores the share."""

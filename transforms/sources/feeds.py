"""A feed: it yields reports as they arrive, and knows its position.

The life of an open feed, by the run that reads it:

1. :meth:`Feed.open_at` with the position of the last commit, or None.
2. :meth:`OpenFeed.take` again and again. What it gives is decoded; the run validates and keeps it.
3. Between two takes, :meth:`OpenFeed.position`; the run writes it down in one file with all that it has kept.
4. When the disk has that file, :meth:`OpenFeed.commit`; then 2 again.
5. :meth:`OpenFeed.close`.

A process may end anywhere. The next one begins at 1 with the position of the last file that the disk has.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.reports.event_times import problems
from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.lag import Lag

#: A batch ends when it has this many decoded bytes: compressed input may decode to a thousand times its size.
DECODED_BYTES = 16 * 2**20


def elapsed() -> int:
    """This process's monotonic clock, in milliseconds: it never goes back, and nobody can set it."""
    return time.monotonic_ns() // 1_000_000


def now() -> int:
    """The clock of this machine, in epoch milliseconds; whoever may can set it."""
    return time.time_ns() // 1_000_000


class Clock(NamedTuple):
    """The time, as a run sees it."""

    elapsed: Callable[[], int] = elapsed
    now: Callable[[], int] = now


#: The number that stands for the partitions that a topic may have got and the feed has not found yet.
UNFOUND = -1
#: Where a feed goes on, as JSON: the feed alone knows what it means.
Position = Mapping[str, Any]


class FeedBatch(NamedTuple):
    """Reports and dead letters that a feed yields together.

    Attributes:
        batches: decoded batches; the metadata of their schemas names the file or subscription.
        letters: dead letters of what did not decode.
        published: when the newest of its messages or files was published, in epoch milliseconds.
        damaged: the paths of damaged files.
        oldest: when the oldest of its messages or files was published, and of those that were there with them
            and have not been taken; None if older ones may be on their way.
        offsets: where its messages stand, all in one partition; None if the feed has no offsets.
    """

    batches: Sequence[pa.RecordBatch]
    letters: Sequence[DeadLetter]
    published: int
    damaged: Sequence[str] = ()
    oldest: int | None = None
    offsets: Offsets | None = None

    @property
    def partition(self) -> int:
        """The partition of its messages; 0 if the feed has none."""
        return 0 if self.offsets is None else self.offsets.partition

    @property
    def event_times(self) -> NDArray[np.int64]:
        """The event times in epoch milliseconds that validation accepts, one per report that has one."""
        given = [batch.column("event_time").drop_null().to_numpy() for batch in self.batches]
        times = np.concatenate([np.empty(0, dtype=np.int64), *given])
        return np.asarray(times[problems(times) == 0])


@dataclass(frozen=True)
class FeedState:
    """How far a feed that is being read has come.

    Attributes:
        silences: by partition, a time by which everything published had been taken, on the clock
            :func:`elapsed`; None if none is known, as while messages wait to be taken. A feed without
            partitions has one, 0. For :data:`UNFOUND`, the time by which all partitions were known.
        lost: when it last found messages removed that it had not taken, in epoch milliseconds.
        lag: how far it is behind its server; None if only publish times tell.
    """

    silences: Mapping[int, int | None]
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

    @property
    @abstractmethod
    def state(self) -> FeedState:
        """How far it has come. Any thread may ask."""

    @abstractmethod
    def position(self) -> Position:
        """Where the next process goes on if all that was taken so far is committed.

        It is called between two takes. What it says, and only that, is what :meth:`commit` acknowledges.
        """

    def commit(self) -> None:  # noqa: B027 - a feed need not tell anybody
        """Acknowledge what the last :meth:`position` covers: the disk has it. It waits for no server."""

    @property
    def wants_commit(self) -> bool:
        """Whether a commit should come soon, since the server sends no more than so much before one."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Stop reading, and give back what was pulled and is not committed.

        A run that ends with an unforeseen error does not call it; the messages that were taken last then
        stay on record.
        """


class Feed(ABC):
    """Where reports arrive."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that messages show and that dead letters have as their file."""

    @property
    def about(self) -> Mapping[str, str]:
        """What the file of a run says of it besides its name."""
        return {}

    @abstractmethod
    def open_at(self, position: Position | None) -> OpenFeed:
        """Begin to read where a position of this feed says; None for the beginning."""

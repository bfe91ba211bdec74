"""What arrives: a feed hands over reports as they come, and is told when they are safe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.transforms.reports.dead_letters import DeadLetter

#: A batch ends when it has so many bytes: compressed input may hold a thousand times its own size.
DECODED_BYTES = 128 * 2**20


class FeedBatch(NamedTuple):
    """What a feed hands over at once.

    Attributes:
        batches: decoded batches, whose schemas' metadata name where they came from.
        letters: what did not decode.
        receipts: what the feed is told when all of it is safe.
        published: when the last of it was sent, in epoch milliseconds.
        damaged: files in which damage was found.
    """

    batches: Sequence[pa.RecordBatch]
    letters: Sequence[DeadLetter]
    receipts: Sequence[str]
    published: int
    damaged: Sequence[str] = ()


class OpenFeed(ABC):
    """A feed that is being read; its methods are called by one thread at a time."""

    @abstractmethod
    def take(self) -> FeedBatch | None:
        """What has arrived, None if there is nothing now; never waits.

        Raises:
            OSError: if nothing can arrive any more.
        """

    @property
    @abstractmethod
    def drained(self) -> bool:
        """Whether all that had arrived was taken, as far as the feed has been told; a slow answer is none."""

    @abstractmethod
    def acknowledge(self, receipts: Sequence[str]) -> None:
        """These are safe and need not be sent again; also after ``close``."""

    @abstractmethod
    def close(self) -> None:
        """Take no more. What was not taken is given back."""


class Feed(ABC):
    """Where reports arrive: picklable, opened where it is read."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a person calls it; where dead letters say that they stood."""

    @abstractmethod
    def open(self) -> OpenFeed:
        """Begin to read."""

"""What the readers of one place share: the feed, the journal, the watermark, and what is not acknowledged.

An engine keeps several copies of the reading stage, and each copy makes readers of its own. Readers that
follow each other in the same place of a run read one feed, which the place opens once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import NamedTuple

from ldpbeam.transforms.sources.feeds import OpenFeed
from ldpbeam.transforms.sources.journal import Journal, OpenWindow
from ldpbeam.transforms.sources.reading import Reading
from ldpbeam.transforms.sources.watermark import Watermark

FEEDS = logging.getLogger("ldpbeam.feeds")
#: Seconds between two attempts to acknowledge what could not be acknowledged before.
RETRY_SECONDS = 1.0
#: Seconds between two warnings that acknowledgements fail.
WARNING_SECONDS = 60.0


def now() -> int:
    """The clock, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Pending(NamedTuple):
    """A batch that a reader took and that is not acknowledged.

    Attributes:
        reader: the name of the reader that took it.
        number: how many batches that reader had taken, this one included.
        oldest: its oldest event time in epoch milliseconds; None where it has none.
        windows: the windows that its reports are in.
        receipts: what the feed is told when it is acknowledged.
    """

    reader: str
    number: int
    oldest: int | None
    windows: set[OpenWindow]
    receipts: tuple[str, ...]


class Place:
    """One of the places where a run reads; marks are committed on other threads than the one that reads."""

    def __init__(self, reading: Reading, number: int) -> None:
        self.key = (reading.run, number)
        remembered = reading.windows.remembered + reading.windows.allowed_lateness
        self.journal = Journal(reading.output, reading.run, number, remembered)
        self.feed: OpenFeed = reading.feed.open()
        self.feed_name = reading.feed.name
        #: The name of the reader that reads now.
        self.current: str | None = None
        #: When a batch was taken last, or the place was opened.
        self.active = now()
        #: Whether the run has ended here: no reader takes any more.
        self.finished = False
        self.pending: deque[Pending] = deque()
        self._watermark = Watermark(reading.disorder)
        #: The last watermark that was reported to the engine.
        self.reported: int | None = None
        #: What an engine has made durable and the feed has not been told of.
        self._durable: deque[Pending] = deque()
        self._tried = -RETRY_SECONDS
        self._warned = -WARNING_SECONDS
        self._lock = threading.Lock()
        self._acknowledging = threading.Lock()

    def take(self, batch: Pending, latest: int | None) -> None:
        """A reader took a batch; ``latest`` is its latest event time."""
        with self._lock:
            if latest is not None:
                self._watermark.see(latest, now())
            self.pending.append(batch)

    def watermark(self, drained: bool) -> int | None:
        """The event time up to which no report is expected any more; None before any arrived.

        Args:
            drained: whether the feed has nothing more at this moment.
        """
        with self._lock:
            oldest = min((batch.oldest for batch in self.pending if batch.oldest is not None), default=None)
            self.reported = self._watermark.at(now(), oldest, drained and not self.pending)
        return self.reported

    def pending_of(self, reader: str) -> list[Pending]:
        """The batches that one reader took and that are not acknowledged."""
        with self._lock:
            return [batch for batch in self.pending if batch.reader == reader]

    def commit(self, reader: str, number: int) -> None:
        """The engine has made durable what a reader took up to a number: acknowledge it.

        Raises:
            Exception: of the feed or the file system, if it cannot be acknowledged now; it is tried again.
        """
        with self._lock:
            self._durable.extend(
                batch
                for batch in self.pending
                if batch.reader == reader and batch.number <= number and batch not in self._durable
            )
        self._acknowledge()

    def retry(self) -> None:
        """Try again to acknowledge what could not be acknowledged before, at most once a second.

        The mark that committed it comes once, and there may be no later one: the engine may have gone on with
        another reader, whose marks cover only what that reader took.
        """
        if not self._durable or time.monotonic() - self._tried < RETRY_SECONDS:
            return
        try:
            self._acknowledge()
        except Exception as error:  # each feed and each file system has errors of its own
            if time.monotonic() - self._warned >= WARNING_SECONDS:
                self._warned = time.monotonic()
                FEEDS.warning(
                    "%s: reports are counted and cannot be acknowledged, which is tried again: %s",
                    self.feed_name,
                    error,
                )

    def _acknowledge(self) -> None:
        """Name the windows of durable batches in the journal, then acknowledge the batches."""
        with self._acknowledging:
            with self._lock:
                durable = list(self._durable)
            if not durable:
                return
            self._tried = time.monotonic()
            self.journal.name({window for batch in durable for window in batch.windows}, self.reported)
            self.feed.acknowledge([receipt for batch in durable for receipt in batch.receipts])
            with self._lock:
                for batch in durable:
                    self._durable.remove(batch)
                    self.pending.remove(batch)

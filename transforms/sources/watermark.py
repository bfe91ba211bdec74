"""The time model of a reader: what moves its watermark, and when it is idle. Nothing here asks a clock.

Two clocks are trusted. ``elapsed`` is this process's monotonic clock in milliseconds; it may stop while the
machine is suspended, and then fewer milliseconds have passed here than elsewhere. Publish times are the
server's clock in epoch milliseconds: no client can write them. Event times are not trusted.

- The *frontier*: everything that was published before it has been taken, as far as the feed knows.
- The *latest* event time that was taken; an event after its publication counts as published.
- The *delay*: how long before its publication a report's event was. It is the smallest among the last
  :data:`REPORTS`, once one in :data:`LIARS` is left out, those with the smallest.
- The *silence*: the time between the last batch that was taken and the last pull that was begun afterwards
  and answered empty.

The watermark is the least of latest + silence, frontier - delay, and the oldest event that is not yet
committed, less the disorder. It never goes back. The clock moves it only by silence: a process that was
stopped knows nothing of the time meanwhile.

Without the last of the three it is the *expected* time: what is further out of order when it arrives is not
expected any more, and does not hold the watermark. Otherwise one client who repeats an old event time would
hold it for ever, since something of his is never committed yet.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

#: The delay is measured over the last reports, this many of them; one batch adds at most the second number.
REPORTS, REPORTS_OF_A_BATCH = 10_000, 500
#: The event times of the last batches are this many; one batch adds at most the second number.
RECENT, RECENT_OF_A_BATCH = 400, 20
#: One of this many reports may have a false event time and still not move the watermark.
LIARS = 20
#: While messages keep arriving, the frontier is the oldest publish time in this many batches: servers deliver
#: roughly in order.
BATCHES = 10


class Watermark:
    """The watermark of one partition of a feed, or of a feed without partitions.

    Args:
        disorder: how many milliseconds out of order reports arrive at most, as the user declared.
        elapsed: when the reader began.
    """

    def __init__(self, disorder: int, elapsed: int) -> None:
        self.disorder = disorder
        self._latest: int | None = None
        self._silence = 0
        self._reports_at = self._active = elapsed
        self._delays: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._recent = self._delays
        self._delay = 0
        self._oldest: deque[int] = deque(maxlen=BATCHES)
        self._frontier: int | None = None
        #: When the newest message of the last batch was published.
        self._newest: int | None = None
        #: The server's clock minus ours, at most.
        self._ahead: int | None = None
        self._empty: int | None = None
        self._said: int | None = None

    def take(self, elapsed: int, times: NDArray[np.int64], oldest: int | None, newest: int) -> None:
        """A batch was taken.

        Args:
            elapsed: when it was taken.
            times: the event times of its reports.
            oldest: when the oldest of its messages, and of those that come later though they arrived with
                them, was published; None if older ones may be on their way.
            newest: when the newest of its messages was published.
        """
        self._active, self._newest = elapsed, newest
        self._ahead = newest - elapsed if self._ahead is None else max(self._ahead, newest - elapsed)
        if oldest is None:
            self._oldest.clear()
        else:
            self._oldest.append(oldest)
            if len(self._oldest) == BATCHES:
                self._raise_frontier(min(self._oldest))
        if self._empty is not None:
            self._raise_frontier(self._ahead + self._empty)
        if not len(times):
            return
        times = np.minimum(times, newest)
        latest = int(times.max())
        self._latest = latest if self._latest is None else max(self._latest, latest)
        self._reports_at, self._silence = elapsed, 0
        self._remember(newest - times)

    def silent(self, elapsed: int) -> None:
        """A pull that began at this time found no message, and everything that arrived before was taken."""
        if self._empty is not None and elapsed <= self._empty:
            return
        self._empty = elapsed
        if self._ahead is not None:
            self._raise_frontier(self._ahead + elapsed)

    def at(self, uncommitted: int | None, pending: bool) -> int | None:
        """The watermark in epoch milliseconds; None before there is one.

        Args:
            uncommitted: the oldest event time that was expected when it was taken, and is not committed; None
                if there is none.
            pending: whether any batch that was taken is not committed.
        """
        if not pending and self._empty is not None:
            self._silence = max(self._silence, self._empty - self._reports_at)
        reached = self.expected
        if reached is None:
            return None
        if uncommitted is not None:
            reached = min(reached, uncommitted - self.disorder)
        self._said = reached if self._said is None else max(self._said, reached)
        return self._said

    @property
    def expected(self) -> int | None:
        """The event time from which on reports are expected; None before there is a watermark."""
        if self._latest is None or self._frontier is None:
            return None
        return min(self._latest + self._silence, self._frontier - self._delay) - self.disorder

    @property
    def anchors(self) -> tuple[int, ...]:
        """The event times around which reports lie: the delay before the newest publication, and that.

        None before a report was taken.
        """
        return (
            ()
            if self._newest is None or not len(self._delays)
            else (self._newest - self._delay, self._newest)
        )

    @property
    def idle(self) -> int:
        """For how many milliseconds nothing is known to have arrived, since the last batch was taken."""
        return 0 if self._empty is None else max(0, self._empty - self._active)

    def behind(self, elapsed: int, now: int) -> int | None:
        """For how long, in milliseconds, something published may wait to be taken; None before any pull.

        Args:
            elapsed: the present.
            now: the present in epoch milliseconds; while messages arrive, the newest one's age is the answer.
        """
        if self._empty is not None and self.idle:
            return elapsed - self._empty
        return None if self._newest is None else max(0, now - self._newest)

    def clock(self, elapsed: int) -> int | None:
        """The server's clock or less, in epoch milliseconds; None before anything has arrived."""
        return None if self._ahead is None else self._ahead + elapsed

    def _raise_frontier(self, published: int) -> None:
        self._frontier = published if self._frontier is None else max(self._frontier, published)

    def _remember(self, delays: NDArray[np.int64]) -> None:
        """Add the delays of a batch to those of the last reports and of the last batches."""
        of_reports, of_batches = _thinned(delays, REPORTS_OF_A_BATCH), _thinned(delays, RECENT_OF_A_BATCH)
        self._delays = np.concatenate([self._delays, of_reports])[-REPORTS:]
        self._recent = np.concatenate([self._recent, of_batches])[-RECENT:]
        self._delay = _smallest_but_liars(self._delays)


def _thinned(delays: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The delays, evenly thinned out if there are more than ``most``."""
    if len(delays) <= most:
        return delays
    places = (np.arange(most) + 0.5) * len(delays) / most
    return np.sort(delays)[places.astype(np.int64)]


def _smallest_but_liars(delays: NDArray[np.int64]) -> int:
    """The smallest delay, once one in :data:`LIARS` is left out."""
    rank = len(delays) // LIARS
    return int(np.partition(delays, rank)[rank])

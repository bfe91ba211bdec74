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
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Duration, Timestamp
from numpy.typing import NDArray

#: The watermark of a finished stream whose readers stay: past every window and past :data:`LAST`, but before
#: the end of Beam's global window, where engines clear state.
FINISHED = GlobalWindow().max_timestamp() - Duration(60)
#: The time of timers that fire when a stream has finished.
LAST = FINISHED - Duration(60)
#: The delay is measured over the last reports, this many of them; one batch adds at most the second number.
REPORTS, REPORTS_OF_A_BATCH = 10_000, 500
#: One of this many reports may have a false event time and still not move the watermark.
LIARS = 20
#: While messages keep arriving, the frontier is the oldest publish time in this many batches: servers deliver
#: roughly in order.
BATCHES = 10


def timestamp(milliseconds: int) -> Timestamp:
    """Epoch milliseconds as Beam's timestamp."""
    return Timestamp(micros=1000 * milliseconds)


class Pulls:
    """What the answers to a feed's pulls say about the messages that have not come.

    A pull that failed may have had an answer: its messages are on no side until the server's lease of them
    ends. Until then an empty answer says nothing.

    Args:
        lease: for how many milliseconds a server keeps messages that it sent from being sent again.
    """

    def __init__(self, lease: int = 0) -> None:
        self._lease = lease
        self._begun = 0
        self._doubtful_until: int | None = None
        #: When the last empty pull that counts began; None if the last answer that counts had messages, or
        #: there was no answer.
        self.empty: int | None = None

    def begin(self, elapsed: int) -> None:
        """A pull begins; it ends with :meth:`answer` or :meth:`fail`."""
        self._begun = elapsed

    def answer(self, messages: int) -> None:
        """The server answered with this many messages."""
        if messages:
            self.empty = None
        elif not self.doubtful:
            self.empty = self._begun

    def fail(self, elapsed: int) -> None:
        """The pull ended without an answer."""
        self.empty = None
        self._doubtful_until = elapsed + self._lease

    @property
    def doubtful(self) -> bool:
        """Whether messages for a failed pull may still have been on their way when the last pull began."""
        return self._doubtful_until is not None and self._begun < self._doubtful_until


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
        """Add the delays of a batch to those of the last reports."""
        self._delays = np.concatenate([self._delays, thinned(delays, REPORTS_OF_A_BATCH)])[-REPORTS:]
        self._delay = _smallest_but_liars(self._delays)


def thinned(times: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Times or delays, evenly thinned out if there are more than ``most``."""
    if len(times) <= most:
        return times
    places = (np.arange(most) + 0.5) * len(times) / most
    return np.sort(times)[places.astype(np.int64)]


def _smallest_but_liars(delays: NDArray[np.int64]) -> int:
    """The smallest delay, once one in :data:`LIARS` is left out."""
    rank = len(delays) // LIARS
    return int(np.partition(delays, rank)[rank])

"""The time model of a feed: what moves its watermark, and when it is idle. Nothing here asks a clock.

Two clocks are trusted. ``elapsed`` is this process's monotonic clock in milliseconds; it may stop while the
machine is suspended, and then fewer milliseconds have passed here than elsewhere. Publish times are the
server's clock in epoch milliseconds: no client can write them. Event times are not trusted.

Of each partition, as of a feed without partitions:

- The *frontier*: everything that was published before it has been taken, as far as the feed knows.
- The *latest* event time that was taken; an event after its publication counts as published.
- The *delay*: how long before its publication a report's event was. It is the smallest among the last
  :data:`REPORTS`, once one in :data:`LIARS` is left out, those with the smallest.
- The *silence*: the time between the last batch that was taken and the last pull that was begun afterwards
  and answered empty.

The *claim* of a partition is the lesser of latest + silence and frontier - delay, less the disorder. It never
goes back. The clock moves it only by silence: a process that was stopped knows nothing of the time meanwhile.

The watermark of the feed is the least of the claims. One rule keeps an idle or dishonest partition from
blocking the others. Once it is known that all that was published in a partition by some time was taken, the
partition counts as the median of all claims, as it stood at that time, if its own claim is earlier or it has
none: what is published after that is in order with what was read before. A partition that catches up after an
outage has messages of before, so it counts as its own claim.

The median is honest while most partitions are. So a partition whose reports all claim to be of next year
moves nothing: its own claim is not the least, and the median is that of the others. With two partitions the
median is the earlier claim.

The partitions that a topic may have got and the feed has not found yet count together as one without a claim
of its own, read up to the time by which all were known: as the median of the claims of that time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ldpbeam.windows import FUTURE

#: The delay is measured over the last reports, this many of them; one batch adds at most the second number.
REPORTS, REPORTS_OF_A_BATCH = 10_000, 500
#: One of this many reports may have a false event time and still not move the watermark.
LIARS = 20
#: While messages keep arriving, the frontier is the oldest publish time in this many batches: servers deliver
#: roughly in order.
BATCHES = 10
#: Medians are remembered for this many milliseconds. A partition that is read further behind than this counts
#: as its own claim.
REMEMBERED = 120_000


class Claim:
    """The claim of one partition of a feed, or of a feed without partitions.

    Args:
        disorder: how many milliseconds out of order reports arrive at most, as the user declared.
        elapsed: when the feed was opened.
    """

    def __init__(self, disorder: int, elapsed: int) -> None:
        self._disorder = disorder
        self._latest: int | None = None
        self._silence = 0
        self._reports_at = self._active = elapsed
        self._delays: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._delay = 0
        #: How far half of the last reports are ahead of their publication, at least: whose clock is behind.
        #: A few say nothing.
        self.lead: int | None = None
        self._oldest: deque[int] = deque(maxlen=BATCHES)
        self._frontier: int | None = None
        #: When the newest message of the last batch was published.
        self._newest: int | None = None
        #: The server's clock minus ours, at most.
        self._ahead: int | None = None
        #: The time by which all was taken that was published; None if none is known.
        self.silent: int | None = None
        #: The claim in epoch milliseconds; None before there is one.
        self.at: int | None = None
        #: The least that the partition counts as: the median as of the silence; None if that is not known.
        self.raised: int | None = None

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
        if len(times):
            latest = min(int(times.max()), newest)
            self._latest = latest if self._latest is None else max(self._latest, latest)
            self._reports_at, self._silence = elapsed, 0
            self._remember(newest - times)
        self._move()

    def fall_silent(self, elapsed: int) -> None:
        """A pull that began at this time found no message, and everything that arrived before was taken."""
        if self.silent is not None and elapsed <= self.silent:
            return
        self.silent = elapsed
        self._silence = max(self._silence, elapsed - self._reports_at)
        if self._ahead is not None:
            # The server's clock then: it may have gone on faster than ours since what was taken, not slower.
            self._raise_frontier(self._ahead + elapsed)
        self._move()

    @property
    def idle(self) -> int:
        """For how many milliseconds nothing is known to have arrived, since the last batch was taken."""
        return 0 if self.silent is None else max(0, self.silent - self._active)

    def behind(self, elapsed: int, now: int) -> int | None:
        """For how long, in milliseconds, something published may wait to be taken; None before any pull.

        Args:
            elapsed: the present.
            now: the present in epoch milliseconds; while messages arrive, the newest one's age is the answer.
        """
        if self.silent is not None and self.idle:
            return elapsed - self.silent
        return None if self._newest is None else max(0, now - self._newest)

    def clock(self, elapsed: int) -> int | None:
        """The server's clock or less, in epoch milliseconds; None before anything has arrived."""
        return None if self._ahead is None else self._ahead + elapsed

    def _move(self) -> None:
        if self._latest is not None and self._frontier is not None:
            reached = min(self._latest + self._silence, self._frontier - self._delay) - self._disorder
            self.at = reached if self.at is None else max(self.at, reached)

    def _raise_frontier(self, published: int) -> None:
        self._frontier = published if self._frontier is None else max(self._frontier, published)

    def _remember(self, delays: NDArray[np.int64]) -> None:
        """Add the delays of a batch to those of the last reports."""
        if len(delays) > REPORTS_OF_A_BATCH:
            places = (np.arange(REPORTS_OF_A_BATCH) + 0.5) * len(delays) / REPORTS_OF_A_BATCH
            delays = np.sort(delays)[places.astype(np.int64)]
        self._delays = np.concatenate([self._delays, delays])[-REPORTS:]
        rank, half = len(self._delays) // LIARS, len(self._delays) // 2
        delays = np.partition(self._delays, (rank, half))
        # An event after its publication counts as published.
        self._delay = max(0, int(delays[rank]))
        self.lead = min(max(0, int(-delays[half])), FUTURE) if len(delays) >= LIARS else 0


class Watermarks:
    """The watermark and the idleness of a feed.

    Args:
        disorder: how many milliseconds out of order reports arrive at most, as the user declared.
        elapsed: when the feed was opened.
        said: the watermark of an earlier process, behind which it does not go.
        clock: the server's clock or less, as an earlier process knew it: what told it is not read again.
    """

    def __init__(
        self, disorder: int, elapsed: int, said: int | None = None, clock: int | None = None
    ) -> None:
        self._disorder = disorder
        self._began = elapsed
        self._claims: dict[int, Claim] = {}
        #: (when, the median of the claims) in order of time.
        self._medians: deque[tuple[int, int]] = deque()
        self._said, self._earlier = said, [] if clock is None else [clock]

    def take(
        self, partition: int, elapsed: int, times: NDArray[np.int64], oldest: int | None, newest: int
    ) -> None:
        """A batch of a partition was taken; the arguments are those of :meth:`Claim.take`."""
        self._of(partition).take(elapsed, times, oldest, newest)

    def look(self, elapsed: int, silences: Mapping[int, int | None]) -> None:
        """Learn of the partitions of the feed, which are the keys, until when they have been read.

        Args:
            elapsed: the present.
            silences: by partition, a time before which everything was taken that was published; None if
                the feed cannot know. For ``UNFOUND``, the time by which all partitions were known.
        """
        for partition, silent in silences.items():
            claim = self._of(partition)
            if silent is not None and (claim.silent is None or silent > claim.silent):
                claim.fall_silent(silent)
                then = next((median for when, median in reversed(self._medians) if when <= silent), None)
                if then is not None:
                    claim.raised = then if claim.raised is None else max(claim.raised, then)
        claims = sorted(claim.at for claim in self._claims.values() if claim.at is not None)
        if claims:
            self._medians.append((elapsed, claims[(len(claims) - 1) // 2]))
        while self._medians and self._medians[0][0] < elapsed - REMEMBERED:
            self._medians.popleft()

    def at(self) -> int | None:
        """The watermark in epoch milliseconds; None before there is one. It never goes back."""
        least: list[int] = []
        for claim in self._claims.values():
            known = [time for time in (claim.at, claim.raised) if time is not None]
            if not known:
                return self._said
            least.append(max(known))
        if least:
            self._said = min(least) if self._said is None else max(self._said, min(least))
        return self._said

    @property
    def idle(self) -> int:
        """For how many milliseconds no partition is known to have had anything to take."""
        return min((claim.idle for claim in self._claims.values()), default=0)

    def behind(self, elapsed: int, now: int) -> int | None:
        """The longest :meth:`Claim.behind` of the partitions; None while none has any."""
        behind = [claim.behind(elapsed, now) for claim in self._claims.values()]
        return max((each for each in behind if each is not None), default=None)

    def clock(self, elapsed: int) -> int | None:
        """The server's clock or less, in epoch milliseconds; None before anything has arrived.

        It is ahead of publication by as much as half of the last reports of every partition say: publish
        times may be of this machine, whose clock may be wrong.
        """
        clocks = [claim.clock(elapsed) for claim in self._claims.values()]
        leads = [claim.lead for claim in self._claims.values() if claim.lead is not None]
        known = [clock + min(leads, default=0) for clock in clocks if clock is not None]
        return max([*self._earlier, *known], default=None)

    def _of(self, partition: int) -> Claim:
        if partition not in self._claims:
            self._claims[partition] = Claim(self._disorder, self._began)
        return self._claims[partition]

"""The watermark of a feed with partitions: none holds up the others, and none pushes them.

Each partition has a :class:`Watermark` of its own, its *claim*. The watermark of the feed is the least of the
claims. Two rules keep an idle or dishonest partition from blocking the others:

- A partition without a report makes no claim, once it is known that all that was published there by some time
  was taken.
- Such a partition counts as the median of all claims, as it stood at that time, if its own claim is earlier:
  what is published after that is in order with what was read before. A partition that catches up after an
  outage has messages of before, so it counts as its own claim.

The median is honest while most partitions are. So a partition whose reports all claim to be of next year
moves nothing: its own claim is not the least, and the median is that of the others. With two partitions the
median is the earlier claim.

Where several readers share the partitions, the median and the least are over those of all. What a reader
hears of the others (:class:`~ldpbeam.transforms.state.records.Claims`) may be a second old, so it is too
early if anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpbeam.transforms.sources.watermark import Watermark
from ldpbeam.transforms.state.records import ENDED, Claims

#: Medians are remembered for this many milliseconds. A partition that is read further behind than this counts
#: as its own claim.
REMEMBERED = 120_000


@dataclass
class _Claim:
    """One partition: its watermark, the time up to which it was read, and the least that it counts as."""

    watermark: Watermark
    silent: int | None = None
    raised: int | None = None


class Watermarks:
    """The watermark and the idleness of one reader of a feed.

    Args:
        disorder: how many milliseconds out of order reports arrive at most, as the user declared.
        elapsed: when the reader began.
        said: the watermark of an earlier process, behind which it does not go.
    """

    def __init__(self, disorder: int, elapsed: int, said: int | None = None) -> None:
        self._disorder = disorder
        self._claims: dict[int, _Claim] = {}
        self._began = elapsed
        #: (when, the median of the claims) in order of time.
        self._medians: deque[tuple[int, int]] = deque()
        self._others: Sequence[Claims] = ()
        self._said = said

    def take(
        self, partition: int, elapsed: int, times: NDArray[np.int64], oldest: int | None, newest: int
    ) -> None:
        """A batch of a partition was taken; the arguments are those of :meth:`Watermark.take`."""
        self._of(partition).watermark.take(elapsed, times, oldest, newest)

    def look(
        self, elapsed: int, silences: Mapping[int, int | None], uncommitted: Mapping[int, int | None]
    ) -> None:
        """Learn of the partitions of the reader, which are the keys, until when they have been read.

        Args:
            elapsed: the present.
            silences: by partition, a time before which everything was taken that was published; None if
                the feed cannot know.
            uncommitted: as for :meth:`at`.
        """
        for partition, silent in silences.items():
            claim = self._of(partition)
            if silent is not None and (claim.silent is None or silent > claim.silent):
                claim.silent = silent
                claim.watermark.silent(silent)
                known = [median for when, median in self._medians if when <= silent]
                if known:
                    claim.raised = known[-1] if claim.raised is None else max(claim.raised, known[-1])
        others = [claim for reader in self._others for claim in reader.each]
        claims = sorted([*self.claims(uncommitted).each, *others])
        if claims:
            self._medians.append((elapsed, claims[(len(claims) - 1) // 2]))
        while self._medians and self._medians[0][0] < elapsed - REMEMBERED:
            self._medians.popleft()

    def hear(self, others: Sequence[Claims]) -> None:
        """Learn what the partitions of the other readers of the run say."""
        self._others = others

    def claims(self, uncommitted: Mapping[int, int | None]) -> Claims:
        """What the partitions of this reader say; the argument is that of :meth:`at`."""
        each: list[int] = []
        least: list[int] = []
        waits = False
        for partition, claim in self._claims.items():
            reached = claim.watermark.at(uncommitted.get(partition), partition in uncommitted)
            each += [] if reached is None else [reached]
            if reached is None and claim.silent is not None and partition not in uncommitted:
                continue
            known = [time for time in (reached, claim.raised) if time is not None]
            least += [max(known)] if known else []
            waits = waits or not known
        return Claims(tuple(each), min(least, default=None), waits, 0 if uncommitted else self._idle)

    def at(self, uncommitted: Mapping[int, int | None]) -> int | None:
        """The watermark in epoch milliseconds; None before there is one. It never goes back.

        Args:
            uncommitted: the partitions of batches that were taken and are not committed, with the oldest
                event time in each that was expected; None if no report has one.
        """
        readers = [self.claims(uncommitted), *self._others]
        least = [reader.least for reader in readers if reader.least is not None]
        if least and not any(reader.waits for reader in readers):
            self._said = min(least) if self._said is None else max(self._said, min(least))
        return self._said

    def expected(self, partition: int) -> int | None:
        """The event time from which on reports of a partition are expected; None before any is known."""
        return self._of(partition).watermark.expected

    def anchors(self, partition: int) -> tuple[int, ...]:
        """The event times around which the reports of a partition lie; none before there are any."""
        return self._of(partition).watermark.anchors

    @property
    def idle(self) -> int:
        """For how many milliseconds no partition of any reader is known to have had anything to take."""
        return min([self._idle, *(reader.idle for reader in self._others)])

    @property
    def ended(self) -> bool:
        """Whether another reader has ended because nothing arrived at any."""
        return ENDED in self._others

    @property
    def _idle(self) -> int:
        return min((claim.watermark.idle for claim in self._claims.values()), default=0)

    def behind(self, elapsed: int, now: int) -> int | None:
        """The longest :meth:`Watermark.behind` of the partitions; None while none has any."""
        behind = [claim.watermark.behind(elapsed, now) for claim in self._claims.values()]
        return max((each for each in behind if each is not None), default=None)

    def clock(self, elapsed: int) -> int | None:
        """The server's clock or less, in epoch milliseconds; None before anything has arrived."""
        clocks = [claim.watermark.clock(elapsed) for claim in self._claims.values()]
        return max((clock for clock in clocks if clock is not None), default=None)

    def _of(self, partition: int) -> _Claim:
        if partition not in self._claims:
            self._claims[partition] = _Claim(Watermark(self._disorder, self._began))
        return self._claims[partition]

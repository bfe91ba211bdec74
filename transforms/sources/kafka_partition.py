"""A partition of Kafka as a reader reads it: what waits, where it stands, and whether its log is the same.

A broker that was away may have lost the end of a log, and given the offsets of what is lost to new messages.
So the last message that was taken is read once more, and nothing behind another one is taken.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from ldpbeam.transforms.offsets import Checksum
from ldpbeam.transforms.sources.lag import Ends
from ldpbeam.transforms.sources.message_batches import Received
from ldpbeam.windows import FAR


class Partition:
    """A partition of which messages are fetched.

    Args:
        number: its number.
        start: the offset of the first message that is read.
        last: the checksum of the last message that was taken before; None if none is known.
        cuts: the offsets in ascending order at which one batch ends and another begins.
        began: when the reader began, on the clock :func:`~ldpbeam.transforms.sources.feeds.elapsed`.
    """

    def __init__(
        self, number: int, start: int, last: Checksum | None, cuts: Sequence[int], began: int
    ) -> None:
        self.number = number
        #: What was fetched and not taken.
        self.waiting: deque[Received] = deque()
        #: The offset after the last message that was taken.
        self.after = start
        #: The offset to read next. At the end of the partition it may be greater than ``after``, because
        #: offsets before the end may have no message.
        self.position = start
        #: Looks at the end of the partition.
        self.ends = Ends(began)
        #: Whether there is no message at the offset to read next.
        self.out_of_range = False
        #: Why nothing more may be taken; None if something may.
        self.problem: str | None = None
        self._last = last
        self._cuts = cuts
        #: The offset at which librdkafka last came to the end. It says so once for each end.
        self._reached = 0
        #: The checksum of the message that must come first: it was taken already.
        self._expected: Checksum | None = None
        self._expect()

    @property
    def fetched_from(self) -> int:
        """The offset from which messages are to be fetched."""
        return self.position if self._expected is None else self._expected.offset

    def fetch_again(self) -> None:
        """Forget what was fetched and not taken, and expect the last message that was."""
        self.waiting.clear()
        self._reached = 0
        self._expect()

    def deliver(self, received: Received) -> None:
        """A message was fetched; nothing behind it is taken if it is not the one that was expected."""
        expected, self._expected = self._expected, None
        if expected is not None and expected != received.checksum:
            self._lose()
        elif int(received.receipt) >= self.position:
            self.waiting.append(received)

    def end(self, offset: int) -> None:
        """The partition ends at an offset."""
        if self._expected is not None:
            self._lose()
        self._expected, self._reached = None, offset
        self._pass_end()

    def next_messages(self, most: int, most_bytes: int) -> list[Received]:
        """Messages that wait, up to a cut, to a number and to a size that the last of them may exceed."""
        first = bisect.bisect_right(self._cuts, int(self.waiting[0].receipt))
        cut = self._cuts[first] if first < len(self._cuts) else FAR
        sizes = accumulate(len(each.message.data) for each in self.waiting)
        received: list[Received] = []
        for each, size in zip(self.waiting, sizes, strict=True):
            received.append(each)
            if len(received) == most or size >= most_bytes:
                break
        return [each for each in received if int(each.receipt) < cut]

    def take(self, taken: Sequence[Received]) -> None:
        """The first messages that wait were taken."""
        for _ in taken:
            self.waiting.popleft()
        self.position = self.after = int(taken[-1].receipt) + 1
        self._last = taken[-1].checksum
        self._pass_end()

    def go_on(self, first: int, end: int) -> None:
        """Go on with the first message that there is, if this is still the log that was read.

        Args:
            first: the offset of the first message that there is.
            end: the offset after the last one.
        """
        expected, self._expected = self._expected, None
        if self.position > end or (expected is not None and expected.offset >= first):
            self._lose()
            return
        self.out_of_range = False
        if self.position >= first and expected is None:
            self._expect()
        self.position = max(self.position, first)

    def _lose(self) -> None:
        self.problem = (
            f"partition {self.number}: the message before offset {self.position:,} is not the one that was "
            "read: the broker has lost the end of the log; start again, to go on with what there is"
        )

    def _expect(self) -> None:
        """Read the last message that was taken once more: a broker that was away may have lost it."""
        if self._last is not None and self._last.offset < self.position:
            self._expected = self._last

    def _pass_end(self) -> None:
        """Go to the end without a waiting message: offsets before it may have no message."""
        if not self.waiting:
            self.position = max(self.position, self._reached)

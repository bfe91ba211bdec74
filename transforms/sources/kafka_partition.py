"""A partition of Kafka as a reader reads it: what waits, where it stands, and whether its log is the same.

A broker that was away may have lost the end of a log, and given the offsets of what is lost to new messages.
So the last message that was taken is read once more, and nothing behind another one is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ldpbeam.transforms.offsets import Checksum, thinned
from ldpbeam.transforms.sources.kafka_checksums import checksum_of, checksums_of
from ldpbeam.transforms.sources.lag import Ends


class Partition:
    """A partition of which messages are fetched. They wait as librdkafka has given them.

    Args:
        number: its number.
        start: the offset of the first message that is read.
        checksums: those of messages that were taken before, in their order.
        began: when the reader began, on the clock :func:`~ldpbeam.transforms.sources.feeds.elapsed`.
    """

    def __init__(self, number: int, start: int, checksums: Sequence[Checksum], began: int) -> None:
        self.number = number
        #: What was fetched and not taken.
        self.waiting: deque[Any] = deque()
        #: The offset after the last message that was taken.
        self.after = start
        #: The offset to read next. At the end of the partition it may be greater than ``after``, because
        #: offsets before the end may have no message.
        self.position = start
        #: Of messages that were taken, in their order.
        self.checksums = list(checksums)
        #: Looks at the end of the partition.
        self.ends = Ends(began)
        #: Whether there is no message at the offset to read next.
        self.out_of_range = False
        #: Why nothing more may be taken; None if something may.
        self.problem: str | None = None
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

    def deliver(self, message: Any) -> None:
        """A message was fetched; nothing behind it is taken if it is not the one that was expected."""
        expected, self._expected = self._expected, None
        if expected is None:
            if message.offset() >= self.position:
                self.waiting.append(message)
        elif expected != checksum_of(message):
            self._lose()

    def end(self, offset: int) -> None:
        """The partition ends at an offset."""
        if self._expected is not None:
            self._lose()
        self._expected, self._reached = None, offset
        self._pass_end()

    def next_messages(self, most: int, most_bytes: int) -> list[Any]:
        """Messages that wait, up to a number and to a size that the last of them may exceed."""
        messages: list[Any] = []
        for message, size in zip(self.waiting, accumulate(map(len, self.waiting)), strict=True):
            messages.append(message)
            if len(messages) == most or size >= most_bytes:
                break
        return messages

    def take(self, taken: Sequence[Any]) -> None:
        """The first messages that wait were taken."""
        for _ in taken:
            self.waiting.popleft()
        self.position = self.after = taken[-1].offset() + 1
        self.checksums = thinned([*self.checksums, *checksums_of(taken)])
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
            "read: the broker has lost the end of the log; start again to continue with what is left"
        )

    def _expect(self) -> None:
        """Read the last message that was taken once more: a broker that was away may have lost it."""
        if self.checksums and self.checksums[-1].offset < self.position:
            self._expected = self.checksums[-1]

    def _pass_end(self) -> None:
        """Go to the end without a waiting message: offsets before it may have no message."""
        if not self.waiting:
            self.position = max(self.position, self._reached)

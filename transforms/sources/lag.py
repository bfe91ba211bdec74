"""How far a reader is behind its server. Nothing here asks a clock."""

from __future__ import annotations

from typing import NamedTuple

#: The most looks at the end of a partition that are remembered. Beyond it, every second look is forgotten.
MOST = 1_000


class Lag(NamedTuple):
    """How far a reader is behind.

    Attributes:
        milliseconds: the age of the latest time by which everything published had been taken.
        messages: how many messages were published and not taken; None if the server does not say.
    """

    milliseconds: int
    messages: int | None = None


class Ends:
    """Looks at the end of a partition, because the server tells its offset and not when it was published.

    Args:
        began: when the reader began. Messages from before then have no known publish time.
    """

    def __init__(self, began: int) -> None:
        self._began = began
        #: (when, the offset after the last message) in order of time.
        self._looks: list[tuple[int, int]] = []

    def look(self, begun: int, end: int) -> None:
        """The server, asked at ``begun``, said that the next message will have the offset ``end``."""
        if self._looks and self._looks[-1][1] == end:
            self._looks.pop()
        self._looks.append((begun, end))
        if len(self._looks) > MOST:
            del self._looks[1:-1:2]

    def passed(self, position: int) -> int | None:
        """When the last look began that found an end at or before a position; None if there is no such look.

        A reader that has taken everything before the position has taken all that was published by then.
        """
        taken = [when for when, end in self._looks if end <= position]
        # Positions only grow, so older looks are not needed again.
        del self._looks[: max(0, len(taken) - 1)]
        return taken[-1] if taken else None

    def lag(self, position: int, elapsed: int) -> Lag:
        """The lag of a reader that has taken everything before a position, at a time."""
        passed = self.passed(position)
        last = self._looks[-1][1] if self._looks else position
        return Lag(elapsed - (self._began if passed is None else passed), max(0, last - position))


def worst(lags: list[Lag]) -> Lag | None:
    """The lag of several partitions together; None of none."""
    if not lags:
        return None
    known = [lag.messages for lag in lags if lag.messages is not None]
    return Lag(max(lag.milliseconds for lag in lags), sum(known) if known else None)

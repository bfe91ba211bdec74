"""How far a reader is behind its server. Nothing here asks a clock."""

from __future__ import annotations

from typing import NamedTuple

#: The most looks at the end of a partition that are remembered; of more, every second is forgotten.
MOST = 1_000


class Lag(NamedTuple):
    """How far a reader is behind.

    Attributes:
        milliseconds: how long ago everything that was published by then had been taken.
        messages: how many messages were published and not taken; None if the server does not say.
    """

    milliseconds: int
    messages: int | None = None


class Ends:
    """The end of a partition, looked at again and again: offsets are the server's, and no publish time is.

    Args:
        began: when the reader began; of what was there then, nobody knows when it was published.
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
        """When the last look was begun whose end a reader has come to that has taken all before a position.

        None if it has come to none. Everything that was published before that time was taken.
        """
        taken = [when for when, end in self._looks if end <= position]
        # Whoever reads on needs no older look again.
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

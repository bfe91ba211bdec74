"""How far event time has come, from what has arrived: nothing can know what is still on its way."""

from __future__ import annotations

from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Duration

#: The watermark of a stream that is over but whose readers stay: past every window and past :data:`LAST`.
#: When Beam's global window has ended, engines let go of state.
OVER = GlobalWindow().max_timestamp() - Duration(60)
#: For timers that wait until a stream is over.
LAST = OVER - Duration(60)


class Watermark:
    """The watermark of one reader.

    It is the oldest event time that is not safe yet, or else the latest seen, less the disorder that the
    person declared: reports arrive at most so much out of order. While nothing arrives it moves on from there
    at the pace of the clock, so that windows close; not to the clock itself, as a backlog of last week may go
    on after a pause. A report from the future does not move it beyond the clock, and it never goes back.

    Args:
        disorder: in milliseconds.
    """

    def __init__(self, disorder: int) -> None:
        self.disorder = disorder
        self._latest: int | None = None
        self._seen_at = 0
        self._said: int | None = None

    def see(self, latest: int, now: int) -> None:
        """Reports up to an event time arrived now (both in epoch milliseconds)."""
        latest = min(latest, now)
        self._latest = latest if self._latest is None else max(self._latest, latest)
        self._seen_at = now

    def at(self, now: int, unsafe: int | None, drained: bool) -> int | None:
        """The watermark now, None before anything has arrived.

        Args:
            now: the clock, in epoch milliseconds.
            unsafe: the oldest event time that arrived and is not safe yet.
            drained: whether nothing has arrived that was not taken.
        """
        if self._latest is None:
            return None
        latest = self._latest
        if drained and unsafe is None:
            latest = min(latest + now - self._seen_at, max(now, latest))
        reached = (latest if unsafe is None else min(latest, unsafe)) - self.disorder
        self._said = reached if self._said is None else max(self._said, reached)
        return self._said

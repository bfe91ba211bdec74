"""The watermark of a reader, estimated from the event times that have arrived."""

from __future__ import annotations

from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Duration, Timestamp

#: The watermark of a finished stream whose readers stay: past every window and past :data:`LAST`, but before
#: the end of Beam's global window, where engines clear state.
FINISHED = GlobalWindow().max_timestamp() - Duration(60)
#: The time of timers that fire when a stream has finished.
LAST = FINISHED - Duration(60)


def timestamp(milliseconds: int) -> Timestamp:
    """Epoch milliseconds as Beam's timestamp."""
    return Timestamp(micros=1000 * milliseconds)


class Watermark:
    """The watermark of one reader.

    It is the latest event time seen, or the oldest that is not acknowledged yet if that is earlier, minus the
    disorder. While nothing arrives it advances at the pace of the clock, so that windows close. It does not
    jump to the clock, since more of a backlog may arrive after a pause. A report from the future does not
    move it beyond the clock. It never decreases.

    Args:
        disorder: how many milliseconds out of order reports arrive at most, as the user declared.
    """

    def __init__(self, disorder: int) -> None:
        self.disorder = disorder
        self._latest: int | None = None
        self._seen_at = 0
        self._said: int | None = None

    def see(self, latest: int, now: int) -> None:
        """Record the latest event time of a batch, and the clock when it arrived, in epoch milliseconds."""
        latest = min(latest, now)
        self._latest = latest if self._latest is None else max(self._latest, latest)
        self._seen_at = now

    def at(self, now: int, unsafe: int | None, drained: bool) -> int | None:
        """The watermark in epoch milliseconds; None before anything has arrived.

        Args:
            now: the clock, in epoch milliseconds.
            unsafe: the oldest event time that was taken and is not acknowledged; None if there is none.
            drained: whether everything that has arrived was taken.
        """
        if self._latest is None:
            return None
        latest = self._latest
        if drained and unsafe is None:
            latest = min(latest + now - self._seen_at, max(now, latest))
        reached = (latest if unsafe is None else min(latest, unsafe)) - self.disorder
        self._said = reached if self._said is None else max(self._said, reached)
        return self._said

"""Event times as Beam has them, and the ends of a stream on its clock."""

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

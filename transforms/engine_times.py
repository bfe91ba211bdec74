"""Event times as Beam has them."""

from __future__ import annotations

from apache_beam.utils.timestamp import Timestamp


def timestamp(milliseconds: int) -> Timestamp:
    """Epoch milliseconds as Beam's timestamp."""
    return Timestamp(micros=1000 * milliseconds)

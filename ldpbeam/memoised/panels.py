"""Rotating panels: a user answers in one window of each period (docs/over_time.md).

The window is a hash of what clients and the server know: the study, the attribute, the user id and the number
of the period. So it changes from period to period, and reveals nothing about the user's value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Integers
from ldpbeam.memoised.memos import fields_of
from ldpbeam.times import format_duration

#: The first field of every text that is hashed: the purpose, and the version of its form.
PURPOSE = "ldpbeam panel 1"


@dataclass(frozen=True)
class Panel:
    """How often users answer.

    Attributes:
        study: the name of the study.
        size: the length of a window in milliseconds. Windows do not slide.
        windows: the number of windows in a period, 2 or more; periods are aligned to 1970-01-01T00:00:00Z.
    """

    study: str
    size: int
    windows: int

    @property
    def period(self) -> int:
        """The length of a period in milliseconds."""
        return self.size * self.windows

    def turns(self, attribute: str, ids: Sequence[bytes], users: Integers, times: Integers) -> Integers:
        """The start of the window in which each user answers, in the period of a time.

        Args:
            attribute: the attribute of the reports.
            ids: the ids of k users; a UUID as its 16 bytes.
            users: indexes into ``ids``, shape (n,).
            times: event times in epoch milliseconds, shape (n,).

        Returns:
            Times in epoch milliseconds, shape (n,).
        """
        periods = np.asarray(times, dtype=np.int64) // self.period
        distinct, number = np.unique(periods, return_inverse=True)
        # Each user is hashed once per period, however many reports the user sent.
        pairs, which = np.unique(number * len(ids) + users, return_inverse=True)
        texts = [fields_of(PURPOSE, self.study, attribute, str(period)) for period in distinct.tolist()]
        digests = b"".join(
            hashlib.sha256(texts[pair // len(ids)] + ids[pair % len(ids)]).digest()[:8]
            for pair in pairs.tolist()
        )
        windows = (np.frombuffer(digests, dtype=">u8") % np.uint64(self.windows)).astype(np.int64)
        return periods * self.period + windows[which] * self.size


def explain(panel: Panel) -> str:
    """A sentence about who answers when."""
    return (
        f"A user answers one window in {panel.windows:,}, another one in each period of "
        f"{format_duration(panel.period)}, and so spends the epsilon of one window in a period; a report in "
        "another window is a dead letter (out_of_turn)."
    )

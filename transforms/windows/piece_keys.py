"""The keys under which reports are folded and statistics are added up: named tuples."""

from __future__ import annotations

from typing import NamedTuple

from ldpbeam.windows import Bounds

#: Consecutive windows: the starts of the first and of the last, in epoch milliseconds.
Run = tuple[int, int]


class PieceKey(NamedTuple):
    """The key of reports that are folded together.

    Attributes:
        attribute: the attribute's name.
        shard: the shard of the users, or of the report ids.
        run: the windows; None for all of them, and for the one window over everything.
    """

    attribute: str
    shard: int
    run: Run | None


class GroupKey(NamedTuple):
    """The key of a statistic: an attribute or a vector's coordinate, and the group; None without a group."""

    attribute: str
    group: str | None


class WindowKey(NamedTuple):
    """The key of a window's statistics: an attribute or a vector's coordinate, and the window.

    A window of None is the one over everything.
    """

    attribute: str
    window: Bounds | None


class WindowGroupKey(NamedTuple):
    """The key of one group's statistic in a window, while it is added up."""

    attribute: str
    window: Bounds | None
    group: str | None

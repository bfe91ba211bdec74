"""The fold of longer windows: the reports of a user in several windows are brought together.

It stands beside the fold of the windows themselves, which counts the reports: here none is counted again.
It keeps the reports that the windows keep, because the first report of a user in a window is the first one
whether or not duplicates by report id are still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ldpbeam.attributes import Attribute
from ldpbeam.transforms.joining.join import join
from ldpbeam.transforms.windows.fold import Fold, Folded
from ldpbeam.transforms.windows.groups import tallied
from ldpbeam.transforms.windows.keys import PieceKey
from ldpbeam.windows import Bounds


@dataclass(frozen=True)
class JoinedFold(Fold):
    """How the reports of a user in several windows become the statistic of the longer window."""

    @property
    def most_groups(self) -> int:
        """How many groups have joined statistics, which are larger than those of windows."""
        return 2 * self.study.groups.at_most if self.study.groups else 1

    def window_at(self, start: int) -> Bounds:
        """The longer window that starts at a time."""
        assert self.study.windows is not None
        return self.study.windows.longer((start, start))

    def fold_window(
        self, attribute: Attribute, batches: Sequence[pa.RecordBatch], window: Bounds | None
    ) -> Folded:
        """Fold all reports of a partition of users in one longer window, and no others."""
        windows = self.study.windows
        assert windows is not None
        rows, _, _ = join(attribute, batches, most_groups=self.most_groups, size=windows.size)
        kept = sum(users.reports for users in rows)
        return Folded(tallied(self.study, attribute, rows, windows.each_joined), 0, 0, kept)

    def _windows(self, key: PieceKey) -> list[Bounds | None]:
        assert key.run is not None
        window = self.window_at(key.run[0])
        return [window] if self.span.holds(window) else []

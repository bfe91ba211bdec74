"""The limits of a stream's tests: a bound of false alarms over its whole life, spent over windows and panes.

A stream has no last test, so the allowed probability cannot be divided by the number of tests. Instead, every
possible window gets a share of it beforehand, and the shares sum to one (alpha spending: Foster and Stine, J.
R. Stat. Soc. B 70, 2008; for the family-wise error rate, Tian and Ramdas, Stat. Methods Med. Res. 30, 2021).
A limit depends on no result and on no order, so workers need not know of each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from ldpbeam.cells import Cells
from ldpbeam.fit.tests import FALSE_ALARMS
from ldpbeam.windows import Bounds


@dataclass(frozen=True)
class Spending:
    """How a run of a stream spends its share of false alarms.

    Attributes:
        since: when the first run of the stream began, in epoch milliseconds.
        started: when this run began; not before ``since``.
        earlier_runs: the number of earlier runs of the stream, 0 or more.
        windows: the cells with each of which a window starts.
        attributes: the number of tested attributes, or coordinates of vectors, 1 or more.
    """

    since: int
    started: int
    earlier_runs: int
    windows: Cells
    attributes: int

    def limit(self, window: Bounds, pane_index: int) -> float:
        """The probability of a false alarm that all tests of one pane of one attribute may have together.

        Windows are numbered from the first that begins after the stream, later and earlier ones in turn. Of
        2^b windows from number 2^b - 1 on, each has the share 1 / (2^b (b + 1) (b + 2)). Pane i has the share
        1 / ((i + 1) (i + 2)) of its window. Half of that is for the run that was first to see the window;
        later runs, which see what an earlier one left open, have 1 / ((r + 1) (r + 2)) after r earlier runs.

        Args:
            window: (start, end) of the window in epoch milliseconds.
            pane_index: the number of earlier panes of the window in this run, 0 or more.
        """
        ahead = self.windows.number(window[0]) - self.windows.number(self.since - 1) - 1
        number = 2 * ahead if ahead >= 0 else -2 * ahead - 1
        block = (number + 1).bit_length() - 1
        of_window = 1.0 / ((1 << block) * (block + 1) * (block + 2))
        of_pane = 1.0 / ((pane_index + 1) * (pane_index + 2))
        earlier = self.earlier_runs if window[0] < self.started else 0
        of_run = 1.0 / ((earlier + 1) * (earlier + 2))
        return FALSE_ALARMS * of_window * of_pane * of_run / self.attributes

"""Intervals of the numbers of honest people, where a share of all people may send anything.

If liars sent at most the share m of the reports, and no report says less than a or more than b, a mean s over
all reports is (1 - m) h + m l with l in [a, b]. So the mean h over honest ones is at least
s - m (b - s)/(1 - m) and at most s + m (s - a)/(1 - m), whatever the liars sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ldpbeam.domains import Floats

#: Why some numbers have no certain interval.
NO_BOUND = "none: nothing bounds what liars can do to it"
#: Channels with half of their reports possibly false say nothing; none has a weight of zero.
LEAST_WEIGHT = 1e-12


def honest(liars: float) -> str:
    """Whose numbers certain intervals hold, in words; empty if nobody is taken for a liar."""
    return f"for honest people, if at most {100.0 * liars:.3g}% lie" if liars else ""


def trust(false: Floats) -> Floats:
    """What the weights of channels are multiplied by, given the shares of their reports that may be false."""
    return np.maximum(1.0 - 2.0 * false, LEAST_WEIGHT)


def moved(means: Floats, least: Floats | float, most: Floats | float, false: Floats) -> tuple[Floats, Floats]:
    """How far below and above means over all reports those over honest ones may be.

    Args:
        means: over all reports.
        least: the least that a report says.
        most: the most.
        false: the share of the reports that may be false, below one.
    """
    odds = false / (1.0 - false)
    return odds * (most - means), odds * (means - least)


def hull(ends_of: Callable[[Floats], Floats], numbers: Floats, down: Floats, up: Floats) -> Floats:
    """The ends of intervals of numbers that may be lower by ``down`` and higher by ``up``, shape (n, 2).

    An interval misses at one of its ends alone as often as that of a number that is not moved, or less.
    """
    return np.column_stack((ends_of(numbers - down)[:, 0], ends_of(numbers + up)[:, 1]))

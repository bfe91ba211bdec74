"""Intervals for honest people, if a share of all people may send anything.

Suppose that liars sent at most the share m of the reports, and that every report says between a and b. The
mean s over all reports is (1 - m) h + m l with l in [a, b]. So the mean h over honest reports is at least s -
m (b - s)/(1 - m) and at most s + m (s - a)/(1 - m), whatever the liars sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ldpbeam.domains import Floats

#: Why some numbers have no certain interval.
NO_BOUND = "none: nothing bounds what liars can do to it"
#: A channel half of whose reports may be false says nothing; even so, no weight is zero.
LEAST_WEIGHT = 1e-12


def honest(liars: float) -> str:
    """Whom certain intervals cover, in words; empty if nobody may lie."""
    return f"for honest people, if at most {100.0 * liars:.3g}% lie" if liars else ""


def trust(false: Floats) -> Floats:
    """The factors of channels' weights, given the shares of their reports that may be false."""
    return np.maximum(1.0 - 2.0 * false, LEAST_WEIGHT)


def moved(means: Floats, least: Floats | float, most: Floats | float, false: Floats) -> tuple[Floats, Floats]:
    """How far the means over honest reports may be below and above the means over all reports.

    Args:
        means: the means over all reports.
        least: the least number that a report says.
        most: the greatest number that a report says.
        false: the share of the reports that may be false, below one.
    """
    odds = false / (1.0 - false)
    return odds * (most - means), odds * (means - least)


def hull(ends_of: Callable[[Floats], Floats], numbers: Floats, down: Floats, up: Floats) -> Floats:
    """The ends of intervals of numbers that may be lower by ``down`` and higher by ``up``, shape (n, 2).

    Each end misses at most as often as the end of an interval of a number that is not moved.
    """
    return np.column_stack((ends_of(numbers - down)[:, 0], ends_of(numbers + up)[:, 1]))

"""Intervals that hold at every look while reports accumulate: confidence sequences.

Somebody who looks at a 95% interval after every pane, and stops when it leaves a threshold, is wrong far more
often than once in twenty. These intervals contain the truth at all looks together, so one may stop at any.

The boundary is Robbins' normal mixture (Howard, Ramdas, McAuliffe and Sekhon, Annals of Statistics 49, 2021,
eq. 14; for estimated variances Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Annals of Statistics 52,
2024, eq. 2). Let e be the standard error at a look, and I = 1/e^2 its information. The noise of a mean over
the reports so far, times I, has independent increments; so does the noise of a difference of two such means,
however their reports grow (Jennison and Turnbull, Journal of the American Statistical Association 92, 1997).
Looks at joined windows, which share users, depend on each other at least as much. With probability 1 - a, the
noise is at most

    e sqrt((1 + r) (log(1 + 1/r) - 2 log a)),    r = I_0 / I,

at every look. I_0 is free, but must not depend on the reports. So the study names the number of reports near
which the intervals are narrowest: 1.55 times as wide as those of one look, at a level of 95%. Information
grows in proportion to the number of reports, or more slowly if users are joined, so r is a ratio of numbers
of reports.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from ldpbeam.domains import Floats

#: How the intervals are computed, in words.
FOR_ALL_LOOKS = "normal mixture around unbiased reports, for all looks; narrowest near {reports:,} reports"
#: Why there are none if clients remember their noise.
REMEMBERED = (
    "none: clients remember their noise, and reports of several windows were not brought together by user, "
    "so what a further look adds is unknown"
)


def widening(level: float, reports: ArrayLike, narrowest: float) -> Floats:
    """How many standard errors an interval must reach to each side to hold at every look.

    Args:
        level: the probability that it holds at all looks, above 0 and below 1.
        reports: the number of reports at this look, above zero.
        narrowest: the number of reports at which the interval is narrowest, relative to that of one look.
    """
    twice = -2.0 * math.log1p(-level)
    # The least width has log u + twice = u - 1, for u = 1 + 1/r.
    u = 1.0 + twice
    for _ in range(60):
        u = 1.0 + twice + math.log(u)
    r = narrowest / ((u - 1.0) * np.asarray(reports, dtype=np.float64))
    return np.asarray(np.sqrt((1.0 + r) * (np.log1p(1.0 / r) + twice)))


def within_one_at_any_look(
    estimates: ArrayLike, errors: ArrayLike, level: float, reports: int, narrowest: float
) -> Floats:
    """Intervals of numbers in [0, 1] that hold at every look, shape (n, 2).

    Args:
        estimates: unbiased estimates, shape (n,); they may lie outside [0, 1].
        errors: their standard errors, shape (n,).
        level: the probability that an interval holds at all looks.
        reports: the number of reports.
        narrowest: as for :func:`widening`.
    """
    centres = np.asarray(estimates, dtype=np.float64)
    room = widening(level, reports, narrowest) * np.asarray(errors, dtype=np.float64)
    return np.clip(np.column_stack((centres - room, centres + room)), 0.0, 1.0)

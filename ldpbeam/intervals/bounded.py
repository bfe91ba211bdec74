"""Intervals of a number that must lie in [0, 1], from an unbiased estimate with normal noise.

The unbiased share of a rare category is often below zero. The interval of two standard errors around it, cut
at zero, would then be empty or a point. Feldman and Cousins (Phys. Rev. D 57, 1998, section IV B) order the
estimates by their likelihood ratio instead. For every truth, their intervals contain it in exactly the stated
share of all samples, lie within the bound, and are never empty.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from ldpbeam.domains import Floats

#: More than this many standard errors above the bound, the interval is symmetric.
FAR = 10.0
#: The table has a truth at each of these steps, in standard errors.
STEP = 0.005
#: The halvings in the search for an end of the acceptance region.
HALVINGS = 50


@functools.cache
def _table(level: float) -> tuple[Floats, Floats, Floats]:
    """(truths; the least and the greatest estimate that each accepts), in standard errors above the bound."""
    truths = np.arange(1.0, round((FAR + 6.0) / STEP), dtype=np.float64) * STEP
    least: Floats = np.zeros(len(truths))
    most: Floats = np.full(len(truths), 20.0)
    for _ in range(HALVINGS):
        reach: Floats = 0.5 * (least + most)
        held = ndtr(reach) - ndtr(_lowest(truths, reach) - truths) >= level
        least, most = np.where(held, least, reach), np.where(held, reach, most)
    return truths, _lowest(truths, most), truths + most


def _lowest(truths: Floats, reach: Floats) -> Floats:
    """The estimate below a truth with the same likelihood ratio as the estimate ``reach`` above it.

    For estimates below the bound, the likeliest truth is the bound itself, so the ratio falls more slowly.
    """
    return np.where(reach <= truths, truths - reach, (truths**2 - reach**2) / (2.0 * truths))


def above_zero(standardised: Floats, level: float) -> Floats:
    """Intervals of numbers of zero or more, from estimates with a standard error of one; shape (n, 2)."""
    truths, lowest, highest = _table(level)
    # A truth of zero accepts every estimate below the one-sided limit.
    starts = np.concatenate(([0.0], truths)), np.concatenate(([float(ndtri(level))], highest))
    low = np.interp(standardised, starts[1], starts[0])
    high = np.interp(standardised, lowest, truths)
    plain = float(ndtri(0.5 + 0.5 * level))
    far = standardised >= FAR
    return np.column_stack(
        (np.where(far, standardised - plain, low), np.where(far, standardised + plain, high))
    )


def within_one(estimates: ArrayLike, errors: ArrayLike, level: float) -> Floats:
    """Intervals of numbers in [0, 1], shape (n, 2).

    Of the two bounds, only the one nearer to an estimate counts.

    Args:
        estimates: unbiased estimates, shape (n,); they may lie outside [0, 1].
        errors: their standard errors, shape (n,), above zero.
        level: the share of all samples in which an interval contains the truth.
    """
    centres, scales = np.broadcast_arrays(np.asarray(estimates, float), np.asarray(errors, float))
    upper = centres > 0.5
    distance = np.where(upper, 1.0 - centres, centres)
    ends = np.minimum(above_zero(distance / scales, level) * scales[:, None], 1.0)
    return np.asarray(np.where(upper[:, None], 1.0 - ends[:, ::-1], ends))

"""Do the reports of a noise with a tail reach no further than the noise does?

A histogram has one cell for all reports beyond an end, so it does not tell one that lies a little beyond from
one that lies hundreds of domains away, as those of fake users may. The exact sum of the reports does. Given
the histogram, the distribution of the sum is known whatever the values are: a report inside lies near its
cell's middle, and the distance beyond an end is exponential (Laplace), or shorter (Gaussian).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from ldpbeam.attributes import Attribute
from ldpbeam.statistics import Statistic, has_tail


def tail_p_value(attribute: Attribute, index: int, statistic: Statistic) -> float:
    """An upper bound of the probability that reports lie so far out; 1 for a mechanism without a tail.

    Let T be the sum of the reports less that of their cells' middles and ends. For every t above zero,
    P(T >= T seen) is at most E[exp(t T)] / exp(t T seen) (Chernoff). In a cell of width w the logarithm of
    the density has a slope of at most L. So the mean there is at most L w^2/12 from the middle, and the
    deviation from it adds at most t^2 w^2/8 (Hoeffding).

    Args:
        attribute: the attribute of the statistic.
        index: the channel, an index into ``attribute.versions``.
        statistic: the statistic.
    """
    mechanism = attribute.versions[index].mechanism
    histogram = statistic.histograms[index]
    reports = float(histogram.sum())
    if not has_tail(mechanism) or reports <= 0.0 or (histogram < 0).any():
        return 1.0
    tail = mechanism.tail
    assert tail is not None
    width = 2.0 * tail.end / attribute.buckets
    middles = -tail.end + (np.arange(attribute.buckets) + 0.5) * width
    places = np.concatenate(([-tail.end], middles, [tail.end]))
    total = sum(own.sums[index] for own in statistic.moments.values()) * mechanism.fixed_point_step
    left = total - float(histogram @ places)
    inside = float(histogram[1:-1].sum())
    shift = inside * tail.slope * width**2 / 12.0 + 0.5 * reports * mechanism.fixed_point_step
    least, most = tail.excess

    def p_value(beyond: float, far: float, near: float) -> float:
        """The bound for one side: ``far`` reports lie beyond its end, and ``near`` ones beyond the other."""

        def logarithm(scaled: float) -> float:
            t = scaled / most
            of_cells = inside * t**2 * width**2 / 8.0
            return (
                t * (shift - beyond) + of_cells - far * math.log1p(-t * most) - near * math.log1p(t * least)
            )

        found = minimize_scalar(logarithm, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
        return math.exp(min(float(found.fun), 0.0))

    low, high = float(histogram[0]), float(histogram[-1])
    return min(1.0, 2.0 * min(p_value(left, high, low), p_value(-left, low, high)))

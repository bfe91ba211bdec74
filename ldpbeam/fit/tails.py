"""If a noise has a tail, do the reports reach as far as it should?

A histogram has one cell for all reports beyond an end. So it does not distinguish a report that is slightly
beyond from one that is hundreds of domains away, such as those of fake users may be; the exact sum of the
reports does. Given the histogram, the distribution of the sum hardly depends on the values: a report inside
lies near its cell's middle, and the distance beyond an end is exponential (Laplace), or shorter (Gaussian).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from ldpbeam.attributes import Attribute
from ldpbeam.mechanisms.mechanism import Tail
from ldpbeam.statistics import Statistic, has_tail

#: Distances beyond an end are bounded by at most this many of their means.
MOST_REACH = 200


def tail_p_value(attribute: Attribute, index: int, statistic: Statistic) -> float:
    """An upper bound of the probability that reports are as far out, or as near, as these; 1 without a tail.

    Let T be the sum of the reports minus that of their cells' middles and ends, and s its observed value. For
    every t above zero, P(T >= s) is at most E[exp(t T)] / exp(t s) (Chernoff). In a cell of width w the
    logarithm of the density has a slope of at most L. So the mean there is at most L w^2/12 from the middle,
    and the deviation from it adds at most t^2 w^2/8 (Hoeffding).

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
    total = sum(moments.sums[index] for moments in statistic.moments.values()) * mechanism.fixed_point_step
    remainder = total - float(histogram @ places)
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

        minimum = scipy.optimize.minimize_scalar(
            logarithm, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}
        )
        return math.exp(min(float(minimum.fun), 0.0))

    low, high = float(histogram[0]), float(histogram[-1])
    squares = (
        sum(moments.squares[index] for moments in statistic.moments.values()) * mechanism.fixed_point_step**2
    )
    # Rounding to the grid moves a square by at most the report times the step.
    rounding = math.sqrt(reports * squares) * mechanism.fixed_point_step
    spread = squares - float(histogram @ places**2)
    of_squares = _squares_p_value(tail, spread, rounding, inside, low + high, width)
    return min(1.0, 4.0 * min(p_value(remainder, high, low), p_value(-remainder, low, high), of_squares))


def _squares_p_value(
    tail: Tail, spread: float, rounding: float, inside: float, beyond: float, width: float
) -> float:
    """A bound of the probability of as small, or as large, a sum of squares beyond the ends.

    A report at a distance x beyond an end e adds X = 2 e x + x^2 to the sum. Let S be a sum of n
    independent X >= 0 with E[X^2] <= m. Then P(S <= E[S] - t) <= exp(-t^2 / (2 n m)) (Maurer, J. Inequal.
    Pure Appl. Math. 2003). If X <= M, P(S >= E[S] + t) <= exp(-t^2 / (2 (n m + M t / 3))) (Bernstein). X has
    no bound, but x is at most k means with probability 1 - exp(-k). A report inside, whose square differs by
    at most the width times e from that of its cell's middle, adds to the variance (Hoeffding).

    Args:
        tail: the tail.
        spread: the sum of squares minus that of the cells' middles and ends.
        rounding: the most that rounding may have added or subtracted.
        inside: the number of reports between the ends.
        beyond: the number of reports beyond an end.
        width: the width of a cell.
    """
    end, (least, most) = tail.end, tail.excess
    of_cells = inside * (width * end) ** 2
    shift = rounding + inside * end * tail.slope * width**2 / 6.0

    def moments(mean: float) -> tuple[float, float]:
        first = 2.0 * end * mean + 2.0 * mean**2
        return first, 8.0 * (end * mean) ** 2 + 24.0 * end * mean**3 + 24.0 * mean**4

    first, second = moments(least)
    short = beyond * first - spread - shift
    if short > 0.0:
        return math.exp(-(short**2) / (2.0 * (beyond * second + of_cells)))
    first, second = moments(most)
    far = spread - beyond * first - shift - inside * width**2 / 4.0
    if far <= 0.0:
        return 1.0
    reach = np.arange(1.0, MOST_REACH)
    largest = 2.0 * end * reach * most + (reach * most) ** 2
    within = np.exp(-(far**2) / (2.0 * (beyond * second + of_cells + largest * far / 3.0)))
    return float(np.min(within + beyond * np.exp(-reach)))

"""Closed-form intervals of the variance of numbers, from sums of reports and of their squares."""

from __future__ import annotations

from typing import cast

import numpy as np

from ldpbeam.domains import Floats, Numeric, bucket_midpoints
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.bounded import within_one
from ldpbeam.intervals.means import report_moments
from ldpbeam.mechanisms import NumericMechanism

#: The mean squares of reports and of their buckets' midpoints differ by at most this part, or the buckets are
#: too coarse to compute a variance from.
COARSE = 0.02
#: With a smaller coefficient, a report's square says nothing of the value's square.
LEAST = 1e-6


def variance_interval(question: Question, shares: Floats, level: float) -> tuple[float, float] | None:
    """The interval of the variance of all people who reported, in the attribute's unit squared.

    A report's variance given x is c0 + c1 x + c2 x^2, so (report^2 - c0 - c1 report)/(1 + c2) is an unbiased
    estimate of x^2 unless c2 = -1, as for signs. Services are weighted by the inverse of its noise.

    Args:
        question: what the estimate is of.
        shares: about the distribution of values, over equal buckets, for the variances of reports.
        level: the share of all samples in which the interval holds the truth.

    Returns:
        None if no service's reports say anything about squares, or if their buckets are too coarse.
    """
    firsts, squares, parts, counts, noises = [], [], [], [], []
    x = bucket_midpoints(len(shares))
    for index in question.versions:
        mechanism = cast(NumericMechanism, question.attribute.versions[index].mechanism)
        first, second = report_moments(question, index)
        c0, c1, c2 = mechanism.variance_polynomial
        reports = question.reports_of(index)
        cells = mechanism.unbiased(mechanism.representatives(question.attribute.buckets))
        seen = float(question.statistic.histograms[index] @ cells**2) / reports
        told = abs(1.0 + c2) > LEAST and abs(seen - second) < COARSE * second
        square = (cells**2 - c0 - c1 * cells) / (1.0 + c2) if told else np.zeros(len(cells))
        channel = mechanism.channel(len(shares), question.attribute.buckets)
        noises.append((cells, square, channel))
        firsts.append(first)
        squares.append((second - c0 - c1 * first) / (1.0 + c2) if told else 0.0)
        parts.append(
            (
                1.0 / float(shares @ mechanism.variance(x)),
                1.0 / _noise(square, channel, shares) if told else 0.0,
            )
        )
        counts.append(reports)
    sizes = np.array(counts, dtype=np.float64)
    weights = np.array(parts) * sizes[:, None]
    if weights[:, 1].sum() <= 0.0:
        return None
    of_mean, of_square = (weights / weights.sum(axis=0)).T
    mean = float(of_mean @ firsts)
    variance = 0.0
    for (cells, square, channel), a, b, n in zip(noises, of_square, of_mean, sizes, strict=True):
        variance += _noise(a * square - 2.0 * mean * b * cells, channel, shares) / n
    unequal = ((of_square - sizes / sizes.sum()) ** 2 / sizes).sum()
    variance += question.apart * unequal * float(shares @ (x - mean) ** 4 - (shares @ (x - mean) ** 2) ** 2)
    found = float(of_square @ squares) - mean**2
    # No variance on [0, 1] is above 1/4.
    ((low, high),) = 0.25 * within_one([4.0 * found], [4.0 * np.sqrt(variance)], level)
    width = cast(Numeric, question.attribute.domain).width
    return float(low) * width**2, float(high) * width**2


def _noise(told: Floats, channel: object, shares: Floats) -> float:
    """The mean variance, given the value, of what each report bucket tells."""
    first, second = channel.rmatvec(told), channel.rmatvec(told**2)  # type: ignore[attr-defined]
    return float(shares @ (second - first**2))

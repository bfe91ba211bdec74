"""Closed-form intervals of the variance of numbers, from sums of reports and of their squares."""

from __future__ import annotations

from typing import cast

import numpy as np

from ldpbeam.domains import Floats, Numeric, bucket_midpoints
from ldpbeam.estimators.by_user import variance_of
from ldpbeam.estimators.channel_means import ChannelMean, channel_mean, noise_at
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.bounded import within_one
from ldpbeam.joined_windows import JoinedCells
from ldpbeam.mechanisms import NumericMechanism

#: The mean squares of reports and of their buckets' midpoints differ by at most this part, or the buckets are
#: too coarse to compute a variance from.
COARSE = 0.02


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
    firsts, squares, parts, counts, noises, biases = [], [], [], [], [], []
    x = bucket_midpoints(len(shares))
    for index in question.versions:
        mechanism: NumericMechanism = question.mechanism(index)
        of_sums = channel_mean(question, index)
        cells, square = _values_of_cells(question, index, of_sums)
        channel = mechanism.channel(len(shares), question.attribute.buckets)
        factor = question.noise_factor(index)
        noises.append((cells, np.zeros(len(cells)) if square is None else square, channel, factor))
        firsts.append(of_sums.first)
        squares.append(0.0 if square is None else of_sums.square)
        parts.append(
            (
                1.0 / float(shares @ noise_at(mechanism, question.attribute.buckets, x)),
                0.0 if square is None else 1.0 / _noise(square, channel, shares),
            )
        )
        biases.append((of_sums.bias, of_sums.scores.second.bias if of_sums.scores else 0.0))
        counts.append(of_sums.reports)
    sizes = np.array(counts, dtype=np.float64)
    weights = np.array(parts) * sizes[:, None]
    if weights[:, 1].sum() <= 0.0:
        return None
    of_mean, of_square = (weights / weights.sum(axis=0)).T
    mean = float(of_mean @ firsts)
    variance = 0.0
    for (cells, square, channel, factor), a, b, n in zip(noises, of_square, of_mean, sizes, strict=True):
        variance += factor * _noise(a * square - 2.0 * mean * b * cells, channel, shares) / n
    unequal = ((of_square - sizes / sizes.sum()) ** 2 / sizes).sum()
    variance += (
        question.repeats
        * question.apart
        * unequal
        * float(shares @ (x - mean) ** 4 - (shares @ (x - mean) ** 2) ** 2)
    )
    joined = question.statistic.joined
    if isinstance(joined, JoinedCells):
        ((cells, square, channel, _),) = noises
        numbers = square - 2.0 * mean * cells
        variance = variance_of(joined, numbers, _noise(numbers, channel, shares))
    estimated = float(of_square @ squares) - mean**2
    # No variance on [0, 1] is above 1/4.
    ((low, high),) = 0.25 * within_one([4.0 * estimated], [4.0 * np.sqrt(variance)], level)
    bias = float(of_square @ np.array(biases)[:, 1] + 2.0 * abs(mean) * (of_mean @ np.array(biases)[:, 0]))
    low, high = max(low - bias, 0.0), min(high + bias, 0.25)
    width = cast(Numeric, question.attribute.domain).width
    return float(low) * width**2, float(high) * width**2


def _values_of_cells(question: Question, index: int, of_sums: ChannelMean) -> tuple[Floats, Floats | None]:
    """What each report bucket says of x and of x^2; None for x^2 if buckets say nothing or are too coarse."""
    resolution = question.attribute.buckets
    mechanism = cast(NumericMechanism, of_sums.mechanism)
    if of_sums.scores:
        return of_sums.scores.first.cells, of_sums.scores.second.cells
    c0, c1, c2 = mechanism.variance_polynomial
    cells = mechanism.unbiased(mechanism.representatives(resolution))
    seen = float(question.statistic.histograms[index] @ cells**2) / of_sums.reports
    if of_sums.square is None or abs(seen - of_sums.second) >= COARSE * of_sums.second:
        return cells, None
    return cells, (cells**2 - c0 - c1 * cells) / (1.0 + c2)


def _noise(values: Floats, channel: object, shares: Floats) -> float:
    """The mean variance, given the value, of what each report bucket tells."""
    first, second = channel.rmatvec(values), channel.rmatvec(values**2)  # type: ignore[attr-defined]
    return float(shares @ (second - first**2))

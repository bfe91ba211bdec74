"""Closed-form intervals of the variance of numbers, from sums of reports and of their squares."""

from __future__ import annotations

from typing import cast

import numpy as np

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators.channel_means import ChannelMean, channel_mean, noise_at
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.bounded import within_one
from ldpbeam.over_time.joined_windows import JoinedCells
from ldpbeam.over_time.variance_by_user import variance_of

#: If the mean squares of reports and of their buckets' midpoints differ by more than this part, the buckets
#: are too coarse for a variance.
COARSE = 0.02


def variance_interval(question: Question, shares: Floats, level: float) -> tuple[float, float] | None:
    """The interval of the variance of all people who reported, in the attribute's unit squared.

    A report's variance given x is c0 + c1 x + c2 x^2, so (report^2 - c0 - c1 report)/(1 + c2) is an unbiased
    estimate of x^2 unless c2 = -1, as for signs. Services are weighted by the inverse of its noise.

    Args:
        question: the question of the estimate.
        shares: the approximate distribution of values over equal buckets, for the variances of reports.
        level: the share of all samples in which the interval contains the truth.

    Returns:
        None if no service's reports say anything about squares, or if their buckets are too coarse.
    """
    domain, resolution = cast(Numeric, question.attribute.domain), question.attribute.buckets
    x = domain.middles(len(shares))
    parts, precisions = [], []
    for index in question.versions:
        of_sums = channel_mean(question, index)
        cells, squares = _values_of_cells(question, index, of_sums)
        channel = question.attribute.report_channel(index, resolution, len(shares))
        parts.append((cells, squares, channel, question.noise_factor(index), of_sums))
        first = 1.0 / float(shares @ noise_at(of_sums.mechanism, resolution, x))
        precisions.append((first, 1.0 / _noise(squares, channel, shares) if squares.any() else 0.0))
    sums = [of_sums for *_, of_sums in parts]
    sizes = np.array([of_sums.reports for of_sums in sums], dtype=np.float64)
    weights = np.array(precisions) * sizes[:, None]
    if weights[:, 1].sum() <= 0.0:
        return None
    of_mean, of_square = (weights / weights.sum(axis=0)).T
    mean = float(of_mean @ [of_sums.first for of_sums in sums])
    variance = 0.0
    for (cells, squares, channel, factor, _), a, b, n in zip(parts, of_square, of_mean, sizes, strict=True):
        variance += factor * _noise(a * squares - 2.0 * mean * b * cells, channel, shares) / n
    unequal = question.unevenness(dict(zip(question.versions, of_square / sizes, strict=True)))
    of_people = float(shares @ (x - mean) ** 4 - (shares @ (x - mean) ** 2) ** 2)
    variance += question.repeats * float(unequal) * of_people
    joined = question.statistic.joined
    if isinstance(joined, JoinedCells):
        ((cells, squares, channel, *_),) = parts
        numbers = squares - 2.0 * mean * cells
        variance = variance_of(joined, numbers, _noise(numbers, channel, shares))
    estimated = float(of_square @ [of_sums.square or 0.0 for of_sums in sums]) - mean**2
    # No variance on [0, 1] is above 1/4.
    ((low, high),) = 0.25 * within_one([4.0 * estimated], [4.0 * np.sqrt(variance)], level)
    biases = [of_sums.scores.second.bias if of_sums.scores else 0.0 for of_sums in sums]
    bias = float(of_square @ biases + 2.0 * abs(mean) * (of_mean @ [of_sums.bias for of_sums in sums]))
    low, high = max(low - bias, 0.0), min(high + bias, 0.25)
    return float(low) * domain.width**2, float(high) * domain.width**2


def _values_of_cells(question: Question, index: int, of_sums: ChannelMean) -> tuple[Floats, Floats]:
    """The estimates of x and x^2 by report bucket; zeros if none says anything of x^2 or all are coarse."""
    if of_sums.scores:
        return of_sums.scores.first.cells, of_sums.scores.second.cells
    mechanism = of_sums.mechanism
    c0, c1, c2 = mechanism.variance_polynomial
    cells = mechanism.unbiased(mechanism.representatives(question.attribute.buckets))
    seen = float(question.statistic.histograms[index] @ cells**2) / of_sums.reports
    if of_sums.square is None or abs(seen - of_sums.second) >= COARSE * of_sums.second:
        return cells, np.zeros(len(cells))
    return cells, (cells**2 - c0 - c1 * cells) / (1.0 + c2)


def _noise(values: Floats, channel: Channel, shares: Floats) -> float:
    """The mean, over values, of the variance of an estimate by report bucket."""
    first, second = channel.rmatvec(values), channel.rmatvec(values**2)
    return float(shares @ (second - first**2))

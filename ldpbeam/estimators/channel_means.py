"""What one channel's reports say of its people's mean, and of their mean square, on [0, 1].

Most mechanisms send numbers from a bounded range, whose exact sums are used. If a mechanism's noise has a
tail, the scores of the histogram are used instead (:mod:`ldpbeam.estimators.scores`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.scores import Scores, scores
from ldpbeam.mechanisms import NumericMechanism, UnbiasedMechanism

#: Below this coefficient, a report's square says nothing of the value's square.
LEAST = 1e-6


@dataclass(frozen=True)
class ChannelMean:
    """Means over the reports of one channel.

    Attributes:
        mechanism: the channel's mechanism.
        scores: the scores that stand for reports; None if the sums of reports are used.
        reports: the number of reports, above zero.
        first: the mean of the unbiased numbers.
        second: the mean of their squares.
    """

    mechanism: UnbiasedMechanism
    scores: Scores | None
    reports: int
    first: float
    second: float
    _square: float | None

    @property
    def bias(self) -> float:
        """The largest possible bias of ``first``."""
        return self.scores.first.bias if self.scores else 0.0

    @property
    def square(self) -> float | None:
        """An unbiased estimate of the mean of x^2; None if reports say nothing of it, as with SR."""
        if self.scores:
            return self._square
        c0, c1, c2 = self.mechanism.variance_polynomial
        if abs(1.0 + c2) <= LEAST:
            return None
        return (self.second - c0 - c1 * self.first) / (1.0 + c2)

    @property
    def square_weight(self) -> float:
        """About one over the variance of ``square``, if reports are far larger than the values."""
        c2 = 0.0 if self.scores else self.mechanism.variance_polynomial[2]
        return self.reports * ((1.0 + c2) / self.second) ** 2

    def noise(self, mean: float, square: float) -> float:
        """The mean noise variance of a number, for people with this mean and mean square."""
        if self.scores:
            noise = self.scores.first.noise
            return float(np.clip(self.second - square, noise.min(), noise.max()))
        c0, c1, c2 = self.mechanism.variance_polynomial
        return max(c0 + c1 * mean + c2 * square, 1e-12)


def channel_mean(question: Question, index: int) -> ChannelMean:
    """The means of a channel that has reports."""
    mechanism: UnbiasedMechanism = question.mechanism(index)
    histogram, reports = question.statistic.histograms[index], question.reports_of(index)
    scores = scores_of(mechanism, question.attribute.buckets)
    if scores is not None:
        first, second = scores.first.mean(histogram), scores.first.mean_square(histogram)
        return ChannelMean(mechanism, scores, reports, first, second, scores.second.mean(histogram))
    moments = question.statistic.moments_of(index)
    step = mechanism.fixed_point_step
    first = sum(moment.sums[index] for moment in moments) * step / reports
    second = sum(moment.squares[index] for moment in moments) * step**2 / reports
    slope, intercept = mechanism.unbiased_map
    second = slope**2 * second + 2.0 * slope * intercept * first + intercept**2
    return ChannelMean(mechanism, None, reports, slope * first + intercept, second, None)


def scores_of(mechanism: UnbiasedMechanism, resolution: int) -> Scores | None:
    """The scores of a mechanism whose noise has a tail; None for another."""
    return scores(mechanism, resolution) if isinstance(mechanism, NumericMechanism) else None


def extremes(mechanism: UnbiasedMechanism, resolution: int) -> tuple[float, float]:
    """The least and the greatest unbiased number of one report."""
    scores = scores_of(mechanism, resolution)
    if scores is not None:
        numbers = scores.first.cells
    elif isinstance(mechanism, NumericMechanism):
        numbers = mechanism.unbiased(mechanism.report_range)
    else:
        numbers = mechanism.unbiased(mechanism.representatives(resolution))
    return float(numbers.min()), float(numbers.max())


def noise_at(mechanism: UnbiasedMechanism, resolution: int, x: Floats) -> Floats:
    """The variance of the unbiased number of a report given each value x in [0, 1]."""
    scores = scores_of(mechanism, resolution)
    return mechanism.variance(x) if scores is None else scores.first.noise_at(x)


def least_noise(mechanism: UnbiasedMechanism, resolution: int) -> float:
    """The least of :func:`noise_at` over all values."""
    scores = scores_of(mechanism, resolution)
    return mechanism.least_variance if scores is None else float(scores.first.noise.min())

"""Closed-form intervals of the mean, from sums of unbiased reports and of their squares."""

from __future__ import annotations

from typing import cast

import numpy as np

from ldpbeam.certainty import Intervals, by_condition
from ldpbeam.domains import Numeric
from ldpbeam.estimators.channel_means import channel_mean, extremes
from ldpbeam.estimators.means import far_outside
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.several_windows import mean_variance
from ldpbeam.intervals.answer import UNBIASED_SUMS, WantedIntervals
from ldpbeam.intervals.any_look import within_one_at_any_look
from ldpbeam.intervals.bounded import within_one
from ldpbeam.intervals.liars import hull, moved, trust
from ldpbeam.mechanisms import NumericMechanism
from ldpbeam.over_time.joined_windows import JoinedCells


def has_sums(question: Question) -> bool:
    """Whether the statistic has, for every channel in use, sums that are unbiased for the mean."""
    domain = question.attribute.domain
    if isinstance(domain, Numeric) and domain.scale is not None:
        return False
    return all(isinstance(mechanism, NumericMechanism) for mechanism in question.mechanisms)


def mean_interval(question: Question, wanted: WantedIntervals) -> Intervals:
    """The interval of the mean of all people who reported, in the attribute's unit, within the domain.

    It has a flag if the mean of the reports lies outside the domain by more than noise explains.

    Services are weighted by the inverse of their noise variance. The mean of the reports' squares gives the
    mean of x squared, unless a report's square is the same for every x (SR); such a channel uses what the
    others say. If none says anything, x squared is that of the one value for which the noise is largest. If
    services asked different people, the variance of people's values is added to the noise. Weights that count
    some people more than others add a sampling error. If users' windows are joined, the variance is by user.
    """
    channels = [channel_mean(question, index) for index in question.versions]
    means = np.array([channel.first for channel in channels])
    precisions = np.array([channel.reports / channel.noise(0.5, 1.0 / 3.0) for channel in channels])
    mean = float(np.clip(precisions @ means / precisions.sum(), 0.0, 1.0))
    squared = [(channel.square, channel.square_weight) for channel in channels if channel.square is not None]
    squares, square_weights = np.array(squared).reshape(-1, 2).T
    square = float(np.average(squares, weights=square_weights)) if squared else mean**2
    square = float(np.clip(square, mean**2, mean))
    noise = np.array([channel.noise(mean, square) for channel in channels])
    noise *= [question.noise_factor(index) for index in question.versions]
    spread = square - mean**2
    counts = np.array([channel.reports for channel in channels], dtype=np.float64)
    weights = counts / (noise + question.apart * spread)
    false = np.array([question.false_share([index], wanted.liars) for index in question.versions])
    weights = weights * trust(false)
    parts = weights / weights.sum()
    variance = ((parts / (1.0 - false)) ** 2 * noise / counts).sum()
    of_reports = dict(zip(question.versions, parts / counts, strict=True))
    variance += question.repeats * spread * question.unevenness(of_reports)
    if isinstance(question.statistic.joined, JoinedCells):
        variance = mean_variance(question, question.statistic.joined)
    mean, error = float(parts @ means), float(np.sqrt(variance))
    reach = [extremes(mechanism, question.attribute.buckets) for mechanism in question.mechanisms]
    least, most = np.array(reach).T
    down, up = (parts @ own for own in moved(means, least, most, false))
    level, narrowest = wanted.level, wanted.any_look
    both = np.concatenate(
        [
            hull(ends_of, np.array([mean]), down, up)
            for ends_of in (
                lambda at: within_one(at, [error], level),
                lambda at: within_one_at_any_look(at, [error], level, question.reports, narrowest),
            )
        ]
    )
    # The remaining bias of channels whose noise has a tail.
    bias = float(parts @ [channel.bias for channel in channels])
    domain = cast(Numeric, question.attribute.domain)
    ends, at_any_look = domain.from_unit(np.clip(both + [-bias, bias], 0.0, 1.0))
    flag = far_outside(domain, mean, error)
    return Intervals(
        level,
        ends=by_condition(certain={"mean": ends}, any_look={"mean": at_any_look}),
        narrowest=narrowest,
        methods={"mean": UNBIASED_SUMS},
        flags={"certain": flag} if flag else {},
    )

"""Closed-form intervals of categories' shares, from their unbiased estimates."""

from __future__ import annotations

import numpy as np

from ldpbeam.certainty import Intervals, by_condition
from ldpbeam.domains import Candidates, Floats
from ldpbeam.estimators.frequencies import channel_shares
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import WantedIntervals, each_level
from ldpbeam.intervals.any_look import within_one_at_any_look
from ldpbeam.intervals.bounded import within_one
from ldpbeam.intervals.liars import hull, moved, trust
from ldpbeam.mechanisms import CategoricalMechanism
from ldpbeam.over_time.joined_windows import JoinedSupports

#: How the intervals are computed, in words.
UNBIASED_SHARES = "unbiased shares and their variance, within [0, 1]"
#: If the sum of shares is closer to one than this, the mechanism makes it one.
SUM_ERROR = 1e-9


def of_shares(question: Question, wanted: WantedIntervals) -> Intervals:
    """The intervals of each category's share, and those that also hold for the largest share."""
    shares, errors, down, up = _shares(question, wanted.liars)
    domain = question.attribute.domain
    if isinstance(domain, Candidates):
        down, up = domain.of_names(down), domain.of_names(up)
        shares, errors = _of_names(domain, shares, errors)
    many = len(shares)
    each, all_ = (each_level(wanted.level, many, at_once) for at_once in (wanted.simultaneous, True))
    ends, largest, at_any_look = (
        hull(ends_of, shares, down, up)
        for ends_of in (
            lambda at: within_one(at, errors, each),
            lambda at: within_one(at, errors, all_),
            lambda at: within_one_at_any_look(at, errors, each, question.reports, wanted.any_look),
        )
    )
    return Intervals(
        wanted.level,
        ends=by_condition(
            certain={"frequencies": ends},
            any_look={"frequencies": at_any_look},
            largest={"frequencies": largest},
        ),
        narrowest=wanted.any_look,
        methods={"frequencies": UNBIASED_SHARES},
    )


def _of_names(domain: Candidates, shares: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """The shares of names and their standard errors, from those of places.

    The covariance of two unbiased shares is zero or below, so the variance of a sum is at most the sum of
    variances. If all shares sum to one, the share of others is also what the names leave.
    """
    variances, whole = domain.of_names(errors**2), abs(float(shares.sum()) - 1.0) < SUM_ERROR
    named = len(domain.place_of_name)
    if whole and named < domain.places:
        variances[-1] = min(variances[-1], variances[:named].sum())
    return domain.of_names(shares), np.sqrt(variances)


def _shares(question: Question, liars: float) -> tuple[Floats, Floats, Floats, Floats]:
    """(the unbiased shares of all who reported, their errors, how far down and up liars may move them).

    The services' unbiased shares are weighted as in
    :func:`ldpbeam.estimators.frequencies.unbiased_shares`. Weights that count some people more than others
    add a sampling error. If clients remember their noise over several windows, we assume the fewest people
    that can have sent the reports. If windows are joined by user, the variance is that by user, or that of
    independent reports if it is larger.
    """
    channels = list(channel_shares(question))
    false = np.array([question.false_share([channel.index], liars) for channel in channels])
    weights = np.array([channel.precision for channel in channels]) * trust(false)
    counts, parts = [channel.reports for channel in channels], weights / sum(weights.tolist())
    shares = parts @ np.array([channel.shares for channel in channels])
    likely = np.clip(shares, 0.0, 1.0)
    of_reports = {channel.index: part for channel, part in zip(channels, parts / counts, strict=True)}
    variance = question.repeats * question.unevenness(of_reports) * likely * (1.0 - likely)
    down, up = np.zeros((2, len(shares)))
    for channel, part, lied in zip(channels, parts, false, strict=True):
        mechanism: CategoricalMechanism = question.mechanism(channel.index)
        noise = mechanism.share_variances(likely, question.statistic.histograms[channel.index])
        noise = noise * question.share_factors(channel.index, likely)
        variance = variance + (part / (1.0 - lied)) ** 2 * noise / channel.reports
        if lied:
            lower, higher = moved(channel.shares, *mechanism.extremes, lied)
            down, up = down + part * lower, up + part * higher
    joined = question.statistic.joined
    if isinstance(joined, JoinedSupports):
        (channel,) = channels
        mechanism = question.mechanism(channel.index)
        p, q = mechanism.support_probabilities or (1.0, 0.0)
        by_user: Floats = joined.variances / (joined.reports * (p - q)) ** 2
        variance = np.maximum(variance, by_user * mechanism.collisions)
    return shares, np.sqrt(variance), down, up

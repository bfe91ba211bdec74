"""Closed-form intervals of categories' shares, from their unbiased estimates."""

from __future__ import annotations

from typing import cast

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.bounded import each_level, within_one
from ldpbeam.joined_windows import JoinedSupports
from ldpbeam.mechanisms import CategoricalMechanism


def shares_interval(question: Question, level: float, simultaneous: bool) -> Floats:
    """Intervals of the shares of all people who reported, shape (categories, 2).

    The services' unbiased shares are weighted as in
    :func:`ldpbeam.estimators.frequencies.unbiased_shares`. If services asked different people, a weight that
    is not a service's share of the people adds a sampling error. Of several windows, clients that remember
    their noise are taken to be the fewest people that can have sent the reports. Where windows are joined by
    user, the variance is that by user, and the one of independent reports if that is larger.
    """
    frequencies, weights, counts, noises = [], [], [], []
    for index in question.versions:
        mechanism = cast(CategoricalMechanism, question.attribute.versions[index].mechanism)
        reports = question.reports_of(index)
        sampling = question.apart * (1.0 - 1.0 / mechanism.bins) / mechanism.bins
        frequencies.append(mechanism.unbiased_frequencies(question.statistic.histograms[index], reports))
        weights.append(reports / (mechanism.frequency_variance + sampling))
        counts.append(reports)
        noises.append((mechanism, question.statistic.histograms[index], index))
    parts, people = np.array(weights) / sum(weights), np.array(counts) / sum(counts)
    shares = parts @ np.array(frequencies)
    likely = np.clip(shares, 0.0, 1.0)
    sampling = question.repeats * question.apart * ((parts - people) ** 2 / counts).sum()
    variance = sampling * likely * (1.0 - likely)
    for (mechanism, histogram, index), part, reports in zip(noises, parts, counts, strict=True):
        noise = mechanism.share_variances(likely, histogram) * question.share_factors(index, likely)
        variance = variance + part**2 * noise / reports
    joined = question.statistic.joined
    if isinstance(joined, JoinedSupports):
        variance = np.maximum(variance, _by_user(noises[0][0], joined))
    return within_one(shares, np.sqrt(variance), each_level(level, len(shares), simultaneous))


def _by_user(mechanism: CategoricalMechanism, joined: JoinedSupports) -> Floats:
    """The variance by user of the share of each category, shape (categories,)."""
    p, q = mechanism.support_probabilities or (1.0, 0.0)
    variances: Floats = joined.variances / (joined.reports * (p - q)) ** 2
    return variances * mechanism.collisions

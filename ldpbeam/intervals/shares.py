"""Closed-form intervals of categories' shares, from their unbiased estimates."""

from __future__ import annotations

from typing import cast

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.bounded import each_level, within_one
from ldpbeam.mechanisms import FrequencyMechanism, LocalHashing, RandomisedResponse, UnaryEncoding

#: Up to this many products of a cell and a category, the variance is computed from the channel.
MOST_ENTRIES = 2**20


def variances(mechanism: FrequencyMechanism, shares: Floats) -> Floats:
    """The variance of each unbiased share, times the number of reports, given what people have.

    Args:
        mechanism: the mechanism of the reports.
        shares: about the shares that people have, shape (bins,).
    """
    if isinstance(mechanism, RandomisedResponse | UnaryEncoding | LocalHashing):
        # A share is (C/n - q)/(p - q), and C is a sum of independent counts of people with and without.
        own, other = mechanism.probabilities
        if isinstance(mechanism, LocalHashing):
            other = 1.0 / mechanism.hashes
        spread = shares * own * (1.0 - own) + (1.0 - shares) * other * (1.0 - other)
        plain: Floats = spread / (own - other) ** 2
        rare = other * (1.0 - other) / (own - other) ** 2
        # A family of seeds adds a factor, which the mechanism knows for a rare category.
        return plain * (mechanism.frequency_variance / rare)
    cells = mechanism.cells(0)
    if cells * mechanism.bins > MOST_ENTRIES:
        return np.full(len(shares), mechanism.frequency_variance)
    ones = np.eye(cells, dtype=np.int64)
    said = np.stack([mechanism.unbiased_frequencies(one, 1) for one in ones], axis=1)
    channel = mechanism.channel(mechanism.bins, 0).dense()
    of_people: Floats = said**2 @ channel - (said @ channel) ** 2
    return of_people @ shares


def shares_interval(question: Question, level: float, simultaneous: bool) -> Floats:
    """Intervals of the shares of all people who reported, shape (categories, 2).

    The services' unbiased shares are weighted as in
    :func:`ldpbeam.estimators.frequencies.unbiased_shares`. If services asked different people, a weight that
    is not a service's share of the people adds a sampling error.
    """
    told, weights, counts, mechanisms = [], [], [], []
    for index in question.versions:
        mechanism = cast(FrequencyMechanism, question.attribute.versions[index].mechanism)
        reports = question.reports_of(index)
        sampling = question.apart * (1.0 - 1.0 / mechanism.bins) / mechanism.bins
        told.append(mechanism.unbiased_frequencies(question.statistic.histograms[index], reports))
        weights.append(reports / (mechanism.frequency_variance + sampling))
        counts.append(reports)
        mechanisms.append(mechanism)
    parts, people = np.array(weights) / sum(weights), np.array(counts) / sum(counts)
    shares = parts @ np.array(told)
    likely = np.clip(shares, 0.0, 1.0)
    variance = question.apart * ((parts - people) ** 2 / counts).sum() * likely * (1.0 - likely)
    for mechanism, part, reports in zip(mechanisms, parts, counts, strict=True):
        variance = variance + part**2 * variances(mechanism, likely) / reports
    return within_one(shares, np.sqrt(variance), each_level(level, len(shares), simultaneous))

"""How far fake users can move an estimate that is a mean of one number per report.

If m of n users are fake, the expected estimate moves from that of the honest people by m/n times the distance
of the fake reports' numbers from it. This is bounded whatever the honest people have and the fake users send.
Estimators that are no such means (EM, EMS, ``auto``) have no such bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Numeric
from ldpbeam.estimators.channel_means import noise_at, scores_of
from ldpbeam.mechanisms import CategoricalMechanism, NumericMechanism, UnbiasedMechanism

#: Up to this many products of a kind of report and a category, all reports are tried.
MOST_ENTRIES = 2**22
#: Estimators whose mean, or whose shares, are a mean over reports; and the projection of such shares.
MEANS, SHARES, PROJECTED = ("ivw", "ua"), ("inversion",), ("norm_sub",)


def influence(attribute: Attribute, estimator: str, services: Sequence[str]) -> float | None:
    """The most by which fake users move an estimate, divided by their share of all users.

    Of a number, it is the mean that moves, in the attribute's unit; of categories, any one share. Everybody
    reports to each of the services; a service with versions counts with the last of them. The weights of
    several services are those of evenly spread values.

    Returns:
        None for an estimator without such a bound, or with too many categories to try every report.
    """
    newest = [attribute.versions_of([service])[-1] for service in services]
    mechanisms = [attribute.versions[index].mechanism for index in newest]
    if isinstance(attribute.domain, Numeric) and estimator in MEANS:
        unbiased = [mechanism for mechanism in mechanisms if isinstance(mechanism, UnbiasedMechanism)]
        if len(unbiased) < len(mechanisms):
            return None
        x = np.linspace(0.0, 1.0, 101)
        noise = [float(noise_at(mechanism, attribute.buckets, x).mean()) for mechanism in unbiased]
        weights = np.array([1.0 / variance if estimator == "ivw" else 1.0 for variance in noise])
        reaches = [_of_mean(mechanism, attribute.buckets) for mechanism in unbiased]
        return float(weights @ reaches / weights.sum()) * attribute.domain.width
    if isinstance(attribute.domain, Categories) and estimator in SHARES + PROJECTED:
        frequency = [mechanism for mechanism in mechanisms if isinstance(mechanism, CategoricalMechanism)]
        if len(frequency) < len(mechanisms):
            return None
        weights = np.array([1.0 / mechanism.frequency_variance for mechanism in frequency])
        influences = [_of_shares(mechanism, together=estimator in PROJECTED) for mechanism in frequency]
        return float(weights @ influences / weights.sum()) if all(map(math.isfinite, influences)) else None
    return None


def _of_mean(mechanism: UnbiasedMechanism, resolution: int) -> float:
    """The largest distance of a report's number and the mean of honest people, which lies in [0, 1]."""
    scores = scores_of(mechanism, resolution)
    if scores is not None:
        numbers = scores.first.cells
    elif isinstance(mechanism, NumericMechanism):
        numbers = mechanism.unbiased(mechanism.report_range)
    else:
        numbers = mechanism.unbiased(mechanism.representatives(resolution))
    return max(float(numbers.max()), 1.0 - float(numbers.min()))


def _of_shares(mechanism: CategoricalMechanism, *, together: bool) -> float:
    """The largest distance of a report's share of a category and that of honest people, in [0, 1].

    With ``together`` it is the root of the sum of squares over categories. The projection on the
    distributions moves no two points apart, so no share of Norm-Sub moves further.
    """
    if mechanism.composite:
        if mechanism.support_probabilities is None:
            return math.inf
        # A report may support any categories.
        p, q = mechanism.support_probabilities
        high, low = (1.0 - q) / (p - q), -q / (p - q)
        farthest = max(high, 1.0 - low)
        return math.sqrt((mechanism.size - 1) * max(high, -low) ** 2 + farthest**2) if together else farthest
    if mechanism.cells(0) * mechanism.size > MOST_ENTRIES:
        return math.inf
    said = mechanism.shares_of_reports()
    if not together:
        return max(float(said.max()), 1.0 - float(said.min()))
    # The furthest distribution from a report's shares has everybody in the category with the least share.
    return float(np.sqrt((said**2).sum(axis=1) + 1.0 - 2.0 * said.min(axis=1)).max())

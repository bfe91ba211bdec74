"""How far fake users can move an estimate that is a mean of one number per report.

If m of n users are fake, the expected estimate moves away from that of the honest people: by m/n times the
distance of the fake reports' numbers from it, times their weight relative to an honest report. This is
bounded, whatever honest people have and fake users send. Estimators that are not such means (EM, EMS,
``auto``) have no such bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Numeric
from ldpbeam.estimators.channel_means import extremes, least_noise, noise_at
from ldpbeam.mechanisms import CategoricalMechanism, Mechanism, UnbiasedMechanism
from ldpbeam.mechanisms.categories.mechanism import MOST_TRIED

#: Estimators whose mean is a mean over reports; those whose shares are; and the projection of such shares.
MEANS, SHARES, PROJECTED = ("ivw", "ua"), ("inversion",), ("norm_sub",)


class _Report(NamedTuple):
    """The effect of a false report of one version.

    Attributes:
        reach: the largest distance of its number from that of honest people; infinite without a bound.
        least: the least noise of the version's reports, over all values.
        most: the greatest noise of the version's reports.
    """

    reach: float
    least: float
    most: float


def influence(attribute: Attribute, estimator: str, services: Sequence[str]) -> float | None:
    """The most by which fake users move an estimate, divided by their share of all users.

    For numbers, the mean moves, in the attribute's unit; for categories, any one share. Everybody reports
    once to each of the services, honest people to its last version. Fake users may report to any version, or
    to one service alone.

    Returns:
        None for an estimator without such a bound, or with too many categories to try every report.
    """
    of_services = []
    for service in services:
        versions = [attribute.versions[index].mechanism for index in attribute.versions_of([service])]
        reports = [
            _report(attribute, mechanism, estimator, alone=len(services) == 1) for mechanism in versions
        ]
        if not all(math.isfinite(report.reach) for report in reports):
            return None
        *older, newest = reports
        # A report's weight is one over its noise, so one of a version with less noise counts as several.
        heavier = [report.reach * max(1.0, newest.most / report.least) for report in older]
        of_services.append(newest._replace(reach=max([newest.reach, *heavier])))
    reaches, least, most = np.array(of_services).T
    # The weights of services depend on people's values. For ua all users have one weight, even those who
    # report to the noisiest service alone.
    moved = max(
        float(np.average(reaches, weights=np.where(reaches >= reach, 1.0 / least, 1.0 / most)))
        for reach in reaches
    )
    moved = float(reaches.max()) if estimator == "ua" else moved
    return moved * (attribute.domain.width if isinstance(attribute.domain, Numeric) else 1.0)


def _report(attribute: Attribute, mechanism: Mechanism, estimator: str, *, alone: bool) -> _Report:
    numbers, categories = isinstance(attribute.domain, Numeric), isinstance(attribute.domain, Categories)
    if numbers and estimator in MEANS and isinstance(mechanism, UnbiasedMechanism):
        noise = noise_at(mechanism, attribute.buckets, np.linspace(0.0, 1.0, 101))
        least, most = least_noise(mechanism, attribute.buckets), float(noise.max())
        reach = _of_mean(mechanism, attribute.buckets)
        return _Report(reach, 1.0, 1.0) if estimator == "ua" else _Report(reach, least, most)
    if categories and estimator in SHARES + PROJECTED and isinstance(mechanism, CategoricalMechanism):
        # If no user answers two services, the weights also have the sampling variance of a share.
        variance = mechanism.frequency_variance + alone * (1.0 - 1.0 / mechanism.size) / mechanism.size
        return _Report(_of_shares(mechanism, together=estimator in PROJECTED), variance, variance)
    return _Report(math.inf, 1.0, 1.0)


def _of_mean(mechanism: UnbiasedMechanism, resolution: int) -> float:
    """The largest distance between a report's number and the mean of honest people, which lies in [0, 1]."""
    least, most = extremes(mechanism, resolution)
    return max(most, 1.0 - least)


def _of_shares(mechanism: CategoricalMechanism, *, together: bool) -> float:
    """The largest distance between a report's share of a category and that of honest people, in [0, 1].

    With ``together`` it is the root of the sum of squares over categories. The projection on the
    distributions moves no two points apart, so no share of Norm-Sub moves further.
    """
    if not mechanism.composite and mechanism.cells(0) * mechanism.size > MOST_TRIED:
        return math.inf
    low, high = mechanism.extremes
    farthest = max(high, 1.0 - low)
    if not together or math.isinf(farthest):
        return farthest
    if mechanism.composite:
        return math.sqrt((mechanism.size - 1) * max(high, -low) ** 2 + farthest**2)
    said = mechanism.shares_of_reports()
    # The furthest distribution from a report's shares has everybody in the category with the least share.
    return float(np.sqrt((said**2).sum(axis=1) + 1.0 - 2.0 * said.min(axis=1)).max())

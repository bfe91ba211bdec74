"""How precise an estimate can be, before any report is collected: standard errors from Fisher information.

A standard error here is that of the perturbation: the truth is the mean, or the share, of the people who
report. It falls with the square root of the number of people.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Floats, Numeric, bucket_midpoints
from ldpbeam.estimators.channel_means import noise_at
from ldpbeam.mechanisms import FrequencyMechanism, UnbiasedMechanism
from ldpbeam.planning.planning_options import MOST_USERS
from ldpbeam.resolution import populations

#: Matrices of Fisher information have at most this many rows, or as many as mechanisms have bins; more value
#: buckets hardly change an error.
MOST_BUCKETS = 256
#: With more bins than this, Fisher information takes minutes.
MOST_BINS = 1024
#: A direction with less than this share of the greatest information counts as one without any.
NOTHING = 1e-9
#: Estimators whose mean is the mean of unbiased reports.
OF_UNBIASED_REPORTS = ("ivw", "ua", "uwa")


@dataclass(frozen=True)
class Precision:
    """The standard error of one quantity, times the square root of the number of people.

    Attributes:
        quantity: the estimated quantity: ``mean``, or ``rare share`` (of a category that few people have).
        best: the error for the most favourable of a few populations, in the attribute's unit.
        worst: the error for the least favourable one.
        source: how it was computed, in words.
    """

    quantity: str
    best: float
    worst: float
    source: str

    def error(self, users: int) -> tuple[float, float]:
        """The least and the greatest standard error with this number of people, one or more."""
        return self.best / math.sqrt(users), self.worst / math.sqrt(users)

    def users_for(self, error: float) -> int | None:
        """How many people an error of at most ``error``, above zero, needs in the worst population.

        Returns:
            One or more; None if :data:`MOST_USERS` people have a larger error.
        """
        if self.error(MOST_USERS)[1] > error:
            return None
        return max(math.ceil((self.worst / error) ** 2), 1)


def precision(attribute: Attribute, estimator: str, services: Sequence[str]) -> Precision | None:
    """The precision of an estimate, if everybody reports to each of the services.

    A service with versions counts with the last of them. None if there is no formula: for keys with values,
    for pairs, on a scale, and for more than :data:`MOST_BINS` bins.

    Args:
        attribute: the attribute of the estimate.
        estimator: the estimator's name.
        services: the services whose reports are used.
    """
    newest = list(map(attribute.newest, services))
    if isinstance(attribute.domain, Categories):
        return _of_shares(attribute, newest)
    # On a scale, an unbiased mean has many times the error of auto's mean.
    if not isinstance(attribute.domain, Numeric) or attribute.domain.scale:
        return None
    mechanisms = [attribute.versions[index].mechanism for index in newest]
    unbiased = [mechanism for mechanism in mechanisms if isinstance(mechanism, UnbiasedMechanism)]
    if estimator in OF_UNBIASED_REPORTS and len(unbiased) == len(mechanisms):
        variances = [
            _of_unbiased(unbiased, attribute.buckets, estimator, weights)
            for weights in populations(MOST_BUCKETS)
        ]
        source = "variance of unbiased reports"
    else:
        bins = math.lcm(*(mechanism.granularity for mechanism in mechanisms))
        if bins > MOST_BINS:
            return None
        # Mechanisms with bins need a multiple of the number of bins.
        buckets = bins * max(min(attribute.value_buckets, MOST_BUCKETS) // bins, 1)
        variances = [_of_likelihood(attribute, newest, weights) for weights in populations(buckets)]
        source = "Fisher information of the reports"
    errors = [math.sqrt(variance) * attribute.domain.width for variance in variances]
    return Precision("mean", min(errors), max(errors), source)


def _of_shares(attribute: Attribute, versions: Sequence[int]) -> Precision | None:
    information = 0.0
    for index in versions:
        mechanism = attribute.versions[index].mechanism
        if not isinstance(mechanism, FrequencyMechanism):
            return None
        information += 1.0 / mechanism.frequency_variance
    error = math.sqrt(1.0 / information)
    return Precision("rare share", error, error, "variance of unbiased shares")


def _of_unbiased(
    mechanisms: Sequence[UnbiasedMechanism], resolution: int, estimator: str, weights: Floats
) -> float:
    """The variance of the mean of everybody's unbiased reports, times people, on [0, 1]."""
    x = bucket_midpoints(len(weights))
    noise = np.array([weights @ noise_at(mechanism, resolution, x) for mechanism in mechanisms])
    if estimator == "ivw":
        return float(1.0 / (1.0 / noise).sum())
    return float(noise.sum() / len(noise) ** 2)


def _of_likelihood(attribute: Attribute, versions: Sequence[int], weights: Floats) -> float:
    """The least variance of an unbiased mean from the reports, times people, on [0, 1].

    With shares w of the value buckets and channels C, the Fisher information of one report per service is
    J = sum of C' diag(1 / Cw) C. An unbiased estimate of a'w, where a'w = 0, has at least the variance
    a' J^-1 a (Cramer and Rao). As shares sum to one, the bound does not change if the mean of each row of C
    is subtracted, which is nearly all of J at a small epsilon. Directions without information, such as the
    place of a value in its bin, are left out. The bound includes a'diag(w)a / services, the variance of the
    people who were asked; the rest is that of the perturbation.
    """
    buckets = len(weights)
    information = np.zeros((buckets, buckets))
    for index in versions:
        mechanism = attribute.versions[index].mechanism
        channel = mechanism.histogram_channel(buckets, attribute.buckets).dense()
        expected = channel @ weights
        held = expected > 0
        differences = (channel - channel.mean(axis=1, keepdims=True))[held]
        information += (differences / expected[held, None]).T @ differences
    x = bucket_midpoints(buckets)
    mean = float(weights @ x)
    centred = x - mean
    values, vectors = np.linalg.eigh(information)
    determined = values > NOTHING * values[-1]
    bound = float(((vectors[:, determined].T @ centred) ** 2 / values[determined]).sum())
    return max(bound - float(weights @ centred**2) / len(versions), 0.0)

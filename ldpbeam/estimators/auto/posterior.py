"""Draws of a distribution of numbers from its posterior, over all priors of ``auto``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.auto.averaging import Weighed, average
from ldpbeam.estimators.auto.laplace import log_posterior
from ldpbeam.estimators.auto.likelihood import Likelihood
from ldpbeam.estimators.auto.numbers import by_bucket, fit
from ldpbeam.estimators.question import Question

#: How many draws there are, how often each is moved, and the seed of both.
DRAWS, MOVES, SEED = 300, 8, 20140
#: A move that has not ended after so many attempts is left out.
ATTEMPTS = 20


@dataclass(frozen=True)
class Posterior:
    """The posterior of a distribution over value buckets.

    Attributes:
        shares: the estimate of ``auto``, shape (value buckets,).
        draws: distributions from the posterior, equally likely, shape (draws, value buckets).
    """

    shares: Floats
    draws: Floats


def posterior(question: Question) -> Posterior | None:
    """The posterior of an attribute of numbers; None where ``auto`` falls back to ``ems``.

    The draws are always the same for the same reports. They do not say how far smoothing misleads where the
    population is rougher than its prior.
    """
    fitted = fit(question)
    if fitted is None:
        return None
    likelihood, buckets = fitted.likelihood, question.attribute.value_buckets
    draws = sampled(likelihood, fitted.weighed, np.random.default_rng(SEED))
    return Posterior(
        by_bucket(average(fitted.weighed), likelihood, buckets), by_bucket(draws.T, likelihood, buckets)
    )


def sampled(likelihood: Likelihood, weighed: Sequence[Weighed], rng: np.random.Generator) -> Floats:
    """Distributions from the posterior, shape (blocks, :data:`DRAWS`)."""
    counts = _allotted(np.array([own.weight for own in weighed]), DRAWS)
    return np.hstack(
        [_moved(likelihood, own, count, rng) for own, count in zip(weighed, counts, strict=True) if count]
    )


def _allotted(weights: Floats, draws: int) -> Integers:
    """How many of the draws each prior gets, in proportion to its weight, to less than one draw."""
    ends = np.floor(np.cumsum(weights) / weights.sum() * draws + 0.5).astype(np.int64)
    counts: Integers = np.diff(ends, prepend=0)
    return counts


def _moved(likelihood: Likelihood, own: Weighed, draws: int, rng: np.random.Generator) -> Floats:
    """Distributions from the posterior under one prior, shape (blocks, draws), from chains at its mode.

    The chains are moved by elliptical slice sampling (Murray, Adams and MacKay, AISTATS 2010) in coordinates
    in which the posterior is standard normal to second order. What it is beyond that takes the place of the
    likelihood, as in Nishihara, Murray and Adams (J. Mach. Learn. Res. 2014). A move cannot be refused for
    ever, and it needs no step length. Where the posterior is far from normal, few moves leave the chains too
    near to the mode, and never in places that the reports exclude.
    """
    basis, shape = own.smoothness.basis(likelihood.sizes), (len(own.mode.coefficients), draws)

    def beyond(places: Floats) -> Floats:
        log_densities, _ = log_posterior(likelihood, basis, own.mode.near(places))
        found: Floats = log_densities + 0.5 * (places**2).sum(axis=0)
        return found

    places = np.zeros(shape)
    values = beyond(places)
    for _ in range(MOVES):
        normals = rng.standard_normal(shape)
        heights = values + np.log(1.0 - rng.random(draws))
        angles = 2.0 * np.pi * rng.random(draws)
        low, high = angles - 2.0 * np.pi, angles.copy()
        pending = np.arange(draws)
        for _ in range(ATTEMPTS):
            tried = places[:, pending] * np.cos(angles) + normals[:, pending] * np.sin(angles)
            reached = beyond(tried)
            ends = reached > heights[pending]
            places[:, pending[ends]], values[pending[ends]] = tried[:, ends], reached[ends]
            pending, angles, low, high = pending[~ends], angles[~ends], low[~ends], high[~ends]
            if not len(pending):
                break
            low, high = np.where(angles < 0.0, angles, low), np.where(angles >= 0.0, angles, high)
            angles = low + (high - low) * rng.random(len(pending))
    return log_posterior(likelihood, basis, own.mode.near(places))[1]

"""Draws from the posterior of ``auto``: against quadrature, and that they are reproducible."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import integrate

from ldpbeam import Answers, Attribute, Numeric, ServiceVersion, tally
from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.auto.averaging import Weighed
from ldpbeam.estimators.auto.laplace import log_posterior, mode_of
from ldpbeam.estimators.auto.likelihood import Exact
from ldpbeam.estimators.auto.posterior import DRAWS, posterior, sampled
from ldpbeam.estimators.auto.smoothness import Smoothness
from ldpbeam.mechanisms import build_mechanism


def test_draws_have_the_moments_of_the_posterior_where_it_is_far_from_normal() -> None:
    # Two buckets and thirty reports that all say the same: the posterior of the share leans on one.
    likelihood = Exact(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([30.0, 1e-9]), np.array([1, 1]))
    smoothness = Smoothness(1, 5.0)
    basis = smoothness.basis(np.array([1, 1]))
    mode = mode_of(likelihood, basis, np.zeros(1))

    def mean_of(value: Callable[[float], float]) -> float:
        def density(z: float) -> tuple[float, float]:
            logs, shares = log_posterior(likelihood, basis, np.array([[z]]))
            return math.exp(float(logs[0]) - mode.log_density), float(shares[0, 0])

        def integral(function: Callable[[float], float]) -> float:
            return float(integrate.quad(function, -12.0, 12.0, points=[0.0], limit=200)[0])

        return integral(lambda z: density(z)[0] * value(density(z)[1])) / integral(lambda z: density(z)[0])

    mean = mean_of(lambda share: share)
    variance = mean_of(lambda share: (share - mean) ** 2)
    fourth = mean_of(lambda share: (share - mean) ** 4)
    weighed = (Weighed(smoothness, mode, 1.0),)
    draws = np.hstack([sampled(likelihood, weighed, np.random.default_rng(i)) for i in range(10)])
    assert draws.shape == (2, 10 * DRAWS)
    # All chains are independent, so these are the standard errors of the mean and of the variance.
    assert abs(draws[0].mean() - mean) < 4.0 * math.sqrt(variance / draws.shape[1])
    assert abs(draws[0].var() - variance) < 4.0 * math.sqrt((fourth - variance**2) / draws.shape[1])


def test_the_posterior_of_reports_is_the_same_every_time_and_holds_the_estimate() -> None:
    numbers = Numeric(0.0, 1.0)
    attribute = Attribute(
        "a", numbers, 64, (ServiceVersion("s", "", build_mechanism("square_wave", numbers, 1.0)),)
    )
    rng = np.random.default_rng(1)
    reports = attribute.versions[0].mechanism.perturb(rng.beta(2, 5, 20_000), rng)
    statistic = tally(attribute, 20_000, [Answers(0, np.arange(20_000), reports)])
    question = Question(attribute, statistic, ("s",))
    first, again = posterior(question), posterior(question)
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first.draws, again.draws)
    np.testing.assert_array_equal(first.shares, estimate("auto", attribute, statistic).distribution)
    np.testing.assert_allclose(first.draws.sum(axis=1), 1.0)
    assert first.draws.shape == (DRAWS, 64)
    # The median is inside the middle half of the draws.
    reached = np.quantile(np.cumsum(first.draws, axis=1)[:, 31], [0.25, 0.75])
    assert reached[0] < first.shares[:32].sum() < reached[1]

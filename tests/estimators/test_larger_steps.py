"""EM by larger steps against EM: the same end, sooner, and never less likely than an update."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support import asked

from ldpbeam import Numeric, build_mechanism
from ldpbeam.domains import Floats
from ldpbeam.estimators.iteration import Fit, Trace, accelerate, maximise, smooth
from ldpbeam.estimators.question import Progress

UNIT = Numeric(0.0, 1.0)


class Problem:
    """Reports of a mechanism as EM sees them, every product counted."""

    def __init__(self, name: str, epsilon: float, buckets: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        if name in ("square_wave", "piecewise"):
            mechanism, values = build_mechanism(name, UNIT, epsilon), rng.beta(2, 5, 2000)
        else:
            mechanism = build_mechanism(name, asked.categories(buckets), epsilon)
            values = rng.choice(buckets, 2000, p=rng.dirichlet(np.ones(buckets)))
        cells = mechanism.bucketise(mechanism.perturb(values, rng), buckets)
        every = np.bincount(cells, minlength=mechanism.cells(buckets)).astype(float)
        self.matrix = mechanism.channel(buckets, buckets).dense()[every > 0]
        self.counts = every[every > 0]
        self.start = np.full(buckets, 1 / buckets)
        self.products = 0

    def forward(self, weights: Floats) -> Floats:
        self.products += 1
        assert weights.min() >= 0
        return self.matrix @ weights

    def backward(self, ratios: Floats) -> Floats:
        return ratios @ self.matrix

    def run(
        self, iterate: Any, smoothing: bool, tolerance: float, most: int, progress: Progress | None = None
    ) -> Fit:
        self.products, trace = 0, Trace(most, progress)
        fit: Fit = iterate(self, self.counts, self.start, trace, smoothing=smoothing, tolerance=tolerance)
        return fit

    def likelihood(self, weights: Floats) -> float:
        return float(self.counts @ np.log(self.matrix @ weights))

    def updated(self, weights: Floats, smoothing: bool) -> Floats:
        new = weights * ((self.counts / (self.matrix @ weights)) @ self.matrix) / self.counts.sum()
        return smooth(new) if smoothing else new


@pytest.mark.parametrize(
    ("name", "epsilon", "seed"), [("grr", 1.0, 0), ("olh", 1.0, 1), ("hadamard", 0.5, 2), ("sue", 1.0, 0)]
)
def test_larger_steps_reach_the_fixed_point_of_em(name: str, epsilon: float, seed: int) -> None:
    problem = Problem(name, epsilon, 8, seed)
    plain = problem.run(maximise, False, 1e-10, 40_000)
    slow = problem.products
    fast = problem.run(accelerate, False, 1e-9, 5_000)
    assert fast.converged
    assert problem.products < slow / 2
    assert fast.weights.min() >= 0
    assert fast.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # Plain EM crawls to a weight of zero, and is not there yet.
    np.testing.assert_allclose(fast.weights, plain.weights, atol=3e-4)
    np.testing.assert_allclose(problem.updated(fast.weights, False), fast.weights, atol=1e-8)
    # The likelihood is concave: by its slopes nothing is more likely by more than this.
    slopes = (problem.counts / (problem.matrix @ fast.weights)) @ problem.matrix
    assert slopes.max() - problem.counts.sum() < 0.01
    assert problem.likelihood(fast.weights) >= problem.likelihood(plain.weights) - 1e-6
    assert (np.diff(fast.log_likelihoods) > 0).all()


@pytest.mark.parametrize(("name", "buckets", "seed"), [("square_wave", 32, 0), ("piecewise", 16, 1)])
def test_larger_steps_reach_the_fixed_point_of_ems(name: str, buckets: int, seed: int) -> None:
    problem = Problem(name, 1.0, buckets, seed)
    plain = problem.run(maximise, True, -math.inf, 10_000)
    np.testing.assert_allclose(problem.updated(plain.weights, True), plain.weights, atol=1e-12)
    far = problem.run(accelerate, True, -math.inf, 1_000)
    np.testing.assert_allclose(far.weights, plain.weights, atol=1e-10)
    # With a tolerance it stops where an update moves the counts by less, whichever way the likelihood goes.
    fast = problem.run(accelerate, True, 1e-9, 300)
    assert fast.converged
    np.testing.assert_allclose(fast.weights, plain.weights, atol=1e-6)


def test_iterations_are_counted_and_limited() -> None:
    problem = Problem("hadamard", 0.5, 8, 0)
    told: list[tuple[int, float]] = []
    fit = problem.run(accelerate, False, 1e-12, 4, progress=lambda i, value: told.append((i, value)))
    assert not fit.converged
    assert len(fit.log_likelihoods) == 4
    assert told == list(enumerate(fit.log_likelihoods, start=1))
    assert 2 * 4 <= problem.products <= 3 * 4
    assert fit.log_likelihoods[0] == pytest.approx(problem.likelihood(problem.start), abs=1e-12)
    assert problem.likelihood(fit.weights) > fit.log_likelihoods[-1]
    # With one more iteration it is the same walk, further on.
    more = problem.run(accelerate, False, 1e-12, 5)
    np.testing.assert_array_equal(more.log_likelihoods[:4], fit.log_likelihoods)
    assert more.log_likelihoods[4] == pytest.approx(problem.likelihood(fit.weights), abs=1e-9)

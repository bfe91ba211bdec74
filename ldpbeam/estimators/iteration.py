"""EM, plain and accelerated, for any likelihood that is linear in the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.products import Products
from ldpbeam.estimators.question import Progress

#: Distributions over fewer buckets are not smoothed.
LEAST_SMOOTHED = 3


@dataclass(frozen=True)
class Fit:
    """The result of the iteration.

    Attributes:
        weights: the distribution, shape (value buckets,), with sum 1.
        log_likelihoods: the log-likelihood before each update, summed over observations, shape (iterations,).
        converged: whether the gain fell below the tolerance within the maximal number of iterations.
    """

    weights: Floats
    log_likelihoods: Floats
    converged: bool

    @property
    def course(self) -> dict[str, Any]:
        """The fields of an estimate that describe the iteration."""
        return {
            "converged": self.converged,
            "n_iterations": len(self.log_likelihoods),
            "log_likelihoods": self.log_likelihoods,
        }


@dataclass
class Trace:
    """The log-likelihoods of an iteration so far, and its most iterations.

    Attributes:
        most: the most iterations.
        progress: called after every iteration; None for nothing.
        before: how many iterations came before the first, for ``progress``.
        likelihoods: the log-likelihood before each update, summed over observations.
    """

    most: int
    progress: Progress | None = None
    before: int = 0
    likelihoods: list[float] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether there were ``most`` iterations."""
        return len(self.likelihoods) >= self.most

    def tell(self, likelihood: float) -> None:
        """Add an iteration."""
        self.likelihoods.append(likelihood)
        if self.progress is not None:
            self.progress(self.before + len(self.likelihoods), likelihood)

    def fit(self, weights: Floats, converged: bool) -> Fit:
        """The result of an iteration that ends here."""
        return Fit(weights, np.array(self.likelihoods), converged)


def smooth(weights: Floats) -> Floats:
    """EMS's smoothing step: (1, 2, 1)/4 inside and (2, 1)/3 at both ends, scaled to sum 1.

    See Li et al., SIGMOD 2020, section 5.5. Widely copied code leaves the last bucket unsmoothed.
    """
    if len(weights) < LEAST_SMOOTHED:
        return weights
    smoothed = np.empty_like(weights)
    smoothed[1:-1] = 0.25 * (weights[:-2] + weights[2:]) + 0.5 * weights[1:-1]
    smoothed[0] = (2.0 * weights[0] + weights[1]) / 3.0
    smoothed[-1] = (2.0 * weights[-1] + weights[-2]) / 3.0
    return np.asarray(smoothed / smoothed.sum())


def maximise(
    products: Products, counts: Floats, start: Floats, trace: Trace, *, smoothing: bool, tolerance: float
) -> Fit:
    """Iterate w <- w * backward(counts / forward(w)) / n, smoothed for EMS.

    Args:
        products: the products with the likelihoods of the kinds of observations.
        counts: the number of observations of each kind, shape (kinds,), all above zero.
        start: the first weights, shape (value buckets,), with sum 1.
        trace: counts the iterations; once it is full, the iteration ends, not converged.
        smoothing: whether to smooth each update (EMS).
        tolerance: the iteration stops when the gain of the summed log-likelihood is below this. The gain is
            *signed*: a decrease, which can happen with EMS, stops the iteration too.
    """
    total, weights, last = counts.sum(), start, -math.inf
    while not trace.is_full:
        probabilities = products.forward(weights)
        likelihood = float(counts @ np.log(probabilities))
        trace.tell(likelihood)
        if likelihood - last < tolerance:
            return trace.fit(weights, True)
        last = likelihood
        weights = weights * products.backward(counts / probabilities) / total
        if smoothing:
            weights = smooth(weights)
    return trace.fit(weights / weights.sum(), False)


def accelerate(
    products: Products,
    counts: Floats,
    start: Floats,
    trace: Trace,
    *,
    smoothing: bool,
    tolerance: float,
    tested: bool = True,
) -> Fit:
    """The fixed point of :func:`maximise`, by SQUAREM (Varadhan and Roland, Scand. J. Stat. 2008, scheme S3).

    Two updates give a direction and its curvature. A longer step along them is kept unless it is less likely
    than the first of the two updates. Use this function for estimators that are the fixed point; those that
    include early stopping need plain iterations. The arguments are those of :func:`maximise`. An iteration is
    two or three updates.

    Without ``tested``, a longer step is kept whatever its likelihood. EMS does not maximise the likelihood:
    from the uniform start the likelihood rises most of the way to the fixed point, but from other starts it
    mostly falls, and the test would reject most longer steps.
    """
    total, weights, converged = counts.sum(), start, False

    def update(weights: Floats) -> tuple[Floats, float]:
        probabilities = products.forward(weights)
        likelihood = float(counts @ np.log(probabilities))
        updated = weights * products.backward(counts / probabilities) / total
        return (smooth(updated) if smoothing else updated / updated.sum()), likelihood

    while not converged and not trace.is_full:
        first, likelihood = update(weights)
        second, once = update(first)
        step, bend = first - weights, second - 2.0 * first + weights
        length = math.sqrt(float(step @ step) / max(float(bend @ bend), np.finfo(np.float64).tiny))
        while length > 1.0:
            leap = weights + length * (2.0 * step + length * bend)
            if leap.min() >= 0.0:
                break
            # Halve the difference to length 1, which is the two plain updates.
            length = 0.5 * (length + 1.0) if length > 1.01 else 1.0
        weights, twice = second, once
        if length > 1.0:
            # A weight of zero could never increase again.
            leap = np.maximum(leap, 1e-3 * second)
            leap /= leap.sum()
            settled, reached = update(leap)
            if reached >= once or not tested:
                weights, twice = settled, reached
        trace.tell(likelihood)
        # The likelihood may decrease under EMS. Its stopping rule uses the length of an update instead of the
        # gain, as a chi-square distance of all counts.
        moved = float(total * np.sum(step**2 / np.maximum(first, np.finfo(np.float64).tiny)))
        converged = (
            len(trace.likelihoods) > 1 and (moved if smoothing else max(once, twice) - likelihood) < tolerance
        )
    return trace.fit(weights, converged)

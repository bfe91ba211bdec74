"""The EM iteration, plain and accelerated, for any likelihood that is linear in the weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.question import Progress

#: Fewer buckets than this are not smoothed.
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


def smooth(weights: Floats) -> Floats:
    """EMS's smoothing step: (1, 2, 1)/4 inside and (2, 1)/3 at both ends, scaled to sum 1.

    The source is Li et al., SIGMOD 2020, section 5.5; widely copied code does not smooth the last bucket.
    """
    if len(weights) < LEAST_SMOOTHED:
        return weights
    smoothed = np.empty_like(weights)
    smoothed[1:-1] = 0.25 * (weights[:-2] + weights[2:]) + 0.5 * weights[1:-1]
    smoothed[0] = (2.0 * weights[0] + weights[1]) / 3.0
    smoothed[-1] = (2.0 * weights[-1] + weights[-2]) / 3.0
    result: Floats = smoothed / smoothed.sum()
    return result


def maximise(
    forward: Callable[[Floats], Floats],
    backward: Callable[[Floats], Floats],
    counts: Floats,
    start: Floats,
    *,
    smoothing: bool,
    tolerance: float,
    max_iterations: int,
    progress: Progress | None = None,
) -> Fit:
    """Iterate w <- w * backward(counts / forward(w)) / n, smoothed for EMS.

    Args:
        forward: maps weights to the probability of each kind of observation, shape (kinds,).
        backward: the transpose of ``forward``.
        counts: the number of observations of each kind, shape (kinds,), all above zero.
        start: the first weights, shape (value buckets,), with sum 1.
        smoothing: whether each update is smoothed (EMS).
        tolerance: the iteration stops when the gain of the summed log-likelihood is below this. The gain is
            *signed*, so a decrease, which is possible with EMS, stops the iteration too.
        max_iterations: the iteration stops after this many, not converged.
        progress: called after every iteration.
    """
    total = counts.sum()
    weights = start
    trace: list[float] = []
    for iteration in range(max_iterations):
        probabilities = forward(weights)
        likelihood = float(counts @ np.log(probabilities))
        trace.append(likelihood)
        if progress is not None:
            progress(iteration + 1, likelihood)
        if iteration and likelihood - trace[-2] < tolerance:
            return Fit(weights, np.array(trace), True)
        weights = weights * backward(counts / probabilities) / total
        if smoothing:
            weights = smooth(weights)
    return Fit(weights / weights.sum(), np.array(trace), False)


def accelerate(
    forward: Callable[[Floats], Floats],
    backward: Callable[[Floats], Floats],
    counts: Floats,
    start: Floats,
    *,
    smoothing: bool,
    tolerance: float,
    max_iterations: int,
    progress: Progress | None = None,
    tested: bool = True,
) -> Fit:
    """The fixed point of :func:`maximise`, by SQUAREM (Varadhan and Roland, Scand. J. Stat. 2008, scheme S3).

    Two updates give a direction and its curvature. A longer step along them is kept if it is not less likely
    than the first of the two updates. This function is for estimators that are the fixed point. Estimators
    of which early stopping is a part need plain iterations. The arguments are those of :func:`maximise`; an
    iteration is two or three updates.

    Without ``tested``, a longer step is kept whatever its likelihood is. EMS does not maximise the
    likelihood: from the uniform start it increases most of the way to the fixed point, but from another start
    it mostly decreases, and the test would reject most longer steps.
    """
    total = counts.sum()
    trace: list[float] = []

    def update(weights: Floats) -> tuple[Floats, float]:
        probabilities = forward(weights)
        likelihood = float(counts @ np.log(probabilities))
        updated = weights * backward(counts / probabilities) / total
        return (smooth(updated) if smoothing else updated / updated.sum()), likelihood

    weights, converged = start, False
    while not converged and len(trace) < max_iterations:
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
        trace.append(likelihood)
        if progress is not None:
            progress(len(trace), likelihood)
        # The likelihood may decrease under EMS. Its stopping rule uses the length of an update instead of the
        # gain, as a chi-square distance of all counts.
        moved = float(total * np.sum(step**2 / np.maximum(first, np.finfo(np.float64).tiny)))
        converged = len(trace) > 1 and (moved if smoothing else max(once, twice) - likelihood) < tolerance
    return Fit(weights, np.array(trace), converged)

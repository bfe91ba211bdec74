"""The EM iteration, plain and in larger steps, for any likelihood that is linear in the weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.question import Progress


@dataclass(frozen=True)
class Fit:
    """Where the iteration ended.

    Attributes:
        weights: the distribution, shape (value buckets,), of sum 1.
        log_likelihoods: before each update, summed over observations; its length is the number of
            iterations.
        converged: whether the gain fell below the tolerance before the iterations ran out.
    """

    weights: Floats
    log_likelihoods: Floats
    converged: bool


def smooth(weights: Floats) -> Floats:
    """EMS's smoothing step: (1, 2, 1)/4 inside, (2, 1)/3 at both ends, sum kept at one.

    Li et al., SIGMOD 2020, section 5.5; widely copied code leaves the last bucket as it is.
    """
    if len(weights) < 3:
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
        forward: weights to the probability of each kind of observation, shape (kinds,).
        backward: its transpose.
        counts: how often each kind was observed, shape (kinds,), every one above zero.
        start: the first weights, of sum 1.
        smoothing: whether each update is smoothed (EMS).
        tolerance: stop when the summed log-likelihood gains less than this. The *signed* gain: a
            fall, which EMS can show, stops it too.
        max_iterations: stop here in any case, unconverged.
        progress: told of every iteration.
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

    Two updates give a direction and its curvature; a longer step along them is kept where it is not less
    likely than the two updates. For where the fixed point is the estimator: where early stopping is part of
    it, plain iterations are. It takes the same arguments; an iteration is two updates or three.

    Without ``tested`` a longer step is kept whatever its likelihood. EMS does not climb the likelihood: from
    the uniform start it rises most of the way to the fixed point, from another start it mostly falls, and
    the test would leave little but plain updates.
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
            # Halfway back to the two plain updates, which length 1 is.
            length = 0.5 * (length + 1.0) if length > 1.01 else 1.0
        weights, twice = second, once
        if length > 1.0:
            # A weight of zero could never rise again.
            leap = np.maximum(leap, 1e-3 * second)
            leap /= leap.sum()
            settled, reached = update(leap)
            if reached >= once or not tested:
                weights, twice = settled, reached
        trace.append(likelihood)
        if progress is not None:
            progress(len(trace), likelihood)
        # EMS's likelihood also falls on the way; there the length of an update, as a chi-square distance of
        # all counts, is in the place of its gain.
        moved = float(total * np.sum(step**2 / np.maximum(first, np.finfo(np.float64).tiny)))
        converged = len(trace) > 1 and (moved if smoothing else max(once, twice) - likelihood) < tolerance
    return Fit(weights, np.array(trace), converged)

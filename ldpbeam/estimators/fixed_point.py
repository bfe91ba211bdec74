"""The fixed point of EMS, by Newton's method.

A plain update of EMS multiplies the weights by the slopes of the likelihood and smooths them. Its fixed point
is reached when a further update changes no share by more than :data:`LARGEST_CHANGE`. Plain updates need
thousands of steps for that, because smoothing moves weight only from one bucket to the next. A Newton step
solves the linearised equation instead (:mod:`ldpbeam.estimators.linearised`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Floats
from ldpbeam.estimators.iteration import Fit, accelerate, smooth
from ldpbeam.estimators.linearised import Linearised, Smoothing
from ldpbeam.estimators.question import Progress

#: At the fixed point a further plain update changes no share by more than this.
LARGEST_CHANGE = 1e-8
#: And at most this share of all weight is still to be moved, as the last Newton steps say.
LARGEST_MOVE = 3e-7
#: Steps converge at this rate at worst, as far as that is estimated; and longer steps count as this long.
SLOWEST, LONGEST = 0.99, 30.0
#: Where weights that were held would grow, they get this share of all weight; so often at most.
LIFT, MOST_LIFTS = 1e-3, 5
#: A bucket is held near zero if all others as near as this part of the buckets are too: else the tail of a
#: distribution would grow by one bucket per step.
AROUND = 256
#: Newton steps, before the solver continues with larger plain updates.
MOST_STEPS = 100
#: After so many steps, steps are cut shorter and shorter while they are still long.
PATIENCE, LONG = 20, 0.01
#: Then the solver looks this often, in iterations of two or three updates, whether it has arrived.
CHECK_EVERY = 50
#: A step changes a weight by at most these factors, as logarithms. A weight below ``FAINT`` of the uniform
#: one may increase by the last factor, up to ``FAINT``: it hardly changes the likelihood.
LARGEST_FALL, LARGEST_RISE, FAINT_RISE, FAINT = -4.0, 2.0, 6.0, 1e-4
#: Weights are at least this, relative to the uniform weight: far below what is asked of a share.
LEAST = 1e-10

#: From the curvature of each kind of observation, ``counts / forward(weights)**2 / n``, shape (kinds,), to
#: the means of ``sum over kinds k of curvature[k] * a_k a_k'`` over pairs of blocks of buckets, shape
#: (blocks, blocks), where a_k is kind k's likelihood by bucket. There are at most half as many blocks as
#: buckets; the blocks are those of :func:`ldpbeam.estimators.linearised.block_starts`.
Curvature = Callable[[Floats], Floats]


def change_of_update(weights: Floats, slopes: Floats) -> float:
    """The largest change of a share by a plain, smoothed update."""
    return float(np.abs(smooth(weights * slopes) - weights).max())


def fixed_point(
    forward: Callable[[Floats], Floats],
    backward: Callable[[Floats], Floats],
    counts: Floats,
    start: Floats,
    *,
    curvature: Curvature,
    max_iterations: int,
    progress: Progress | None = None,
) -> Fit:
    """The fixed point of EMS from any start, for any likelihood that is linear in the weights.

    Each iteration calls ``forward`` and ``backward`` once. The curvature need not be exact: it changes how
    many iterations there are, not the result.

    Args:
        forward: maps weights to the probability of each kind of observation, shape (kinds,).
        backward: the transpose of ``forward``.
        counts: the number of observations of each kind, shape (kinds,), all above zero.
        start: the first weights, shape (value buckets,), with sum 1; at least three.
        curvature: the curvature of the likelihood on blocks of buckets.
        max_iterations: the solver stops after this many, not converged.
        progress: called after every iteration.
    """
    total, buckets = counts.sum(), len(start)
    smoothing, least, faint = Smoothing(buckets), LEAST / buckets, FAINT / buckets
    before, trace, lifts = np.maximum(start, least), list[float](), 0
    move = missing = np.inf
    for iteration in range(min(max_iterations, MOST_STEPS)):
        weights = smoothing(before)
        weights /= weights.sum()
        probabilities = forward(weights)
        ratios = counts / probabilities
        slopes = np.maximum(backward(ratios) / total, np.finfo(np.float64).tiny)
        trace.append(float(counts @ np.log(probabilities)))
        if progress is not None:
            progress(len(trace), trace[-1])
        if missing <= LARGEST_MOVE and change_of_update(weights, slopes) <= LARGEST_CHANGE:
            growing = smoothing.growing(weights, slopes) if lifts < MOST_LIFTS else None
            if growing is None:
                return Fit(weights, np.array(trace), True)
            before, lifts, missing = before + LIFT * growing, lifts + 1, np.inf
            continue
        residual = np.log(weights * slopes / before)
        held = _surrounded((before <= 1.0001 * least) & (residual < 0.0), max(1, buckets // AROUND))
        try:
            means = curvature(ratios / probabilities / total)
            step = Linearised(smoothing, before, weights, slopes, means, held).solve(
                np.where(held, 0.0, residual)
            )
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(step).all():
            break
        # A faint weight whose step is long may still become a large one.
        earlier, move = move, float(weights @ np.abs(np.expm1(np.minimum(step, LONGEST))))
        rate = min(move / earlier, SLOWEST) if earlier > 0.0 else 0.0
        missing = move * max(1.0, rate / (1.0 - rate))
        shorter = 0.5 ** max(0, (iteration - PATIENCE) // 5) if move > LONG else 1.0
        bounded = np.clip(step, shorter * LARGEST_FALL, shorter * LARGEST_RISE)
        faintly = np.minimum(np.minimum(step, FAINT_RISE), np.log(np.maximum(faint / before, 1.0)))
        before = before * np.exp(np.maximum(bounded, faintly))
        before = np.maximum(before / before.sum(), least)
    return _larger_updates(forward, backward, counts, weights, trace, max_iterations, progress)


def _surrounded(held: NDArray[np.bool_], around: int) -> NDArray[np.bool_]:
    """Which buckets are held together with all buckets so near; a bucket outside is held."""
    free = np.concatenate(([0], np.cumsum(~held)))
    place = np.arange(len(held))
    last, first = np.minimum(place + around + 1, len(held)), np.maximum(place - around, 0)
    surrounded: NDArray[np.bool_] = free[last] == free[first]
    return surrounded


def _larger_updates(
    forward: Callable[[Floats], Floats],
    backward: Callable[[Floats], Floats],
    counts: Floats,
    weights: Floats,
    trace: list[float],
    max_iterations: int,
    progress: Progress | None,
) -> Fit:
    """What remains to the fixed point, by SQUAREM, which needs no curvature and always ends."""
    while len(trace) < max_iterations:
        told = None if progress is None else functools.partial(_later, progress, len(trace))
        fit = accelerate(
            forward,
            backward,
            counts,
            weights,
            smoothing=True,
            tolerance=-np.inf,
            max_iterations=min(CHECK_EVERY, max_iterations - len(trace)),
            progress=told,
            tested=False,
        )
        weights = fit.weights
        trace.extend(fit.log_likelihoods)
        slopes = backward(counts / forward(weights)) / counts.sum()
        if change_of_update(weights, slopes) <= LARGEST_CHANGE:
            return Fit(weights, np.array(trace), True)
    return Fit(weights, np.array(trace), False)


def _later(progress: Progress, before: int, iteration: int, likelihood: float) -> None:
    """Tell of an iteration that has others before it."""
    progress(before + iteration, likelihood)

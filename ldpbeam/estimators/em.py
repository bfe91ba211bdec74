"""Expectation maximisation: EM and EMS for every mechanism with a channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers, Numeric
from ldpbeam.estimators.estimate import Estimate, Progress, Question
from ldpbeam.mechanisms import DiscreteSquareWave, GeneralWave, SquareWave

#: A channel of fewer entries is multiplied as a plain matrix: below this, one BLAS call is faster
#: than the handful of NumPy calls a structured product needs.
DENSE_ENTRIES = 2**17


#: An estimate whose every weight is this near to the uniform one, relatively, has hardly left its start.
NEARLY = 0.05


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
) -> Fit:
    """The fixed point of :func:`maximise`, by SQUAREM (Varadhan and Roland, Scand. J. Stat. 2008, scheme S3).

    Two updates give a direction and its curvature; a longer step along them is kept where it is not less
    likely than the two updates. For where the fixed point is the estimator: where early stopping is part of
    it, plain iterations are. It takes the same arguments; an iteration is two updates or three.
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
            if reached >= once:
                weights, twice = settled, reached
        trace.append(likelihood)
        if progress is not None:
            progress(len(trace), likelihood)
        # EMS's likelihood also falls on the way; there the length of an update, as a chi-square distance of
        # all counts, is in the place of its gain.
        moved = total * float(np.sum(step**2 / np.maximum(first, np.finfo(np.float64).tiny)))
        converged = len(trace) > 1 and (moved if smoothing else max(once, twice) - likelihood) < tolerance
    return Fit(weights, np.array(trace), converged)


def products(
    channel: Channel, seen: Integers
) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]:
    """Weights to the probabilities of the report buckets that were seen, and the transpose."""
    if channel.shape[0] * channel.shape[1] <= DENSE_ENTRIES:
        matrix = channel.dense()[seen]
        transpose = np.ascontiguousarray(matrix.T)
        return matrix.__matmul__, transpose.__matmul__

    def forward(weights: Floats) -> Floats:
        product: Floats = channel.matvec(weights)[seen]
        return product

    def backward(ratios: Floats) -> Floats:
        spread = np.zeros(channel.shape[0])
        spread[seen] = ratios
        product: Floats = channel.rmatvec(spread)
        return product

    return forward, backward


def fit_channel(
    channel: Channel,
    counts: ArrayLike,
    *,
    smoothing: bool,
    tolerance: float,
    max_iterations: int,
    accelerated: bool = False,
    progress: Progress | None = None,
) -> Fit:
    """EM or EMS of report counts under a channel, from the uniform distribution."""
    observed = np.asarray(counts, dtype=np.float64)
    seen = np.flatnonzero(observed)
    start = np.full(channel.shape[1], 1.0 / channel.shape[1])
    iterate = accelerate if accelerated else maximise
    return iterate(
        *products(channel, seen),
        observed[seen],
        start,
        smoothing=smoothing,
        tolerance=tolerance,
        max_iterations=max_iterations,
        progress=progress,
    )


def default_tolerance(question: Question, smoothing: bool) -> float:
    """1e-3 on the gain; for EM of waves alone 1e-3 exp(their least epsilon), as published for SW-EM.

    Elsewhere exp(epsilon) would stop EM at its start: at epsilon 10 it is 22 units of likelihood.
    """
    mechanisms = [question.attribute.versions[index].mechanism for index in question.versions]
    waves = all(isinstance(m, SquareWave | GeneralWave | DiscreteSquareWave) for m in mechanisms)
    return 1e-3 * math.exp(min(m.epsilon for m in mechanisms)) if waves and not smoothing else 1e-3


def convergence_warnings(fit: Fit, tolerance: float) -> tuple[str, ...]:
    """What to change where the iteration did not meet its tolerance, or met it at once."""
    uniform = 1.0 / len(fit.weights)
    if fit.converged and np.abs(fit.weights - uniform).max() < NEARLY * uniform:
        return (
            f"this is nearly the start, the uniform distribution: gains fell below the tolerance "
            f"({tolerance:.3g}) at once; lower it, or collect more reports",
        )
    if fit.converged:
        return ()
    n = len(fit.log_likelihoods)
    gain = float(fit.log_likelihoods[-1] - fit.log_likelihoods[-2]) if n > 1 else math.inf
    return (
        f"not converged after {n} iterations (last gain {gain:.3g}, tolerance {tolerance:.3g}): "
        "raise max_iterations or tolerance, or set accelerated: true where the estimator takes it",
    )


def _estimate(
    name: str,
    question: Question,
    smoothing: bool,
    tolerance: float | None,
    max_iterations: int,
    accelerated: bool | None,
) -> Estimate:
    attribute, versions = question.attribute, question.versions
    composite = any(attribute.versions[index].mechanism.composite for index in versions)
    if tolerance is None:
        tolerance = default_tolerance(question, smoothing)
    counts = np.concatenate([question.statistic.histograms[index] for index in versions])
    fit = fit_channel(
        attribute.stacked_channel(versions),
        counts,
        smoothing=smoothing,
        tolerance=tolerance,
        max_iterations=max_iterations,
        accelerated=composite if accelerated is None else accelerated,
        progress=question.progress,
    )
    details: dict[str, object] = {
        "tolerance": tolerance,
        "tolerance_per_report": tolerance / question.reports,
    }
    if len({attribute.versions[index].service for index in versions}) > 1:
        details["likelihood"] = "composite: reports of one user to several services as independent"
    if composite:
        details["composite"] = "the counts of one report are taken as independent"
    return question.answer_distribution(
        name,
        fit.weights,
        converged=fit.converged,
        n_iterations=len(fit.log_likelihoods),
        log_likelihoods=fit.log_likelihoods,
        warnings=convergence_warnings(fit, tolerance),
        details=details,
    )


def em(
    question: Question,
    *,
    tolerance: float | None = None,
    max_iterations: int = 10_000,
    accelerated: bool | None = None,
) -> Estimate:
    """The maximum-likelihood distribution of reports, by EM (square-wave paper, Algorithm 1).

    Several services, or versions of one, are stacked as independent reports of one population; for
    several services that is a composite likelihood, which ``ule`` improves on.

    Args:
        question: what to estimate.
        tolerance: on the gain of the summed log-likelihood; by default 1e-3, and for waves 1e-3
            exp(epsilon), as published for SW. Early stopping is part of this estimator.
        max_iterations: give up here, with a warning.
        accelerated: go on to the fixed point by larger steps (:func:`accelerate`); by default only where the
            likelihood is composite, as a count of a unary encoding says so little that EM would crawl.
    """
    return _estimate("em", question, False, tolerance, max_iterations, accelerated)


def ems(
    question: Question,
    *,
    tolerance: float | None = None,
    max_iterations: int = 10_000,
    accelerated: bool | None = None,
) -> Estimate:
    """EM with a smoothing step after each update (square-wave paper, section 5.5).

    Args:
        question: what to estimate.
        tolerance: on the gain of the summed log-likelihood; by default 1e-3, as published.
        max_iterations: give up here, with a warning.
        accelerated: as for :func:`em`.
    """
    return _estimate("ems", question, True, tolerance, max_iterations, accelerated)


def check_ems(attribute: Attribute, services: Sequence[str]) -> None:
    """Smoothing needs an order of the values."""
    if not isinstance(attribute.domain, Numeric):
        raise ValueError(
            "smoothing needs a numeric domain: categories have no neighbours; use em, norm_sub or mle"
        )

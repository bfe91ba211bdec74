"""Expectation maximisation: EM and EMS for every mechanism with a channel."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.channels import Channel
from ldpbeam.domains import Categories, Floats, Numeric, Vector
from ldpbeam.estimators.conjugate import is_nearly_orthogonal, most_likely
from ldpbeam.estimators.curvature import curvature_of
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.estimator import of_domains
from ldpbeam.estimators.fixed_point import LARGEST_CHANGE, fixed_point
from ldpbeam.estimators.iteration import LEAST_SMOOTHED, Fit, Trace, accelerate, maximise
from ldpbeam.estimators.products import products
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.sparse_likelihood import is_of_bands, sparsest
from ldpbeam.options import AboveZero, Iterations

#: EM has hardly left its start if no weight differs from the uniform one by this part.
NEARLY = 0.05


def fit_channel(
    channel: Channel,
    counts: ArrayLike,
    trace: Trace,
    *,
    smoothing: bool,
    tolerance: float,
    accelerated: bool = False,
) -> Fit:
    """EM or EMS of report counts under a channel.

    Args:
        channel: P(report bucket | value bucket).
        counts: the reports in each report bucket, shape (report buckets,).
        trace: counts the iterations; once it is full, the iteration ends, not converged.
        smoothing: whether to smooth each update (EMS).
        tolerance: as for :func:`maximise`.
        accelerated: whether to use :func:`accelerate`.
    """
    observed = np.asarray(counts, dtype=np.float64)
    seen = np.flatnonzero(observed)
    iterate, start = accelerate if accelerated else maximise, _uniform(channel)
    return iterate(
        products(channel, seen), observed[seen], start, trace, smoothing=smoothing, tolerance=tolerance
    )


def fit_fixed_point(channel: Channel, counts: ArrayLike, trace: Trace) -> Fit:
    """The fixed point of EMS of report counts; the arguments are those of :func:`fit_channel`."""
    observed = np.asarray(counts, dtype=np.float64)
    seen = np.flatnonzero(observed)
    first, curvature = _uniform(channel), curvature_of(channel, seen)
    return fixed_point(products(channel, seen), observed[seen], first, trace, curvature=curvature)


def likeliest(channel: Channel, counts: Floats, trace: Trace, *, tolerance: float) -> Fit | None:
    """The weights of greatest likelihood, by the channel's solver; None if it has no solver."""
    if is_nearly_orthogonal(channel):
        return most_likely(channel, counts, trace, tolerance=tolerance)
    if not is_of_bands(channel):
        return None
    seen = np.flatnonzero(counts)
    return sparsest(products(channel, seen), counts[seen], channel.shape[1], trace, tolerance=tolerance)


def _uniform(channel: Channel) -> Floats:
    """The weights that EM starts from, shape (value buckets,)."""
    buckets = channel.shape[1]
    return np.full(buckets, 1.0 / buckets)


def default_tolerance(question: Question, smoothing: bool) -> float:
    """The default tolerance on the gain of the log-likelihood: 1e-3, or more for EM of waves.

    If all mechanisms are waves, EM's tolerance is 1e-3 exp(least epsilon), as published for SW-EM. It would
    stop EM at its start for other mechanisms: at epsilon 10 it is 22 units of likelihood.
    """
    waves = all(mechanism.stops_early for mechanism in question.mechanisms)
    return 1e-3 * math.exp(min(m.epsilon for m in question.mechanisms)) if waves and not smoothing else 1e-3


def convergence_warnings(fit: Fit, tolerance: float) -> tuple[str, ...]:
    """Warnings if an iteration did not meet its tolerance, or met it almost at the start."""
    uniform = 1.0 / len(fit.weights)
    if fit.converged and np.abs(fit.weights - uniform).max() < NEARLY * uniform:
        return (
            "the estimate is nearly uniform, as it started: if people's values are not, lower the "
            f"tolerance ({tolerance:.3g}), or collect more reports",
        )
    if fit.converged:
        return ()
    n = len(fit.log_likelihoods)
    gain = float(fit.log_likelihoods[-1] - fit.log_likelihoods[-2]) if n > 1 else math.inf
    return (
        f"not converged after {n} iterations (last gain {gain:.3g}, tolerance {tolerance:.3g}): "
        "raise max_iterations or tolerance, or set accelerated: true where the estimator takes it",
    )


def fixed_point_warnings(fit: Fit) -> tuple[str, ...]:
    """A warning if an iteration did not reach the fixed point."""
    if fit.converged:
        return ()
    return (
        f"not converged after {len(fit.log_likelihoods)} iterations: a further update changes a share by "
        f"more than {LARGEST_CHANGE:.0e}; raise max_iterations",
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
    composite = any(mechanism.composite for mechanism in question.mechanisms)
    counts = np.concatenate(question.histograms).astype(np.float64)
    channel = attribute.stacked_channel(versions)
    details: dict[str, object] = {}
    trace = Trace(max_iterations, question.progress)
    if accelerated and smoothing and attribute.value_buckets >= LEAST_SMOOTHED:
        fit = fit_fixed_point(channel, counts, trace)
        warnings = fixed_point_warnings(fit)
        details["largest_change"] = LARGEST_CHANGE
    else:
        if tolerance is None:
            tolerance = default_tolerance(question, smoothing)
        solved = (
            likeliest(channel, counts, trace, tolerance=tolerance) if accelerated and not smoothing else None
        )
        fit = solved or fit_channel(
            channel,
            counts,
            trace,
            smoothing=smoothing,
            tolerance=tolerance,
            accelerated=composite if accelerated is None else accelerated,
        )
        warnings = convergence_warnings(fit, tolerance)
        details = {"tolerance": tolerance, "tolerance_per_report": tolerance / question.reports}
    details |= question.independence
    return question.answer_distribution(
        name,
        fit.weights,
        **fit.course,
        warnings=warnings,
        details=details,
    )


def em(
    question: Question,
    *,
    tolerance: AboveZero | None = None,
    max_iterations: Iterations = 10_000,
    accelerated: bool | None = None,
) -> Estimate:
    """The maximum-likelihood distribution of reports, by EM (square-wave paper, Algorithm 1).

    Reports to several services, or versions of one, count as independent reports of one population. For
    several services that is a composite likelihood; ``ule`` uses the joint one.

    Args:
        question: what to estimate.
        tolerance: stop when the gain of the summed log-likelihood is below this; by default 1e-3, and for
            waves 1e-3 exp(epsilon), as published for SW. Early stopping is part of this estimator.
        max_iterations: stop after this many iterations, with a warning.
        accelerated: whether to continue to the fixed point with larger steps (:func:`accelerate`); by default
            only for composite likelihoods: a count of a unary encoding says so little that plain EM would be
            very slow. With ``olh`` and ``grr`` it ends when the log-likelihood is within the tolerance of its
            maximum and no share changes by more than 1e-9 (:func:`most_likely`). So it does with
            ``square_wave`` and ``piecewise``, whose distribution is then sparse (:func:`sparsest`).
    """
    return _estimate("em", question, False, tolerance, max_iterations, accelerated)


def ems(
    question: Question,
    *,
    tolerance: AboveZero | None = None,
    max_iterations: Iterations = 10_000,
    accelerated: bool | None = None,
) -> Estimate:
    """EM with a smoothing step after each update (square-wave paper, section 5.5).

    Args:
        question: what to estimate.
        tolerance: stop when the gain of the summed log-likelihood is below this; by default 1e-3, as
            published. The fixed point does not depend on it.
        max_iterations: stop after this many iterations, with a warning.
        accelerated: whether to find the fixed point (:func:`fixed_point`), where a further update changes no
            share by more than 1e-9. By default only composite likelihoods are iterated further, as in
            :func:`em`: until an update is shorter than the tolerance, as a chi-square distance of all counts.
    """
    return _estimate("ems", question, True, tolerance, max_iterations, accelerated)


check_em = of_domains(
    Numeric | Categories | Vector, "for keys with values use key_value, privkv_mle, privkv_em or pckv_em"
)
#: Smoothing needs values with an order.
check_ems = of_domains(
    Numeric, "smoothing needs numbers, because categories and keys have no neighbours; use auto"
)

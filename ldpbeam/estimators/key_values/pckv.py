"""PCKV: EM over the pairs that people drew, and mixture reduction of each key's values.

For PCKV-PM both estimate the frequencies first, from the key step alone, and then each key's values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.channels import DenseChannel, bits_channel, stacked
from ldpbeam.domains import Floats, bucket_midpoints
from ldpbeam.estimators.em import convergence_warnings, fit_channel
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.estimator import every, of_one_channel
from ldpbeam.estimators.iteration import Trace
from ldpbeam.estimators.key_values.key_value import answer_keys, check_key_value
from ldpbeam.estimators.mixture_reduction.merging import reduce_mixture
from ldpbeam.estimators.mixture_reduction.neighbours import NeighbourChoice, bootstrap
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import NumericMechanism
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism
from ldpbeam.options import AboveZero, Iterations, Share


def pckv_em(
    question: Question, *, tolerance: AboveZero = 1e-3, max_iterations: Iterations = 10_000
) -> Estimate:
    """EM over the pairs that people drew: a key with a sign (PCKV-PM: with a value bucket), or no key.

    The likelihood of PCKV-GRR is that of whole reports. The likelihood of PCKV-UE and PCKV-PM is a composite
    one, over single slots, because their counts do not record which slots came in one report.

    For PCKV-PM there are two steps. The frequencies come from the key step: EM over which slots are present.
    Then EM over the reports of each key finds its values. These reports are a mixture of piecewise reports
    and uniform draws, in proportions that follow from the frequency (mixture-reduction paper, section V-C).
    One likelihood of both steps would count noise in a key's histogram as people with the key, and so
    overstate frequencies.

    EM continues to its fixed point with larger steps: if it were stopped early at a small epsilon, the
    frequencies would still be near the uniform start.

    Args:
        question: what to estimate.
        tolerance: stop when the gain of the summed log-likelihood is below this.
        max_iterations: stop after this many iterations, with a warning.
    """
    attribute, versions = question.attribute, question.versions
    mechanism: PaddedKeyValueMechanism = question.mechanism(versions[0])
    if mechanism.piecewise is not None:
        return _by_steps(question, tolerance, max_iterations)
    fit = fit_channel(
        attribute.stacked_channel(versions),
        np.concatenate(question.histograms),
        Trace(max_iterations, question.progress),
        smoothing=False,
        tolerance=tolerance,
        accelerated=True,
    )
    details: dict[str, object] = {
        "tolerance": tolerance,
        "tolerance_per_report": tolerance / question.reports,
        "no_key": float(fit.weights[-1]),
    }
    if mechanism.composite:
        details["likelihood"] = "composite: the slots of one report as independent"
    return answer_keys(
        question,
        "pckv_em",
        *mechanism.key_values_of(fit.weights),
        **fit.course,
        warnings=convergence_warnings(fit, tolerance),
        details=details,
    )


def _by_steps(question: Question, tolerance: float, max_iterations: int) -> Estimate:
    """EM for PCKV-PM: over the key step, and then over each key's values."""
    attribute = question.attribute
    mechanisms = question.mechanisms
    size = mechanisms[0].size
    histograms = [histogram.reshape(size, -1) for histogram in question.histograms]
    # The key step: each slot is absent or present, as if a key had one value.
    slots = []
    for mechanism in mechanisms:
        a, b, _ = mechanism.constants
        slots.append(bits_channel(size, a, b, dummies=True))
    present = [np.column_stack((counts[:, 0], counts[:, 1:].sum(axis=1))) for counts in histograms]
    how: dict[str, Any] = {"smoothing": False, "tolerance": tolerance, "accelerated": True}
    fit = fit_channel(
        stacked(slots),
        np.concatenate([counts.ravel() for counts in present]),
        Trace(max_iterations, question.progress),
        **how,
    )
    drawn = fit.weights[:-1]
    frequencies, _ = mechanisms[0].key_values_of(fit.weights)
    buckets = attribute.value_buckets
    values = [_value_channel(mechanism, attribute) for mechanism in mechanisms]
    means, iterations, unfinished = np.full(size, 0.5), len(fit.log_likelihoods), 0
    for key in range(size):
        counts = np.concatenate([histogram[key, 1:] for histogram in histograms])
        if not counts.any():
            continue
        # The other reports of a key are uniform draws, from the slots of people without it.
        shares = [mechanism.real_share(float(drawn[key])) for mechanism in mechanisms]
        mixed = np.vstack(
            [
                real * distribution + (1.0 - real) / len(distribution)
                for real, distribution in zip(shares, values, strict=True)
            ]
        )
        of_values = fit_channel(DenseChannel(mixed), counts, Trace(max_iterations), **how)
        means[key] = of_values.weights @ bucket_midpoints(buckets)
        iterations += len(of_values.log_likelihoods)
        unfinished += not of_values.converged
    warnings = convergence_warnings(fit, tolerance)
    if unfinished:
        warnings += (f"the values of {unfinished} keys have not converged: raise max_iterations",)
    return answer_keys(
        question,
        "pckv_em",
        frequencies,
        means,
        converged=fit.converged and not unfinished,
        n_iterations=iterations,
        log_likelihoods=fit.log_likelihoods,
        warnings=warnings,
        details={
            "tolerance": tolerance,
            "tolerance_per_report": tolerance / question.reports,
            "no_key": float(fit.weights[-1]),
            "likelihood": "composite: the slots of one report as independent; that of the key step",
        },
    )


def _value_channel(mechanism: PaddedKeyValueMechanism, attribute: Attribute) -> Floats:
    """P(bucket of a piecewise report | value bucket)."""
    piecewise = cast(NumericMechanism, mechanism.piecewise)
    return piecewise.channel(attribute.value_buckets, attribute.buckets).dense()


def pckv_mr(
    question: Question,
    *,
    deviations: AboveZero = 2.0,
    keep: Share = 0.25,
    tolerance: AboveZero = 1e-3,
    max_iterations: Iterations = 10_000,
) -> Estimate:
    """PCKV-MR: the mechanism's frequencies, and means by mixture reduction of each key's values.

    Let g = f/padding be the share of people who drew the key, where f is its estimated frequency. A share
    a g/(a g + b (1 - g)) of the key's reports are piecewise reports of real values; the others are uniform
    draws (mixture-reduction paper, section V-C and appendix D). Given this share, the key's values are a
    mixture of value buckets, whose windows are merged as in ``mr``. EM is not smoothed, because smoothing
    would remove the little information in the reports of a rare key.

    Args:
        question: what to estimate.
        deviations: the number of standard deviations in tau, as for ``mr``.
        keep: the least number of components, as a share of the value buckets, as for ``mr``.
        tolerance: stop a stage when its gain of a key's summed log-likelihood is below this.
        max_iterations: the most iterations of each stage.
    """
    attribute, (index,) = question.attribute, question.versions
    mechanism: PaddedKeyValueMechanism = question.mechanism(index)
    histogram = question.statistic.histograms[index]
    frequencies, means = mechanism.key_values(histogram, question.reports)
    real = mechanism.real_share(frequencies / mechanism.padding)
    buckets = attribute.value_buckets
    values = _value_channel(mechanism, attribute)
    components, iterations, converged = [], 0, True
    for key, counts in enumerate(histogram.reshape(mechanism.size, -1)[:, 1:]):
        present = int(counts.sum())
        if not present:
            continue
        channel = DenseChannel(real[key] * values + (1.0 - real[key]) / len(counts))
        reduction = reduce_mixture(
            channel,
            counts,
            NeighbourChoice(
                functools.partial(bootstrap, [channel], [present], tolerance=tolerance), deviations
            ),
            reports=present,
            least=math.ceil(keep * buckets),
            smoothing=False,
            tolerance=tolerance,
            max_iterations=max_iterations,
            accelerated=True,
        )
        means[key] = reduction.weights @ bucket_midpoints(buckets)
        components.append(list(reduction.components))
        iterations += len(reduction.log_likelihoods)
        converged &= all(stage.fit.converged for stage in reduction.stages)
    return answer_keys(
        question,
        "pckv_mr",
        frequencies,
        means,
        converged=converged,
        n_iterations=iterations,
        warnings=() if converged else ("some keys have not converged: raise max_iterations, or tolerance",),
        details={"tolerance": tolerance, "components": components},
    )


def check_pckv_em(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that all mechanisms are the same kind of PCKV with the same padding, so that their columns agree.

    Raises:
        ValueError: if not.
    """
    check_key_value(attribute, services)
    problem = "is not PCKV; use privkv_mle, privkv_em or key_value"
    mechanisms = attribute.mechanisms_of(services, PaddedKeyValueMechanism, problem)
    kinds = {f"{mechanism.name} with padding {mechanism.padding}" for mechanism in mechanisms}
    if len(kinds) > 1:
        raise ValueError(
            f"the services are of different kinds ({', '.join(sorted(kinds))}); name services of one "
            "kind, or use key_value"
        )


check_pckv_mr = every(
    check_key_value,
    of_one_channel(
        lambda mechanism: isinstance(mechanism, PaddedKeyValueMechanism) and mechanism.piecewise,
        "pckv_pm",
        "pckv_em or key_value",
    ),
)

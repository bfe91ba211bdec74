"""PCKV: EM over the pairs that people drew, and mixture reduction of each key's values."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.channels import DenseChannel
from ldpbeam.domains import bucket_midpoints
from ldpbeam.estimators.em import convergence_warnings, fit_channel
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.key_values.key_value import answer_keys, check_key_value, mechanism_of
from ldpbeam.estimators.mixture_reduction.merging import reduce_mixture
from ldpbeam.estimators.mixture_reduction.neighbours import Windows, bootstrap
from ldpbeam.estimators.options import AboveZero, Iterations, Share
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM


def pckv_em(
    question: Question, *, tolerance: AboveZero = 1e-3, max_iterations: Iterations = 10_000
) -> Estimate:
    """EM over the pairs that people drew: a key with a sign (PCKV-PM: with a value bucket), or no key.

    The likelihood of PCKV-GRR is that of whole reports. The likelihood of PCKV-UE and PCKV-PM is a composite
    one, that of single slots, because their counts do not record which slots came in one report. For PCKV-PM
    it covers the key counts and the values of each key, whose histogram is a mixture of piecewise reports and
    uniform draws (mixture-reduction paper, section V-C).

    EM continues to its fixed point with larger steps: if it were stopped early at a small epsilon, the
    frequencies would still be near the uniform start.

    Args:
        question: what to estimate.
        tolerance: stop when the gain of the summed log-likelihood is below this.
        max_iterations: stop after this many iterations, with a warning.
    """
    attribute, versions = question.attribute, question.versions
    mechanism = mechanism_of(question, versions[0])
    fit = fit_channel(
        attribute.stacked_channel(versions),
        np.concatenate([question.statistic.histograms[index] for index in versions]),
        smoothing=False,
        tolerance=tolerance,
        max_iterations=max_iterations,
        accelerated=True,
        progress=question.progress,
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
        converged=fit.converged,
        n_iterations=len(fit.log_likelihoods),
        log_likelihoods=fit.log_likelihoods,
        warnings=convergence_warnings(fit, tolerance),
        details=details,
    )


def pckv_mr(
    question: Question,
    *,
    deviations: AboveZero = 2.0,
    keep: Share = 0.25,
    tolerance: AboveZero = 1e-3,
    max_iterations: Iterations = 10_000,
) -> Estimate:
    """PCKV-MR: the mechanism's own frequencies, and means by mixture reduction of each key's values.

    Let g = f/padding be the share of people who drew the key, where f is the mechanism's frequency. A share
    a g/(a g + b (1 - g)) of the reports with the key are piecewise reports of real values; the others are
    uniform draws (mixture-reduction paper, section V-C and appendix D). With this share, the key's values are
    a mixture of value buckets, whose windows are merged as in ``mr``. EM is not smoothed, because smoothing
    would remove the little information in the reports of a rare key.

    Args:
        question: what to estimate.
        deviations: the number of standard deviations in tau, as for ``mr``.
        keep: the least number of components, as a share of the value buckets, as for ``mr``.
        tolerance: stop a stage when its gain of a key's summed log-likelihood is below this.
        max_iterations: the most iterations of each stage.
    """
    attribute, (index,) = question.attribute, question.versions
    mechanism = cast(PCKVPM, mechanism_of(question, index))
    histogram = question.statistic.histograms[index]
    frequencies, means = mechanism.key_values(histogram, question.reports)
    (a, b), drawn = mechanism.constants, frequencies / mechanism.padding
    real = a * drawn / (a * drawn + b * (1.0 - drawn))
    buckets = attribute.value_buckets
    values = mechanism.piecewise.channel(buckets, attribute.buckets).dense()
    components, iterations, converged = [], 0, True
    for key, counts in enumerate(histogram.reshape(mechanism.size, -1)[:, 1:]):
        present = int(counts.sum())
        if not present:
            continue
        channel = DenseChannel(real[key] * values + (1.0 - real[key]) / len(counts))
        reduction = reduce_mixture(
            channel,
            counts,
            Windows(functools.partial(bootstrap, [channel], [present], tolerance=tolerance), deviations),
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
    """Check that all mechanisms are of one kind of PCKV with one padding, so that their columns agree.

    Raises:
        ValueError: if not.
    """
    check_key_value(attribute, services)
    kinds = set()
    for index in attribute.versions_of(services):
        version = attribute.versions[index]
        if not isinstance(version.mechanism, PaddedKeyValueMechanism):
            raise ValueError(
                f"service {version.label} ({version.mechanism.name}) is not PCKV; use privkv_mle, privkv_em "
                "or key_value"
            )
        kinds.add(f"{version.mechanism.name} with padding {version.mechanism.padding}")
    if len(kinds) > 1:
        raise ValueError(
            f"the services are of different kinds ({', '.join(sorted(kinds))}); name services of one "
            "kind, or use key_value"
        )


def check_pckv_mr(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that there is one channel, of PCKV-PM.

    Raises:
        ValueError: if not.
    """
    check_key_value(attribute, services)
    versions = [attribute.versions[index] for index in attribute.versions_of(services)]
    if len(versions) != 1 or not isinstance(versions[0].mechanism, PCKVPM):
        found = ", ".join(f"{version.label} ({version.mechanism.name})" for version in versions)
        raise ValueError(
            f"mixture reduction is for one service with pckv_pm and one epsilon, found {found}; name one "
            "service, or use pckv_em or key_value"
        )

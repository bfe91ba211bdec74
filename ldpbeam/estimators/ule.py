"""ULE: the distribution from the joint likelihood of each user's reports to several services."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValues, Numeric
from ldpbeam.estimators.em import convergence_warnings
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.iteration import Trace, maximise
from ldpbeam.estimators.joint_fixed_point import fit_users
from ldpbeam.estimators.joint_likelihood import JointLikelihood
from ldpbeam.estimators.question import Question
from ldpbeam.options import AboveZero, Iterations
from ldpbeam.resolution import ENOUGH, is_resolved, mutual_information

#: The most value buckets of an accelerated estimate.
MOST_ACCELERATED = 4_096
NOT_SETTLED = "the iteration did not converge: raise max_iterations"


def information_kept(attribute: Attribute, services: Sequence[str], weights: Floats) -> dict[str, float]:
    """The share of each channel's information that the joint histogram's resolution keeps, by label.

    Information is the mutual information of value and report bucket under the estimated distribution. It is
    compared with that of sixteen times as many report buckets; of fewer if the matrix would have more than
    2^22 entries. A channel that cannot be compared is left out.
    """

    @functools.cache
    def information(index: int, resolution: int) -> float:
        return mutual_information(attribute.report_channel(index, resolution).dense(), weights)

    kept: dict[str, float] = {}
    for index in attribute.versions_of(services):
        version, resolution = attribute.versions[index], attribute.joint_resolution(index)
        finer = min(16, 2**22 // (resolution * attribute.value_buckets))
        if finer < 2:
            continue
        if not is_resolved(version.mechanism):
            # Reports of few kinds, such as signs or categories, have one bucket per kind.
            kept[version.label] = 1.0
            continue
        coarse, fine = (information(index, n) for n in (resolution, finer * resolution))
        kept[version.label] = min(1.0, coarse / fine) if fine > 0 else 1.0
    return kept


def shown_buckets(attribute: Attribute, services: Sequence[str]) -> int | dict[str, int]:
    """The joint histogram's resolution for the details of an estimate: one number, or one per channel."""
    if isinstance(attribute.joint_buckets, int):
        return attribute.joint_buckets
    indexes = attribute.versions_of(services)
    return {attribute.versions[index].label: attribute.joint_resolution(index) for index in indexes}


def resolution_warnings(attribute: Attribute, kept: Mapping[str, float]) -> tuple[str, ...]:
    """Warnings for channels whose joint histogram is too coarse, from :func:`information_kept`."""
    buckets = {v.label: attribute.joint_resolution(i) for i, v in enumerate(attribute.versions)}
    return tuple(
        f"the joint histogram keeps {share:.0%} of what {label} says: raise joint_buckets (now "
        f"{buckets[label]}), or join fewer services in this attribute"
        for label, share in kept.items()
        if share < ENOUGH
    )


def ule(
    question: Question,
    *,
    smooth: bool = True,
    tolerance: AboveZero = 1e-3,
    max_iterations: Iterations = 10_000,
    accelerated: bool = False,
) -> Estimate:
    """User-level likelihood estimation (multi-service paper, Algorithm 3).

    This is EM over users, where a user's likelihood is the product of the likelihoods of their reports. The
    paper prints plain EM, but its code smooths. Plain EM is far worse on smooth populations, so smoothing is
    the default.

    Args:
        question: what to estimate.
        smooth: whether to smooth each update of a numeric distribution (EMS); false as printed.
        tolerance: stop when the gain of the summed log-likelihood is below this. Not used if accelerated.
        max_iterations: stop after this many iterations, with a warning.
        accelerated: whether to continue to the fixed point, in few iterations
            (:mod:`~ldpbeam.estimators.joint_fixed_point`). It needs matrices of value buckets by value
            buckets, so 4,096 value buckets are the most.

    Raises:
        ValueError: if accelerated with more than 4,096 value buckets.
    """
    attribute, buckets = question.attribute, question.attribute.value_buckets
    if accelerated and buckets > MOST_ACCELERATED:
        raise ValueError(
            f"ule with accelerated: true takes at most {MOST_ACCELERATED:,} value buckets, found {buckets:,}"
        )
    likelihood = JointLikelihood(question)
    products, counts = likelihood.products, likelihood.counts.astype(np.float64)
    smoothing = smooth and isinstance(attribute.domain, Numeric)
    trace = Trace(max_iterations, question.progress)
    if accelerated:
        fit = fit_users(products, counts, buckets, trace, smoothing=smoothing)
    else:
        start = np.full(buckets, 1.0 / buckets)
        fit = maximise(products, counts, start, trace, smoothing=smoothing, tolerance=tolerance)
    kept = information_kept(attribute, question.services, fit.weights)
    details: dict[str, object] = {
        "joint_buckets": shown_buckets(attribute, question.services),
        "information_kept": kept,
    }
    if not accelerated:
        details["tolerance_per_report"] = tolerance / question.reports
    unsettled = () if fit.converged else (NOT_SETTLED,)
    return question.answer_distribution(
        "ule",
        fit.weights,
        converged=fit.converged,
        n_iterations=len(fit.log_likelihoods),
        log_likelihoods=fit.log_likelihoods + likelihood.log_scale,
        warnings=(unsettled if accelerated else convergence_warnings(fit, tolerance))
        + resolution_warnings(attribute, kept),
        details=details,
    )


def check_joined(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that users are grouped and the services are joined, as the joint histogram needs.

    Raises:
        ValueError: if the domain is of keys with values, users are not grouped, or a service is not joined.
    """
    if isinstance(attribute.domain, KeyValues):
        raise ValueError("keys with values are not joined; use key_value, privkv_mle or pckv_em")
    if not attribute.has_users:
        raise ValueError(
            "it joins the reports of a user, and these have no users (users: none): choose one that does "
            "not, such as auto"
        )
    if not attribute.group_users:
        raise ValueError("it joins users' reports, and this study does not group users")
    apart = [service for service in services if service not in attribute.joint_services]
    if apart:
        raise ValueError(f"{', '.join(apart)} is not among the joined services of the statistic")

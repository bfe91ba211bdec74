"""The mean of the reports of several services: UA, UWA, and inverse-variance weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, Numeric, number_of_values
from ldpbeam.estimators.channel_means import channel_mean, least_noise, noise_at
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.estimator import every, of_domains, of_mechanisms
from ldpbeam.estimators.iteration import Trace
from ldpbeam.estimators.joint_likelihood import JointLikelihood
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.ule import check_joined, information_kept, resolution_warnings, shown_buckets
from ldpbeam.mechanisms import UnbiasedMechanism
from ldpbeam.statistics import has_tail

#: Noise carries a mean of reports this many standard errors out of the domain once in 30,000 samples.
FAR_OUTSIDE = 4.0


def _unbiased_sum(question: Question, mask: int, index: int) -> float:
    """The sum of one channel's unbiased reports over the users who answered the channels ``mask`` only.

    If the channel's noise has a tail, the mean of all its users comes from the histogram, and the sum of
    bounded reports says how these users differ from all.
    """
    moments = question.statistic.moments[mask]
    mechanism: UnbiasedMechanism = question.mechanism(index)
    slope, intercept = mechanism.unbiased_map
    if not has_tail(mechanism):
        return slope * (moments.sums[index] * mechanism.fixed_point_step) + intercept * moments.users
    all_sums = question.statistic.moments_of(index)
    mean = channel_mean(question, index).first
    if len(all_sums) == 1:
        return mean * moments.users
    reports, bounded = question.reports_of(index), sum(total.bounded[index] for total in all_sums)
    apart = moments.bounded[index] * reports - bounded * moments.users
    return mean * moments.users + slope * mechanism.fixed_point_step * (apart / reports)


def _variances(question: Question, index: int) -> tuple[float, float]:
    """A channel's mean noise variance under the distribution that EMS estimates, and that distribution's own.

    The noise variance is at least the mechanism's least variance, and at most the sample variance of the
    unbiased reports, which also holds the variance of people's values. Without the upper bound, smoothing
    would find noise that is not there in the reports of people who are all at one end.
    """
    attribute, mechanism = question.attribute, question.mechanism(index)
    fit = fit_channel(
        attribute.channel(index),
        question.statistic.histograms[index],
        Trace(10_000),
        smoothing=True,
        tolerance=1e-3,
    )
    x = cast(Numeric, attribute.domain).middles(attribute.value_buckets)
    noise = float(fit.weights @ noise_at(mechanism, attribute.buckets, x))
    spread = float(fit.weights @ (x - fit.weights @ x) ** 2)
    least = least_noise(mechanism, attribute.buckets)
    return max(min(noise, _sample_variance(question, index)), least), spread


def _sample_variance(question: Question, index: int) -> float:
    """The sample variance of a channel's unbiased reports; infinite for one report."""
    reports = question.reports_of(index)
    mechanism: UnbiasedMechanism = question.mechanism(index)
    if reports < 2:
        return math.inf
    if has_tail(mechanism):
        of_scores = channel_mean(question, index)
        return (of_scores.second - of_scores.first**2) * (reports / (reports - 1))
    moments = question.statistic.moments_of(index)
    total = sum(m.sums[index] for m in moments)
    # Exact whole numbers: the difference of two large numbers has no rounding error.
    squares = reports * sum(m.squares[index] for m in moments) - total**2
    step = mechanism.unbiased_map[0] * mechanism.fixed_point_step
    return step**2 * (squares / (reports * (reports - 1)))


def _answer(question: Question, name: str, mean: float, variance: float, **details: object) -> Estimate:
    domain = cast(Numeric, question.attribute.domain)
    error = float(np.sqrt(variance))
    inside = float(np.clip(mean, 0.0, 1.0))
    if mean != inside:
        details["mean_of_reports"] = float(domain.from_unit(mean))
    warning = far_outside(domain, mean, error)
    return question.answer(
        name,
        mean=float(domain.from_unit(inside)),
        standard_error=error * domain.width,
        details=details,
        warnings=(warning,) if warning else (),
    )


def far_outside(domain: Numeric, mean: float, error: float) -> str:
    """A sentence on a mean of reports, on [0, 1], that noise cannot explain; empty if it can."""
    outside = abs(mean - 0.5) - 0.5
    # A comparison with NaN is false, so that an error of NaN gives no sentence.
    if not outside > FAR_OUTSIDE * error:
        return ""
    return (
        f"the mean of the reports lies outside of the domain: it is {float(domain.from_unit(mean)):.6g}, "
        f"{outside / error:.0f} standard errors beyond the nearest end, which is given, so some reports are "
        "false, or of another epsilon; find them before you use this number "
        "(docs/formulas.md#what-a-flag-says)"
    )


def ua(question: Question) -> Estimate:
    """Unbiased averaging (multi-service paper, section 4.1).

    It is the mean over users of the mean of each user's unbiased reports.
    """
    noise = {index: _variances(question, index)[0] for index in question.versions}
    total, variance, users = 0.0, 0.0, 0
    for mask in sorted(question.statistic.moments):
        answered = [index for index in question.versions if mask >> index & 1]
        if answered:
            count = question.statistic.moments[mask].users
            users += count
            total += sum(_unbiased_sum(question, mask, i) for i in answered) / len(answered)
            variance += count * sum(noise[i] for i in answered) / len(answered) ** 2
    return _answer(question, "ua", total / users, variance / users**2)


def ivw(question: Question) -> Estimate:
    """The mean with inverse-variance weights: one weight per channel, so that sums suffice.

    A channel's weight is one over its noise variance, averaged over the distribution that EMS estimates from
    its histogram. If services ask different people, ``question.apart`` times the variance of people's values
    is added, because few people represent all less well. Reports are weighted, so a user who answered twice
    counts twice. The mean is as accurate as UWA where UWA is good, and lacks its bias (docs/formulas.md).

    The standard error is that of the difference from the mean of the people who reported, each counted once.
    It includes the noise of the reports, and the sampling variance of weights that differ among people: with
    W the sum of all reports' weights, a user whose reports have the weight w counts w/W instead of 1/n.
    """
    total, weight, variance, spread = 0.0, 0.0, 0.0, 0.0
    weights = {}
    for index in question.versions:
        noise, values = _variances(question, index)
        precision = 1.0 / (noise + question.apart * values)
        reports = question.reports_of(index)
        total += precision * reports * channel_mean(question, index).first
        weight += precision * reports
        variance += precision**2 * reports * noise
        spread += precision * reports * values
        weights[index] = precision
    variance += float(question.unevenness(weights)) * spread / weight
    scale = sum(weights.values())
    labels = {index: question.attribute.versions[index].label for index in weights}
    return _answer(
        question,
        "ivw",
        total / weight,
        variance / weight**2,
        weights={labels[index]: precision / scale for index, precision in weights.items()},
    )


def uwa(question: Question) -> Estimate:
    """User-level weighted averaging as published (multi-service paper, Algorithms 1 and 2).

    Each user's unbiased reports are averaged, with the weight of a report one over its channel's variance
    under the user's posterior (from a uniform prior). Weights then depend on reports, so the mean is
    *biased*, and worse than UA from about epsilon 2 on; ``ivw`` is better. A report is replaced by the
    representative of its cell in the joint histogram.
    """
    likelihood = JointLikelihood(question)
    attribute = question.attribute
    x = cast(Numeric, attribute.domain).middles(attribute.value_buckets)
    prior = np.full(len(x), 1.0 / len(x))
    evidence = likelihood.products.forward(prior)
    first = likelihood.products.forward(prior * x) / evidence
    second = likelihood.products.forward(prior * x**2) / evidence
    weighted, weights = np.zeros(len(evidence)), np.zeros(len(evidence))
    for service, digit in zip(question.services, likelihood.digits.T, strict=True):
        reports, polynomials = _axis(attribute, service)
        c0, c1, c2 = polynomials[digit].T
        # The first cell of an axis is "no report": its variance is infinite, so its weight is 0.
        precision = 1.0 / (c0 + c1 * first + c2 * second)
        weighted += precision * reports[digit]
        weights += precision
    users = likelihood.counts.sum()
    mean = float(likelihood.counts @ (weighted / weights) / users)
    variance = float(likelihood.counts @ (1.0 / weights) / users**2)
    kept = information_kept(attribute, question.services, prior)
    answer = _answer(
        question, "uwa", mean, variance, joint_buckets=shown_buckets(attribute, question.services)
    )
    return replace(answer, warnings=(*answer.warnings, *resolution_warnings(attribute, kept)))


def _axis(attribute: Attribute, service: str) -> tuple[Floats, Floats]:
    """The unbiased report and the variance polynomial of each cell of an axis; the first is "no report"."""
    reports, polynomials = [np.zeros(1)], [np.array([[np.inf, 0.0, 0.0]])]
    for index in attribute.versions_of([service]):
        mechanism = cast(UnbiasedMechanism, attribute.versions[index].mechanism)
        values = mechanism.unbiased(mechanism.representatives(attribute.joint_resolution(index)))
        reports.append(values)
        polynomials.append(np.tile(mechanism.variance_polynomial, (len(values), 1)))
    return np.concatenate(reports), np.concatenate(polynomials)


def _check_values(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that reports are unbiased for the values of a step, not for the middles of bins beside them.

    Raises:
        ValueError: if a mechanism has bins, and the domain has a step; or the domain has a scale.
    """
    if cast(Numeric, attribute.domain).scale is not None:
        raise ValueError("the mean of reports is that of values on their scale, and not of values; use auto")
    bins = [mechanism.name for mechanism in attribute.mechanisms_of(services) if mechanism.granularity > 1]
    if bins and number_of_values(attribute.domain):
        raise ValueError(f"{bins[0]} reports of bins, whose middles are no values of this step; use auto")


check_mean = every(
    of_domains(Numeric, "it estimates the mean of numbers; for others use auto"),
    of_mechanisms(UnbiasedMechanism, "has no unbiased numbers; use em or ule"),
    _check_values,
)
check_uwa = every(check_mean, check_joined)

"""``auto`` for numbers: the average of smooth distributions, weighted by how well each explains the reports.

A distribution's log density, or its density, has one of some sixty priors
(:mod:`~ldpbeam.estimators.auto.smoothness`). For each, the most likely distribution is found, and the prior's
marginal likelihood (Laplace's method). The answer is their average by marginal likelihood: nothing is tuned
to the reports by hand, nothing is random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ldpbeam.channels import stacked
from ldpbeam.domains import Floats
from ldpbeam.estimators.auto.averaging import Weighed, average, weigh
from ldpbeam.estimators.auto.curves import Scale
from ldpbeam.estimators.auto.joined import JoinedLikelihood, is_joined
from ldpbeam.estimators.auto.likelihood import Likelihood, of_channel
from ldpbeam.estimators.auto.smoothness import Smoothness
from ldpbeam.estimators.em import ems
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.ule import information_kept, resolution_warnings, told_buckets

#: With fewer value buckets, each is divided: inside a wide bucket a distribution is not even.
LEAST_BUCKETS = 256
#: A joint likelihood is expanded at most so often, each time around the last answer.
MOST_EXPANSIONS = 3
#: It is not expanded again if the answer moved less than this, as a W1 distance on the unit range.
NEAR_ENOUGH = 1e-4
#: What the orders of smoothness are called, and the scales.
SHAPES: Mapping[int, str] = {0: "spiky", 1: "random walk of the", 2: "smooth", 3: "very smooth"}
SCALED: Mapping[Scale, str] = {"log": "log density", "plain": "density"}


@dataclass(frozen=True)
class Fitted:
    """The priors with their modes, and the likelihood that they were found with.

    Attributes:
        likelihood: the likelihood by block of value buckets; to second order for many kinds of users.
        weighed: the priors.
        log_scale: what is to be added to log-likelihoods.
    """

    likelihood: Likelihood
    weighed: tuple[Weighed, ...]
    log_scale: float = 0.0


def fit(question: Question) -> Fitted | None:
    """The priors with their modes; None if the channel's matrix would be too large."""
    if is_joined(question):
        return _fit_joined(question)
    attribute = question.attribute
    finer = attribute.value_buckets * -(-LEAST_BUCKETS // attribute.value_buckets)
    channels = [
        attribute.versions[index].mechanism.histogram_channel(finer, attribute.buckets)
        for index in question.versions
    ]
    counts = np.concatenate([question.statistic.histograms[index] for index in question.versions])
    likelihood = of_channel(stacked(channels), counts)
    return None if likelihood is None else Fitted(likelihood, weigh(likelihood))


def _fit_joined(question: Question) -> Fitted:
    joined = JoinedLikelihood(question)
    exact = joined.exact
    if exact is not None:
        return Fitted(exact, weigh(exact), joined.log_scale)
    centre = joined.first_centre()
    for _ in range(MOST_EXPANSIONS):
        likelihood = joined.near(centre)
        weighed = weigh(likelihood)
        moved, centre = float(np.abs(np.cumsum(average(weighed) - centre)).mean()), average(weighed)
        if moved < NEAR_ENOUGH:
            break
    return Fitted(likelihood, weighed, joined.log_scale)


def by_bucket(shares: Floats, likelihood: Likelihood, buckets: int) -> Floats:
    """Shares of value buckets from those of blocks, shape (..., blocks) to (..., value buckets)."""
    found = np.repeat(shares / likelihood.sizes, likelihood.sizes, axis=-1)
    # There are several blocks in a bucket, or several buckets in a block.
    return np.asarray(found.reshape(*shares.shape[:-1], buckets, -1).sum(axis=-1))


def label(prior: Smoothness) -> str:
    """The name of a prior."""
    return f"{SCALED[prior.scale]}, order {prior.order}, deviation {prior.deviation:.3g}"


def sentence(weighed: Sequence[Weighed]) -> str:
    """What was chosen and why, in words."""
    kept = [own for own in weighed if own.weight >= 0.01]
    by_shape = dict.fromkeys(((order, scale) for scale in SCALED for order in SHAPES), 0.0)
    for own in weighed:
        by_shape[own.smoothness.order, own.smoothness.scale] += own.weight
    parts = ", ".join(
        f"{share:.0%} {SHAPES[order]} {SCALED[scale]}"
        for (order, scale), share in sorted(by_shape.items(), key=lambda item: -item[1])
        if share >= 0.01
    )
    return (
        f"average of {len(kept)} smoothed distributions by how well each explains the reports (marginal "
        f"likelihood): {parts}"
    )


def auto_numbers(question: Question) -> Estimate:
    """The distribution of numbers, from the joint histogram if there is one."""
    fitted = fit(question)
    if fitted is None:
        found = ems(question, accelerated=True)
        chosen = "ems to its fixed point, because the reports are of too many kinds for a matrix"
        return replace(found, estimator="auto", details={"chosen": chosen, **found.details})
    shares = average(fitted.weighed)
    distribution = by_bucket(shares, fitted.likelihood, question.attribute.value_buckets)
    log_likelihood = float(fitted.likelihood.values(shares[:, None])[0]) + fitted.log_scale
    details: dict[str, object] = {
        "chosen": sentence(fitted.weighed),
        "weights": {label(own.smoothness): own.weight for own in fitted.weighed if own.weight >= 0.01},
    }
    warnings: tuple[str, ...] = ()
    if is_joined(question):
        kept = information_kept(question.attribute, question.services, distribution)
        details["joint_buckets"] = told_buckets(question.attribute, question.services)
        details["information_kept"] = kept
        warnings = resolution_warnings(question.attribute, kept)
    elif len({question.attribute.versions[index].service for index in question.versions}) > 1:
        details["likelihood"] = "composite: reports of one user to several services as independent"
    return question.answer_distribution(
        "auto",
        distribution,
        converged=all(own.mode.converged for own in fitted.weighed if own.weight >= 0.01),
        n_iterations=sum(own.mode.steps for own in fitted.weighed),
        log_likelihoods=np.array([log_likelihood]),
        warnings=warnings,
        details=details,
    )

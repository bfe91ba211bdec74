"""``auto`` for numbers: the average of smooth distributions, weighted by how well each explains the reports.

There are sixty or more priors of the log density, or of the density (:mod:`~ldpbeam.density.priors`). For
each prior we find the most likely distribution and the marginal likelihood of the reports (Laplace's method).
The answer is the average of these distributions, weighted by marginal likelihood. Nothing is tuned by hand,
and nothing is random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import ref

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.density.atoms import HIGH, LOW
from ldpbeam.density.averaging import LEAST_WEIGHT, Fit, average, noted
from ldpbeam.density.curves import Scale
from ldpbeam.density.families import first_answer, numbers
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.density.priors import Prior
from ldpbeam.density.spikes import spread
from ldpbeam.domains import Floats, Numeric, number_of_values
from ldpbeam.estimators.auto.counted import fine_buckets, of_channels
from ldpbeam.estimators.auto.joined import JoinedLikelihood, is_joined
from ldpbeam.estimators.em import ems
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question, distribution_moments
from ldpbeam.estimators.ule import information_kept, resolution_warnings, shown_buckets
from ldpbeam.metrics import ROUNDING

#: The most expansions of a joint likelihood for all priors, each around the answer of the one before.
MOST_EXPANSIONS = 3
#: The likelihood is not expanded again if the answer moved by less than this W1 distance on the unit range.
#: At epsilon 5 a move of 0.003 left an error of 0.0005, a third of the distance to the truth.
NEAR_ENOUGH = 1e-3
#: The names of the orders of smoothness, and of the scales.
SHAPES: Mapping[int, str] = {1: "random walk of the", 2: "smooth", 3: "very smooth"}
SCALED: Mapping[Scale, str] = {"log": "log density", "plain": "density"}


@dataclass(frozen=True)
class Fitted:
    """The priors with their modes, and the likelihood that gave them.

    Attributes:
        likelihood: the likelihood by block of value buckets; to second order for many kinds of users.
        fits: the priors.
        total: the number of reports, or of users of a joint histogram. If clients remember their noise over
            several windows, it is the smaller number of reports with fresh noise that would say as much.
        people: the least number of different people.
        log_scale: a constant to add to log-likelihoods.
    """

    likelihood: Likelihood
    fits: tuple[Fit, ...]
    total: float
    people: float
    log_scale: float = 0.0


def fit(question: Question) -> Fitted | None:
    """The priors with their modes; None if the channel's matrix would be too large.

    The last result is kept, because an estimate and its intervals need the same one.
    """
    global _last
    attribute, statistic, rest, fitted = _last
    asked = (question.services, question.windows)
    if attribute() is not question.attribute or statistic() is not question.statistic or rest != asked:
        fitted = _fit(question)
        _last = (ref(question.attribute), ref(question.statistic), asked, fitted)
    return fitted


#: The last question, which does not keep its statistic alive, and its fit.
_last: tuple[Callable[[], object], Callable[[], object], object, Fitted | None] = (
    lambda: None, lambda: None, None, None,
)  # fmt: skip


def _fit(question: Question) -> Fitted | None:
    if is_joined(question):
        return _fit_joined(question)
    attribute = question.attribute
    fine = fine_buckets(attribute)
    channels = [attribute.channel(index, fine) for index in question.versions]
    histograms = [question.statistic.histograms[i] / question.noise_factor(i) for i in question.versions]
    steps = number_of_values(attribute.domain)
    ends = [] if steps else [attribute.at_ends(index) for index in question.versions]
    likelihood = of_channels(channels, histograms, ends)
    if likelihood is None:
        return None
    total = float(sum(histogram.sum() for histogram in histograms))
    people = total if question.users is None else question.users / question.repeats
    return Fitted(likelihood, numbers(likelihood, first_value(attribute, likelihood)), total, people)


def first_value(attribute: Attribute, likelihood: Likelihood) -> int | None:
    """The first value, counted in steps from zero, or 0 if the values are not multiples of the step.

    It is None if blocks are not values.
    """
    domain = attribute.domain
    if not isinstance(domain, Numeric) or domain.step is None or len(likelihood.sizes) != domain.count:
        return None
    steps = domain.low / domain.step
    return round(steps) if abs(steps - round(steps)) < ROUNDING else 0


def _fit_joined(question: Question) -> Fitted:
    joined = JoinedLikelihood(question)
    exact = joined.exact
    if exact is not None:
        fits = numbers(exact, first_value(question.attribute, exact))
        return Fitted(exact, fits, joined.total, joined.people, joined.log_scale)
    centre = first_answer(joined.near(joined.first_centre()))
    for _ in range(MOST_EXPANSIONS):
        likelihood = joined.near(centre)
        fits = numbers(likelihood, first_value(question.attribute, likelihood))
        moved, centre = float(np.abs(np.cumsum(average(fits) - centre)).mean()), average(fits)
        if moved < NEAR_ENOUGH:
            break
    return Fitted(likelihood, fits, joined.total, joined.people, joined.log_scale)


def by_bucket(shares: Floats, likelihood: Likelihood, buckets: int) -> Floats:
    """Shares of equal buckets from those of blocks, shape (..., blocks) to (..., buckets)."""
    sizes = np.maximum(likelihood.sizes, 1)
    fine = np.repeat(shares / sizes, sizes, axis=-1)
    if not likelihood.sizes[0]:
        fine[..., 1] += fine[..., 0]
        fine[..., -2] += fine[..., -1]
        fine = fine[..., 1:-1]
    # A bucket has several blocks, or a block has several buckets.
    return np.asarray(fine.reshape(*shares.shape[:-1], buckets, -1).sum(axis=-1))


def kind(prior: Prior) -> str:
    """What a prior assumes to be smooth, in words."""
    if prior.heaps:
        return f"smooth log density with {'spikes and ' if prior.spikes else ''}heaps"
    if prior.spikes:
        at_ends = "many people at an end" if set(prior.spikes) <= {LOW, HIGH} else "spikes"
        return f"smooth log density with {at_ends}"
    if prior.support != (0.0, 1.0):
        return "log density that begins or ends inside of the range"
    if prior.ends:
        return "log density with powers at its ends"
    return f"{SHAPES[prior.order]} {SCALED[prior.scale]}"


def label(prior: Prior) -> str:
    """The name of a prior."""
    where = ", ends {:.3g} and {:.3g}".format(*prior.support) if prior.ends else ""
    spikes = [{LOW: "the low end", HIGH: "the high end"}.get(spike, str(spike)) for spike in prior.spikes]
    where += f", spikes {', '.join(spikes)}" if spikes else ""
    where += "".join(f", heights of {heaps.name} ({heaps.deviation:g})" for heaps in prior.heaps)
    return f"{SCALED[prior.scale]}, order {prior.order}, deviation {prior.deviation:.3g}{where}"


def sentence(fits: Sequence[Fit]) -> str:
    """What was chosen and why, in words."""
    by_kind: dict[str, float] = {}
    for fit in fits:
        by_kind[kind(fit.prior)] = by_kind.get(kind(fit.prior), 0.0) + fit.weight
    parts = ", ".join(
        f"{share:.0%} {name}"
        for name, share in sorted(by_kind.items(), key=lambda item: -item[1])
        if share >= LEAST_WEIGHT
    )
    return (
        f"average of {len(noted(fits))} smoothed distributions by how well each explains the reports "
        f"(marginal likelihood): {parts}"
    )


def auto_numbers(question: Question) -> Estimate:
    """The distribution of numbers, from the joint histogram if there is one."""
    fitted = fit(question)
    if fitted is None:
        estimate = ems(question, accelerated=True)
        chosen = "ems to its fixed point, because the reports are of too many kinds for a matrix"
        return replace(estimate, estimator="auto", details={"chosen": chosen, **estimate.details})
    shares = spread(fitted.likelihood, fitted.fits)
    attribute = question.attribute
    distribution = by_bucket(shares, fitted.likelihood, attribute.value_buckets)
    log_likelihood = float(fitted.likelihood.values(shares[:, None])[0]) + fitted.log_scale
    details: dict[str, object] = {
        "chosen": sentence(fitted.fits),
        "weights": {label(averaged.prior): averaged.weight for averaged in noted(fitted.fits)},
    }
    warnings: tuple[str, ...] = ()
    if is_joined(question):
        kept = information_kept(attribute, question.services, distribution)
        details["joint_buckets"] = shown_buckets(attribute, question.services)
        details["information_kept"] = kept
        warnings = resolution_warnings(attribute, kept)
    else:
        details |= question.composite_services
    answer = question.answer_distribution(
        "auto",
        distribution,
        converged=all(averaged.mode.converged for averaged in noted(fitted.fits)),
        n_iterations=sum(averaged.mode.steps for averaged in fitted.fits),
        log_likelihoods=np.array([log_likelihood]),
        warnings=warnings,
        details=details,
    )
    # Inside wide buckets the density is not even.
    fine = by_bucket(shares, fitted.likelihood, fine_buckets(attribute))
    mean, variance = distribution_moments(attribute.domain, fine)
    return replace(answer, mean=mean, variance=variance)

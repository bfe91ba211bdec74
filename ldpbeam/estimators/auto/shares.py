"""``auto`` for categories: empirical Bayes over the unbiased shares.

The answer averages two models of the shares, weighted by how likely they make the reports. In the first,
categories have no order, and their shares are draws from one distribution
(:mod:`~ldpbeam.estimators.auto.share_prior`). In the second, shares are a smooth curve along the order of the
categories, whose log has a prior of order 2 (:mod:`ldpbeam.density.priors`); curves of several deviations are
averaged, weighted by their evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ldpbeam.density.averaging import Family, average, log_evidence, weigh
from ldpbeam.density.priors import Prior
from ldpbeam.domains import Floats
from ldpbeam.estimators.auto.hashed_supports import with_all_counts
from ldpbeam.estimators.auto.share_likelihood import (
    MOST_CATEGORIES,
    Likelihood,
    by_place,
    independent_reports,
    likelihood_of,
)
from ldpbeam.estimators.auto.share_prior import MOST_STEPS, Posterior, posterior
from ldpbeam.estimators.em import em
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import CategoricalMechanism

#: The deviations of the slope's change; the smallest is nearly a straight line.
DEVIATIONS = np.geomspace(1e-2, 10.0**1.5, 12)
#: The standard deviations of half the log of the last share over the first, on a straight line.
SLOPES = (0.35, 2.0)
#: A model with less weight than this is not named.
LEAST_NAMED = 0.01


def curve(likelihood: Likelihood) -> tuple[Floats, float]:
    """(the averaged curve, shape (categories,), with sum 1; the log of the reports' average likelihood).

    The categories of the likelihood must not be grouped.
    """
    families = [
        Family([Prior(2, float(deviation), polynomial=slope) for deviation in DEVIATIONS]) for slope in SLOPES
    ]
    fits = weigh(likelihood, families)
    # Priors that were not tried have no evidence.
    tried = len(fits) / (len(DEVIATIONS) * len(SLOPES))
    return average(fits), log_evidence(fits) + math.log(tried)


@dataclass(frozen=True)
class ShareBelief:
    """The posterior distribution of each category's share: an average over both models.

    Attributes:
        likelihood: the likelihood of the reports.
        without_order: the model of categories without an order.
        along_order: the shares on the smooth curve, shape (categories,); None for too many categories.
        weight: the probability of the smooth curve.
    """

    likelihood: Likelihood
    without_order: Posterior
    along_order: Floats | None
    weight: float

    @property
    def shares(self) -> Floats:
        """The estimated share of each category, shape (categories,), not below zero, with sum 1.

        Without an order, it is halfway between the posterior mean given the sum, and the posterior quantile
        at the one level at which quantiles sum to one.
        """
        of_groups = 0.5 * (self.without_order.means() + self.without_order.quantiles())
        shares = of_groups[self.likelihood.members]
        if self.along_order is not None:
            shares = self.weight * self.along_order + (1.0 - self.weight) * shares
        return np.asarray(shares / shares.sum())


def share_belief(question: Question) -> ShareBelief:
    """The posterior distribution of each category's share; all mechanisms must give unbiased shares."""
    likelihood = likelihood_of(question)
    first = _belief(likelihood)
    sharper = with_all_counts(question, likelihood, by_place(question, first.shares))
    return first if sharper is None else _belief(sharper)


def _belief(likelihood: Likelihood) -> ShareBelief:
    without_order = posterior(likelihood)
    if len(likelihood.members) > MOST_CATEGORIES:
        return ShareBelief(likelihood, without_order, None, 0.0)
    along, evidence = curve(likelihood)
    odds = min(max(without_order.log_evidence - evidence, -700.0), 700.0)
    return ShareBelief(likelihood, without_order, along, 1.0 / (1.0 + math.exp(odds)))


def of_people(question: Question, belief: ShareBelief) -> Floats:
    """The shares of the people who reported, given those of the population: one step of EM, with sum 1.

    Given the population's share f, the share of the n people who reported has the variance f (1 - f)/n around
    f. If the log-likelihood of their reports has the slope s, the posterior mean is f + f (1 - f) s/n.

    Returns:
        Shares by category, shape (categories,); candidates without a name are one category.
    """
    likelihood, shares = belief.likelihood, belief.shares
    at_places = by_place(question, shares)
    reports = sum(independent_reports(question, index, at_places) for index in question.versions)
    of_groups = np.bincount(likelihood.members, shares) / likelihood.sizes
    slopes = likelihood.slopes(of_groups[:, None])[likelihood.members, 0]
    moved = np.maximum(shares + shares * (1.0 - shares) * slopes / reports, 0.0)
    return np.asarray(moved / moved.sum())


def auto_shares(question: Question) -> Estimate:
    """The shares of categories of the people who reported: not below zero, with sum 1.

    If a mechanism gives no unbiased shares, this is :func:`~ldpbeam.estimators.em.em`.
    """
    if not all(isinstance(mechanism, CategoricalMechanism) for mechanism in question.mechanisms):
        return em(question)
    belief = share_belief(question)
    details = {"chosen": chosen(belief), "weight_of_order": belief.weight}
    steps = belief.without_order.steps
    return question.answer_distribution(
        "auto",
        by_place(question, of_people(question, belief)),
        n_iterations=steps,
        converged=steps < MOST_STEPS,
        details=details,
    )


def chosen(belief: ShareBelief) -> str:
    """A sentence about what the estimate is made of."""
    without = "empirical Bayes: the shares of all categories tell how shares are distributed"
    along = "a smooth curve along the order of the categories"
    if belief.along_order is None:
        return f"{without}; so many categories are not tried as a curve"
    if belief.weight < LEAST_NAMED:
        return f"{without}; reports speak against {along}"
    if belief.weight > 1.0 - LEAST_NAMED:
        return f"{along}, which reports speak for"
    return f"{along} with weight {belief.weight:.2f}, and else {without}"

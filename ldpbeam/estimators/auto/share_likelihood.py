"""The likelihood of each category's share, from the unbiased shares of the services.

A mechanism for categories counts the reports that support each category: a report supports the person's
category with probability p, and every other one with probability q. The number of supports of a category is
approximately binomial, and nearly independent of the others. The likelihoods of several services multiply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Candidates, Floats, Integers
from ldpbeam.estimators.frequencies import unbiased_shares
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import CategoricalMechanism
from ldpbeam.over_time.joined_windows import JoinedSupports

#: With more categories than this, those with nearly equal unbiased shares are grouped: within a group, shares
#: differ by less than GROUP standard deviations.
MOST_CATEGORIES, GROUP = 2048, 0.1
#: Unbiased shares sum to one, up to rounding, if their sum differs from it by less than this.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Supports:
    """Binomial numbers of supports.

    Attributes:
        supports: the number of reports that support each category, not always whole, shape (categories, 1).
        reports: the number of reports, or a smaller number if a report says less than p and q imply; one
            number, or an array with the shape of ``supports``.
        p: the probability that a report supports the person's category.
        q: the probability that a report supports another category.
    """

    supports: Floats
    reports: float | Floats
    p: float
    q: float

    def log_likelihood(self, shares: Floats) -> Floats:
        """C log g + (n - C) log(1 - g) for C supports of n reports, g = q + (p - q) f."""
        chance = self.q + (self.p - self.q) * shares
        return self.supports * np.log(chance) + (self.reports - self.supports) * np.log1p(-chance)

    def slope(self, shares: Floats) -> Floats:
        """(p - q) (C/g - (n - C)/(1 - g))."""
        chance = self.q + (self.p - self.q) * shares
        rest = (self.reports - self.supports) / (1.0 - chance)
        return (self.p - self.q) * (self.supports / chance - rest)

    def information(self, shares: Floats) -> Floats:
        """N (p - q)^2 / (g (1 - g))."""
        chance = self.q + (self.p - self.q) * shares
        return self.reports * (self.p - self.q) ** 2 / (chance * (1.0 - chance))


@dataclass(frozen=True)
class Normal:
    """Unbiased shares whose noise is normal, with one variance.

    Attributes:
        shares: the unbiased shares, shape (categories, 1).
        variance: the variance of a share's noise.
    """

    shares: Floats
    variance: float

    def log_likelihood(self, shares: Floats) -> Floats:
        """Minus half of the squared difference over the variance."""
        return -0.5 * (self.shares - shares) ** 2 / self.variance

    def slope(self, shares: Floats) -> Floats:
        """The difference over the variance."""
        return (self.shares - shares) / self.variance

    def information(self, shares: Floats) -> Floats:
        """One over the variance."""
        return np.full(np.shape(shares), 1.0 / self.variance)


#: The likelihood of one service's reports. Its methods take shares of shape (categories, n) or (n,).
Part = Supports | Normal


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of the share of each category, or of each group of categories with equal reports.

    It is also a likelihood of densities (:class:`ldpbeam.density.likelihoods.Likelihood`).

    Attributes:
        shares: the unbiased shares, shape (groups,).
        parts: the likelihood of each service or version.
        members: the group of each category, shape (categories,).
        scale: the factor of log-likelihoods: 1 - 1/categories if the unbiased shares sum to one, because the
            last share then says nothing new.
        places: the number of places of each group's category, shape (groups, 1). It is one, except for the
            places of candidates without a name, which are one category. Their variances add up, so their
            reports carry that many times less information.
    """

    shares: Floats
    parts: tuple[Part, ...]
    members: Integers
    scale: float = 1.0
    places: float | Floats = 1.0

    @property
    def sizes(self) -> Integers:
        """The number of categories of each group, shape (groups,)."""
        return np.bincount(self.members)

    def log_likelihoods(self, shares: Floats) -> Floats:
        """By group, shape (groups, n), of shares by group, shape (groups, n), or common ones, shape (n,)."""
        return self._total([part.log_likelihood(shares) for part in self.parts]) / self.places

    def values(self, shares: Floats) -> Floats:
        """The log-likelihoods of all shares together, shape (groups, n) to (n,)."""
        # A sum over each column has smaller rounding errors than one over rows.
        return np.array([column.sum() for column in self.log_likelihoods(shares).T])

    def slopes(self, shares: Floats) -> Floats:
        """The slopes by share, shape (groups, n) to (groups, n)."""
        return self._total([part.slope(shares) for part in self.parts]) / self.places

    def information(self, shares: Floats) -> Floats:
        """The expected information on categories of one place at some shares, in the shape of these."""
        return self._total([part.information(shares) for part in self.parts])

    def expanded(self, shares: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """(the slopes by share, shape (groups,); the expected information along some directions)."""
        along = moves.T @ (self.information(shares)[:, None] / self.places * moves)
        return self.slopes(shares[:, None])[:, 0], along

    def _total(self, of_parts: list[Floats]) -> Floats:
        total: Floats = sum(of_parts[1:], of_parts[0])
        return self.scale * total


def likelihood_of(question: Question) -> Likelihood:
    """The likelihood of the shares of a question's categories, whose mechanisms give unbiased shares.

    All places of candidates without a name are one category. If each were a category, the prior would give
    each a share above zero, and all of them together too much.
    """
    unbiased, variance = unbiased_shares(question)
    shares, places = by_name(question, unbiased), by_name(question, np.ones(len(unbiased)))
    size, scale = len(shares), 1.0
    alike: Floats | Integers = np.arange(size)
    if size > MOST_CATEGORIES:
        alike = np.where(places > 1.0, np.inf, np.rint(shares / (GROUP * math.sqrt(variance))))
    elif abs(float(shares.sum()) - 1.0) < ROUNDING:
        scale = 1.0 - 1.0 / size
    _, members = np.unique(alike, return_inverse=True)
    parts = tuple(_part(question, index, members) for index in question.versions)
    return Likelihood(_means(shares, members), parts, members, scale, _means(places, members)[:, None])


def by_name(question: Question, values: Floats) -> Floats:
    """Sums over the places of each name of candidates; the values of other categories stay as they are."""
    domain = question.attribute.domain
    return domain.of_names(values) if isinstance(domain, Candidates) else values


def by_place(question: Question, shares: Floats) -> Floats:
    """The shares of candidates' places from those of names; those of other categories stay as they are."""
    domain = question.attribute.domain
    return domain.at_places(shares) if isinstance(domain, Candidates) else shares


def _means(values: Floats, members: Integers) -> Floats:
    """The mean of each group, shape (groups,)."""
    return np.bincount(members, values) / np.bincount(members)


def _part(question: Question, index: int, members: Integers) -> Part:
    """The likelihood of one service's or version's reports, by group of categories."""
    mechanism: CategoricalMechanism = question.mechanism(index)
    shares = mechanism.unbiased_frequencies(question.statistic.histograms[index], question.reports_of(index))
    reports = independent_reports(question, index, shares)
    named = by_name(question, shares)
    if mechanism.support_probabilities is None:
        return Normal(_means(named, members)[:, None], mechanism.frequency_variance / reports)
    p, q = mechanism.support_probabilities
    worth = reports / mechanism.collisions
    supports = np.clip(worth * (q + (p - q) * named), 0.0, worth)
    # Supports enter linearly, so the likelihood of a group is the average one of its categories.
    return Supports(_means(supports, members)[:, None], worth, p, q)


def independent_reports(question: Question, index: int, shares: Floats) -> float:
    """How many independent reports say as much about the shares, on average, as a channel's reports do.

    Args:
        question: the question that the reports answer.
        index: the index of the channel in ``attribute.versions``.
        shares: approximate shares, shape (categories,).
    """
    joined = question.statistic.joined
    if isinstance(joined, JoinedSupports):
        factors = joined.factors
    else:
        factors = question.share_factors(index, np.clip(shares, 0.0, 1.0))
    return float(question.reports_of(index) / factors.mean())

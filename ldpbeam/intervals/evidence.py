"""What reports say of a distribution: counts of kinds of reports, or of users, and their likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincc

from ldpbeam.channels import stacked
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.auto.joined import is_joined
from ldpbeam.estimators.em import products
from ldpbeam.estimators.joint_likelihood import JointLikelihood
from ldpbeam.estimators.question import Question

#: So many kinds stand for all kinds of reports, or of users, where there are more.
MOST_KINDS = 2**12
#: The likelihoods of all kinds of reports have at most so many entries.
MOST_ENTRIES = 2**25
#: A cell with a lower expected count is left out of the test of fit.
FEW = 5.0


@dataclass(frozen=True)
class Evidence:
    """Counts of kinds of reports, or of users, and their likelihoods by value bucket.

    If there are many kinds, some of them stand for all in second derivatives; first derivatives are exact.

    Attributes:
        total: the number of reports or users that are counted.
        people: the number of different people.
        slopes: a function from shares to the derivative of the log-likelihood by each share.
        rows: the likelihoods of the kinds that stand for all, shape (kinds, value buckets).
        counts: how many each of these stands for, shape (kinds,), with sum ``total``.
        misfit: a function from shares to the chance that a fit as bad as theirs comes from reports of these
            shares; None for kinds of users, which are too many to test.
    """

    total: float
    people: float
    slopes: Callable[[Floats], Floats]
    rows: Floats
    counts: Floats
    misfit: Callable[[Floats, float], float] | None = None

    def information(self, shares: Floats, change: Floats) -> Floats:
        """The information of coefficients by which the shares change, ``change`` of shape (buckets, n)."""
        scaled = self.rows @ change
        scaled *= (np.sqrt(self.counts) / (self.rows @ shares))[:, None]
        found: Floats = scaled.T @ scaled
        return found

    def around(self, mode: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """(log-likelihoods up to a constant, derivatives by each share) of shares near ``mode``.

        Args:
            mode: the shares where first derivatives are computed from all kinds, shape (buckets,).
            shares: the shares, shape (n, buckets).
        """
        probabilities = np.maximum(shares @ self.rows.T, 1e-300)
        missing = self.slopes(mode) - (self.counts / (self.rows @ mode)) @ self.rows
        likelihoods = np.log(probabilities) @ self.counts + (shares - mode) @ missing
        return likelihoods, (self.counts / probabilities) @ self.rows + missing

    def given_reports(self, shares: Floats) -> Floats:
        """The covariance of the shares of the people who reported, given the reports and a density.

        Args:
            shares: the density's shares, shape (buckets,).
        """
        held = self.rows * shares
        held /= held.sum(axis=1)[:, None]
        weighted = self.counts[:, None] * held
        covariance = np.diag(weighted.sum(axis=0)) - held.T @ weighted
        found: Floats = covariance / (self.total * self.people)
        return found


def evidence_of(question: Question, buckets: int) -> Evidence | None:
    """The evidence on ``buckets`` equal value buckets; None if the reports have no usable likelihood.

    The joint histogram is used if it has all services. A histogram that counts each report in several cells
    has no likelihood of whole reports.
    """
    if is_joined(question):
        return _of_users(question, buckets)
    return _of_reports(question, buckets)


def _of_users(question: Question, buckets: int) -> Evidence:
    asked = replace(question, attribute=replace(question.attribute, buckets=buckets))
    likelihood = JointLikelihood(asked)
    counts = likelihood.counts.astype(np.float64)

    def slopes(shares: Floats) -> Floats:
        return likelihood.products.evaluate(shares, counts)[1]

    kinds, standing = _standing(counts)
    return Evidence(counts.sum(), counts.sum(), slopes, likelihood.products.rows(kinds), standing)


def _of_reports(question: Question, buckets: int) -> Evidence | None:
    attribute, versions = question.attribute, question.versions
    mechanisms = [attribute.versions[index].mechanism for index in versions]
    if any(mechanism.composite for mechanism in mechanisms):
        return None
    channels = [m.histogram_channel(buckets, attribute.buckets) for m in mechanisms]
    channel = stacked(channels)
    if channel.shape[0] * buckets > MOST_ENTRIES:
        return None
    observed = np.concatenate([question.statistic.histograms[index] for index in versions]).astype(np.float64)
    seen = np.flatnonzero(observed)
    forward, backward = products(channel, seen)
    counts = observed[seen]

    def slopes(shares: Floats) -> Floats:
        return backward(counts / forward(shares))

    reports = np.repeat([question.reports_of(index) for index in versions], [c.shape[0] for c in channels])

    def misfit(shares: Floats, freedom: float) -> float:
        expected = reports * channel.matvec(shares)
        tested = expected >= FEW
        chi_square = float(((observed - expected)[tested] ** 2 / expected[tested]).sum())
        return float(gammaincc(0.5 * max(1.0, tested.sum() - len(channels) - freedom), 0.5 * chi_square))

    kinds, standing = _standing(counts)
    total = float(counts.sum())
    people = total if question.users is None else float(question.users)
    return Evidence(total, people, slopes, channel.rows(seen[kinds]), standing, misfit)


def _standing(counts: Floats) -> tuple[Integers, Floats]:
    """(the kinds that stand for all, how many each stands for): all, or those of evenly spaced users."""
    if len(counts) <= MOST_KINDS:
        return np.arange(len(counts)), counts
    places = (np.arange(MOST_KINDS) + 0.5) * (counts.sum() / MOST_KINDS)
    kinds, standing = np.unique(np.searchsorted(np.cumsum(counts), places), return_counts=True)
    return kinds, standing * (counts.sum() / MOST_KINDS)

"""The input of every estimator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Domain, Floats, Integers, Numeric
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.memoised import SupportChain
from ldpbeam.over_time.joined_windows import JoinedCells
from ldpbeam.over_time.variance_by_user import noise_factor
from ldpbeam.statistics import Statistic

#: A function that estimators call after each iteration, with the iteration's number and log-likelihood.
Progress = Callable[[int, float], None]

#: Unbiased and cut shares need not sum to one; an estimate has a warning if their sum differs by more.
FAR_FROM_ONE = 0.01
#: The share of false reports to assume if all reports of a service may be false.
NEARLY_ALL = 1.0 - 1e-6


@dataclass(frozen=True)
class Question:
    """The input of an estimator: a statistic, its attribute, and the services whose reports to use.

    Attributes:
        attribute: the attribute of the statistic.
        statistic: a statistic with at least one report from the services.
        services: the services whose reports to use.
        progress: if not None, it is called after every iteration.
        windows: the number of windows of one length that the reports are of; several in a roll-up.
    """

    attribute: Attribute
    statistic: Statistic
    services: tuple[str, ...]
    progress: Progress | None = None
    windows: int = 1

    @property
    def versions(self) -> tuple[int, ...]:
        """The channels to use that have reports, as indexes into ``attribute.versions``."""
        return tuple(index for index in self.attribute.versions_of(self.services) if self.reports_of(index))

    def mechanism(self, index: int) -> Any:
        """The mechanism of ``attribute.versions[index]``, whose base the estimator's check has verified."""
        return self.attribute.versions[index].mechanism

    @property
    def mechanisms(self) -> list[Any]:
        """The mechanism of each of ``versions``."""
        return [self.mechanism(index) for index in self.versions]

    @property
    def histograms(self) -> list[Integers]:
        """The histogram of each of ``versions``."""
        return [self.statistic.histograms[index] for index in self.versions]

    @property
    def independence(self) -> dict[str, str]:
        """For the details: what a likelihood of histograms takes to be independent although it is not."""
        composite = any(mechanism.composite for mechanism in self.mechanisms)
        counts = {"composite": "the counts of one report are taken as independent"} if composite else {}
        return self.composite_services | counts

    @property
    def composite_services(self) -> dict[str, str]:
        """For the details: whether the reports of one user to several services are taken as independent."""
        services = {self.attribute.versions[index].service for index in self.versions}
        several = "composite: reports of one user to several services as independent"
        return {"likelihood": several} if len(services) > 1 else {}

    def reports_of(self, index: int) -> int:
        """The number of reports of ``attribute.versions[index]``: one per user who answered it."""
        return self.statistic.reports_of(index)

    @property
    def reports(self) -> int:
        """The number of reports of the services."""
        return sum(map(self.reports_of, self.versions))

    @property
    def apart(self) -> float:
        """The share of the reports whose users answered no other channel in use, in [0, 1].

        Estimators weight a service's reports by precision. That is enough if the same people answer all
        services. If services ask different people, the few people of one service represent everybody less
        well, however precise their reports are.
        """
        used = sum(1 << index for index in self.versions)
        alone = sum(
            moments.users
            for mask, moments in self.statistic.moments.items()
            if (mask & used).bit_count() == 1
        )
        return alone / self.reports if self.reports else 0.0

    def unevenness(self, weights: Mapping[int, ArrayLike]) -> Floats:
        """The sum over users of (w - mean w)^2, where w is the sum of the weights of a user's reports.

        An estimate is of all people who reported, each counted once. If weights that sum to one count some of
        them more than others, a mean of values has this times the variance of people's values.

        Args:
            weights: the weight of a report by channel: a number, or one per mean if there are several.
        """
        users, sums = [], []
        for mask, moments in sorted(self.statistic.moments.items()):
            answered = [np.asarray(weights[index]) for index in weights if mask >> index & 1]
            if answered:
                users.append(moments.users)
                sums.append(np.sum(answered, axis=0))
        of_masks = np.array(sums, dtype=np.float64)
        apart = of_masks - np.average(of_masks, axis=0, weights=users)
        return np.asarray(np.array(users, dtype=np.float64) @ apart**2)

    def false_share(self, channels: Collection[int], liars: float) -> float:
        """The largest share of the reports of some channels that liars may have sent, below one.

        Liars are taken to be the users who answered most of these channels.

        Args:
            channels: indexes into ``attribute.versions``.
            liars: the share of the services' users, or of reports where users are not counted, who may send
                anything.
        """
        used, others = (sum(1 << index for index in of) for of in (channels, self.versions))
        moments = self.statistic.moments.items()
        answered = [((mask & used).bit_count(), sums.users) for mask, sums in moments if mask & others]
        left = liars * sum(users for _, users in answered)
        false, reports = 0.0, sum(times * users for times, users in answered)
        for times, users in sorted(answered, reverse=True):
            false, left = false + times * min(users, left), max(left - users, 0.0)
        return min(false / reports, NEARLY_ALL)

    @property
    def repeats(self) -> int:
        """How often one person is counted at most: once per window if clients remember their noise.

        Otherwise a person's windows count as those of different people.
        """
        remember = any(self.attribute.versions[index].lifetime is not None for index in self.versions)
        return self.windows if remember else 1

    def noise_factor(self, index: int) -> float:
        """The most by which windows of the same people raise the noise variance of ``versions[index]``.

        It is 1 for a single window, and for fresh noise. If windows are joined by user, it is by how much
        they raise the variance, with fresh noise or not.
        """
        if isinstance(self.statistic.joined, JoinedCells):
            return noise_factor(self.attribute, index, self.statistic.joined)
        lifetime = self.attribute.versions[index].lifetime
        return 1.0 if lifetime is None else lifetime.chain.factor(self.windows)

    def share_factors(self, index: int, shares: Floats) -> Floats:
        """The same for the unbiased share of each category, given roughly the shares that people have."""
        lifetime = self.attribute.versions[index].lifetime
        if lifetime is None or not isinstance(lifetime.chain, SupportChain):
            return np.ones(len(shares))
        return lifetime.chain.share_factors(shares, self.windows)

    @property
    def users(self) -> int | None:
        """The number of users who sent reports to the services; None if reports are not grouped by user."""
        if self.statistic.users is None or self.statistic.joined is not None:
            return self.statistic.users
        used = sum(1 << index for index in self.versions)
        return sum(m.users for mask, m in self.statistic.moments.items() if mask & used)

    def answer(self, estimator: str, **parts: Any) -> Estimate:
        """An estimate with the name, the services and the counts filled in; ``parts`` has other fields."""
        return Estimate(estimator, self.services, self.reports, self.users, **parts)

    def answer_distribution(self, estimator: str, distribution: Floats, **parts: Any) -> Estimate:
        """An estimate of a distribution, with its mean and variance for a numeric domain.

        It has a warning if the shares of a numeric domain do not sum to one. If a value bucket holds several
        values of a step, their shares are added up.
        """
        if len(distribution) > self.attribute.value_buckets:
            distribution = distribution.reshape(self.attribute.value_buckets, -1).sum(axis=1)
        total, warnings = float(distribution.sum()), list(parts.pop("warnings", ()))
        mean, variance = None, None
        if total > 0.0:
            mean, variance = distribution_moments(self.attribute.domain, distribution / total)
            warnings += _outside(self.attribute, distribution / total)
        if isinstance(self.attribute.domain, Numeric) and abs(total - 1.0) > FAR_FROM_ONE:
            scaled = "mean, variance and quantiles are of the shares scaled to one"
            consequence = scaled if total > 0.0 else "there is no mean, variance or quantile"
            warnings.append(f"the shares add up to {total:.3g}, so {consequence}")
        parts |= {"mean": mean, "variance": variance, "warnings": tuple(warnings)}
        return self.answer(estimator, distribution=distribution, **parts)


def _outside(attribute: Attribute, distribution: Floats) -> Iterator[str]:
    """A sentence if no values of the domain could have the mean of these shares."""
    if not isinstance(attribute.domain, Numeric):
        return
    mean = float(distribution @ attribute.domain.middles(len(distribution)))
    if not 0.0 <= mean <= 1.0:
        in_domain = float(attribute.domain.at(mean))
        yield f"the shares have a mean of {in_domain:.6g}, outside of the domain, so the nearest end is given"


def distribution_moments(domain: Domain, distribution: Floats) -> tuple[float | None, float | None]:
    """(mean, variance) of a distribution whose values are equally likely inside each bucket, in its unit.

    Both are None for a domain that is not numeric. Negative shares can lead to numbers that no values have;
    the nearest possible ones are given.
    """
    if not isinstance(domain, Numeric):
        return None, None
    x = domain.middles(len(distribution))
    mean = float(distribution @ x)
    variance = float(distribution @ (x - mean) ** 2) + domain.variance_within(distribution)
    mean, variance = min(max(mean, 0.0), 1.0), min(max(variance, 0.0), 0.25)
    return float(domain.at(mean)), variance * domain.width**2

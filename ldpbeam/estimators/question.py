"""What every estimator is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Domain, Floats, Numeric, bucket_midpoints
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.statistics import Statistic

#: Called after each iteration with the iteration's number and its log-likelihood.
Progress = Callable[[int, float], None]

#: Unbiased and cut shares need not add up to one; from here on that is said.
FAR_FROM_ONE = 0.01


@dataclass(frozen=True)
class Question:
    """What an estimator is asked: a statistic, its attribute, and whose reports to use.

    Attributes:
        attribute: the attribute the statistic is of.
        statistic: with one report or more from the services.
        services: whose reports to use.
        progress: told of every iteration, where given.
    """

    attribute: Attribute
    statistic: Statistic
    services: tuple[str, ...]
    progress: Progress | None = None

    @property
    def versions(self) -> tuple[int, ...]:
        """The channels to use, as indexes into ``attribute.versions``; those without a report left out."""
        return tuple(index for index in self.attribute.versions_of(self.services) if self.reports_of(index))

    def reports_of(self, index: int) -> int:
        """How many reports a channel has: one a user who answered it."""
        return sum(m.users for mask, m in self.statistic.moments.items() if mask >> index & 1)

    @property
    def reports(self) -> int:
        """How many reports the services have."""
        return sum(map(self.reports_of, self.versions))

    @property
    def apart(self) -> float:
        """The share of the reports whose users answered no other channel in use.

        Where the same people answer all services, whom the services asked is no reason to weight one more; of
        different people, fewer say less of everybody, however precise their reports are.
        """
        used = sum(1 << index for index in self.versions)
        alone = sum(
            moments.users
            for mask, moments in self.statistic.moments.items()
            if (mask & used).bit_count() == 1
        )
        return alone / self.reports if self.reports else 0.0

    @property
    def users(self) -> int | None:
        """How many users sent them, None where users were not grouped."""
        if self.statistic.users is None:
            return None
        used = sum(1 << index for index in self.versions)
        return sum(m.users for mask, m in self.statistic.moments.items() if mask & used)

    def answer(self, estimator: str, **parts: Any) -> Estimate:
        """An estimate that names what it stands on."""
        return Estimate(estimator, self.services, self.reports, self.users, **parts)

    def answer_distribution(self, estimator: str, distribution: Floats, **parts: Any) -> Estimate:
        """An estimate of a distribution, with the mean and variance it implies for numbers."""
        total = float(distribution.sum())
        moments: tuple[float | None, float | None] = None, None
        if total > 0.0:
            moments = distribution_moments(self.attribute.domain, distribution / total)
        mean, variance = moments
        if isinstance(self.attribute.domain, Numeric) and abs(total - 1.0) > FAR_FROM_ONE:
            scaled = "mean, variance and quantiles are of the shares scaled to one"
            told = f"so {scaled}" if total > 0.0 else "so there is no mean, variance or quantile"
            parts["warnings"] = (*parts.get("warnings", ()), f"the shares add up to {total:.3g}, {told}")
        return self.answer(estimator, distribution=distribution, mean=mean, variance=variance, **parts)


def distribution_moments(domain: Domain, distribution: Floats) -> tuple[float | None, float | None]:
    """(mean, variance) of a distribution uniform inside each bucket; None, None for categories."""
    if not isinstance(domain, Numeric):
        return None, None
    x = bucket_midpoints(len(distribution))
    mean = float(distribution @ x)
    within = 1.0 / (12.0 * len(distribution) ** 2)
    variance = float(distribution @ (x - mean) ** 2) + within
    return float(domain.from_unit(mean)), variance * domain.width**2

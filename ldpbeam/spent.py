"""What users spent over a period: from the distinct reports that arrived to epsilons.

Fresh noise adds up: n reports at epsilon spend n epsilon. For clients that remember their noise there are two
lines. About *which values* a user had, n reports spend min(n epsilon_1, c epsilon_inf), where c is the number
of different values. About anything, *changes included*, they spend n times the epsilon of the instant step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpbeam.attributes import ServiceVersion
from ldpbeam.domains import Floats
from ldpbeam.memoised import steps_of
from ldpbeam.study import Study

#: Sums of epsilons are rounded to this many decimals before they are compared.
DECIMALS = 9
#: A line of a ledger lists at most this many epsilons.
MOST_LEVELS = 20


def services_of(study: Study) -> tuple[tuple[str, int], ...]:
    """(attribute, index of the version), for all channels of the study in its order."""
    return tuple((name, i) for name in study.attributes for i in range(len(study.attribute(name).versions)))


@dataclass(frozen=True)
class Costs:
    """What a user's reports to each service spend, in arrays of shape (services,).

    Attributes:
        epsilon: about values, per report.
        most: about values, for any number of reports; infinity if noise is fresh.
        instant: changes included, per report.
        delta: the delta of a report.
    """

    epsilon: Floats
    most: Floats
    instant: Floats
    delta: Floats

    @property
    def remembered(self) -> bool:
        """Whether the two lines can differ."""
        return bool(np.isfinite(self.most).any())


def values_of(version: ServiceVersion) -> int:
    """The most different values of a user in a period, if clients remember their noise."""
    assert version.lifetime is not None
    possible = version.lifetime.chain.inputs
    return min(version.values_at_most or possible, possible)


def costs_of(study: Study) -> Costs:
    """The costs of :func:`services_of`."""
    versions = [study.attribute(name).versions[index] for name, index in services_of(study)]
    most, instant = np.full(len(versions), np.inf), np.array([v.named.epsilon for v in versions])
    for position, version in enumerate(versions):
        if version.lifetime is not None:
            most[position] = values_of(version) * version.lifetime.epsilon
            instant[position] = steps_of(version.lifetime).loss
    return Costs(
        epsilon=np.array([v.named.epsilon for v in versions]),
        most=most,
        instant=instant,
        delta=np.array([v.mechanism.delta for v in versions]),
    )


@dataclass(frozen=True)
class Line:
    """The number of users who spent each epsilon: two arrays, by ascending epsilon."""

    epsilons: Floats
    users: NDArray[np.int64]

    def levels(self) -> list[tuple[float, int]]:
        """(an epsilon, the number of users who spent at most this), at most :data:`MOST_LEVELS` of them.

        The last is the largest epsilon. If there are more, these divide the users into equal shares.
        """
        up_to = np.cumsum(self.users)
        places = np.arange(len(up_to))
        if len(up_to) > MOST_LEVELS:
            shares = up_to[-1] * np.arange(1, MOST_LEVELS + 1) / MOST_LEVELS
            places = np.unique(np.minimum(np.searchsorted(up_to, shares), len(up_to) - 1))
        return [(float(self.epsilons[i]), int(up_to[i])) for i in places]

    def above(self, cap: float | None) -> int:
        """The number of users who spent more than the cap; 0 without one."""
        # What they spent is rounded.
        return 0 if cap is None else int(self.users[self.epsilons > round(cap, DECIMALS)].sum())


@dataclass(frozen=True)
class PeriodSpent:
    """What users spent in one period.

    Attributes:
        about_values: what they spent about which values they had.
        changes_included: what they spent about anything.
        delta: the largest delta of a user.
        reports: the number of distinct reports.
    """

    about_values: Line
    changes_included: Line
    delta: float
    reports: int


def spent(periods: NDArray[np.int64], reports: NDArray[np.int64], costs: Costs) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period.

    Args:
        periods: the start of the period of each user, shape (n,); a user may be in several periods.
        reports: the number of reports of each user to each service in the period, shape (services, n).
        costs: the costs of each service.
    """
    epsilon, most, instant, delta = (
        cost[:, np.newaxis] for cost in (costs.epsilon, costs.most, costs.instant, costs.delta)
    )
    values, changes, deltas = (
        np.round(amounts.sum(axis=0), DECIMALS)
        for amounts in (np.minimum(reports * epsilon, most), reports * instant, reports * delta)
    )
    result = {}
    for start in np.unique(periods):
        inside = periods == start
        result[int(start)] = PeriodSpent(
            about_values=Line(*np.unique(values[inside], return_counts=True)),
            changes_included=Line(*np.unique(changes[inside], return_counts=True)),
            delta=float(deltas[inside].max()),
            reports=int(reports[:, inside].sum()),
        )
    return result


def added(totals: Mapping[int, PeriodSpent], more: Mapping[int, PeriodSpent]) -> dict[int, PeriodSpent]:
    """What two sets of users spent together; no user is in both in the same period."""
    result = dict(totals)
    for start, addition in more.items():
        before = result.get(start)
        if before is None:
            result[start] = addition
            continue
        result[start] = PeriodSpent(
            _together(before.about_values, addition.about_values),
            _together(before.changes_included, addition.changes_included),
            max(before.delta, addition.delta),
            before.reports + addition.reports,
        )
    return result


def _together(one: Line, other: Line) -> Line:
    epsilons, places = np.unique(np.concatenate([one.epsilons, other.epsilons]), return_inverse=True)
    users = np.zeros(len(epsilons), dtype=np.int64)
    np.add.at(users, places, np.concatenate([one.users, other.users]))
    return Line(epsilons, users)

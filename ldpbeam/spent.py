"""What users spent over a period: from the distinct reports that were received to epsilons.

Fresh noise adds up: n reports at epsilon spend n epsilon. Of clients that remember their noise there are two
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

#: Epsilons are added up in floating point, and compared after rounding to this many decimals.
DECIMALS = 9
#: A line of a ledger lists at most this many epsilons.
MOST_LEVELS = 20


def services_of(study: Study) -> tuple[tuple[str, int], ...]:
    """(attribute, index of the version) of everything that users report to, in the study's order."""
    return tuple((name, i) for name in study.attributes for i in range(len(study.attribute(name).versions)))


@dataclass(frozen=True)
class Costs:
    """What n reports of a user to each service spend, in arrays of shape (services,).

    Attributes:
        epsilon: about values, for each report.
        most: about values, for any number of reports; infinity where noise is fresh.
        instant: changes included, for each report.
        delta: for each report.
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
    """How many different values a user of clients that remember their noise can have in a period."""
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
    """How many users spent each epsilon: both of shape (different epsilons,), the epsilons ascending."""

    epsilons: Floats
    users: NDArray[np.int64]

    def levels(self) -> list[tuple[float, int]]:
        """(epsilon, how many users spent at most that), at most :data:`MOST_LEVELS`; the last is the largest.

        With more epsilons than that, they are those of equal shares of the users.
        """
        up_to = np.cumsum(self.users)
        places = np.arange(len(up_to))
        if len(up_to) > MOST_LEVELS:
            shares = up_to[-1] * np.arange(1, MOST_LEVELS + 1) / MOST_LEVELS
            places = np.unique(np.minimum(np.searchsorted(up_to, shares), len(up_to) - 1))
        return [(float(self.epsilons[i]), int(up_to[i])) for i in places]

    def above(self, cap: float | None) -> int:
        """How many users spent more than a cap; 0 without one."""
        # What they spent is rounded.
        return 0 if cap is None else int(self.users[self.epsilons > round(cap, DECIMALS)].sum())


@dataclass(frozen=True)
class PeriodSpent:
    """What users spent in one period.

    Attributes:
        about_values: about which values a user had.
        changes_included: about anything.
        delta: the largest delta of a user.
        reports: how many distinct reports there are.
    """

    about_values: Line
    changes_included: Line
    delta: float
    reports: int


def spent(periods: NDArray[np.int64], reports: NDArray[np.int64], costs: Costs) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period.

    Args:
        periods: the start of the period of each user, shape (n,); a user may be in several periods.
        reports: how many reports each of them sent to each service in it, shape (services, n).
        costs: the costs of each service.
    """
    epsilon, most, instant, delta = (
        each[:, np.newaxis] for each in (costs.epsilon, costs.most, costs.instant, costs.delta)
    )
    values, changes, deltas = (
        np.round(each.sum(axis=0), DECIMALS)
        for each in (np.minimum(reports * epsilon, most), reports * instant, reports * delta)
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
    """What two sets of users spent; none of them is in both, in the same period."""
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

"""What users spent over a period: from the distinct reports that were received to epsilons.

A report is one row of integers: who sent it, in which window, to which service, and what it says. Users and
payloads are keyed hashes. The rows of several files are a set: a report that is in two of them counts once.

Fresh noise adds up: n reports at epsilon spend n epsilon. Of clients that remember their noise there are two
lines. About *which values* a user had, n reports spend min(n epsilon_1, c epsilon_inf), where c is the number
of different values. About anything, *changes included*, they spend n times the epsilon of the instant step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpbeam.attributes import ServiceVersion
from ldpbeam.domains import Floats
from ldpbeam.study import LedgerPeriod, Study

Unsigned = NDArray[np.uint64]

#: Epsilons are added up in floating point, and compared after rounding to this many decimals.
DECIMALS = 9
#: A line of a ledger is told by at most this many epsilons.
MOST_LEVELS = 20


@dataclass(frozen=True)
class Received:
    """Reports that were received, in columns of shape (n,).

    Attributes:
        high: the first 64 bits of the keyed hash of each report's user id.
        low: its last 64 bits.
        window: the start of its window, in milliseconds: of the step of windows that slide, and without
            windows of the period.
        service: its place in :func:`services_of`.
        payload: a keyed hash of its payload.
    """

    high: Unsigned
    low: Unsigned
    window: NDArray[np.int64]
    service: NDArray[np.uint16]
    payload: Unsigned

    def __len__(self) -> int:
        return len(self.high)

    @property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The columns by name, in the order of a file."""
        return {name: getattr(self, name) for name in KINDS}

    def chosen(self, rows: NDArray[np.generic] | slice) -> Received:
        """Some of the rows: a mask, indexes, or a slice."""
        return Received(*(getattr(self, name)[rows] for name in KINDS))


#: The columns and their types.
KINDS: Mapping[str, type[np.generic]] = {
    "high": np.uint64, "low": np.uint64, "window": np.int64, "service": np.uint16, "payload": np.uint64,
}  # fmt: skip


def concatenated(parts: Sequence[Received]) -> Received:
    """The rows of all parts, one after the other; none without parts."""
    return Received(
        *(
            np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)], dtype=kind)
            for name, kind in KINDS.items()
        )
    )


def distinct(rows: Received, only_from: int = 0) -> Received:
    """The rows in the order of users, windows, services and payloads, each once.

    Args:
        rows: the rows.
        only_from: only rows from this place on, and of these only those that are not before it.
    """
    # Stable: of equal rows, the one that came first stays first.
    order = np.lexsort((rows.payload, rows.service, rows.window, rows.low, rows.high))
    first = order[_differ(rows, order, tuple(KINDS))]
    return rows.chosen(first[first >= only_from])


def _differ(rows: Received, order: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows, in an order, differ from the one before in some column, shape (n,); the first does."""
    differ = np.zeros(len(order), dtype=np.bool_)
    differ[:1] = True
    for name in names:
        column = getattr(rows, name)[order]
        differ[1:] |= column[1:] != column[:-1]
    return differ


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
            instant[position] = version.lifetime.chain.loss
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
        return 0 if cap is None else int(self.users[self.epsilons > cap].sum())


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


def spent(rows: Received, costs: Costs, ledger: LedgerPeriod) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period.

    Args:
        rows: all reports of the users, as of :func:`distinct`.
        costs: the costs of each service.
        ledger: the period.
    """
    if not len(rows):
        return {}
    starts = rows.window - rows.window % ledger.period
    fresh = _differ(rows, np.arange(len(rows)), ("high", "low"))
    fresh[1:] |= starts[1:] != starts[:-1]
    persons = np.cumsum(fresh) - 1
    of_person = starts[fresh]
    services = len(costs.epsilon)
    pairs, reports = np.unique(persons * services + rows.service, return_counts=True)
    person, service = pairs // services, pairs % services
    values, changes, deltas = (
        np.round(np.bincount(person, weights=each, minlength=len(of_person)), DECIMALS)
        for each in (
            np.minimum(reports * costs.epsilon[service], costs.most[service]),
            reports * costs.instant[service],
            reports * costs.delta[service],
        )
    )
    each_person = np.bincount(persons)
    result = {}
    for start in np.unique(of_person):
        in_period = of_person == start
        result[int(start)] = PeriodSpent(
            about_values=Line(*np.unique(values[in_period], return_counts=True)),
            changes_included=Line(*np.unique(changes[in_period], return_counts=True)),
            delta=float(deltas[in_period].max()),
            reports=int(each_person[in_period].sum()),
        )
    return result


def added(totals: Mapping[int, PeriodSpent], more: Mapping[int, PeriodSpent]) -> dict[int, PeriodSpent]:
    """What two sets of users spent, of which none is in both."""
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

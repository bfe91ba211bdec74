"""What users spent over a period: from the distinct reports that were received to epsilons.

A report is one row of integers: who sent it, in which window, to which service, and what it says. Users and
payloads are keyed hashes. The rows of several files are a set: a report that is in two of them counts once.

Fresh noise adds up: n reports at epsilon spend n epsilon. Of clients that remember their noise there are two
lines. About *which values* a user had, n reports spend min(n epsilon_1, c epsilon_inf), where c is the number
of different values. About anything, *changes included*, they spend n times the epsilon of the instant step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldpbeam.attributes import ServiceVersion
from ldpbeam.domains import Floats
from ldpbeam.study import Study

Unsigned = NDArray[np.uint64]

#: Epsilons are added up in floating point, and compared after rounding to this many decimals.
DECIMALS = 9
#: A line of a ledger is told by at most this many epsilons.
MOST_LEVELS = 20


_USER: dict[str, type[np.generic]] = {"high": np.uint64, "low": np.uint64}


class Rows:
    """Rows of users: columns of shape (n,), of which ``high`` and ``low`` are the keyed hash of a user id."""

    #: The columns and their types, in the order of a file.
    KINDS: ClassVar[Mapping[str, type[np.generic]]]
    high: Unsigned

    def __len__(self) -> int:
        return len(self.high)

    @property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The columns by name, in the order of a file."""
        return {name: getattr(self, name) for name in self.KINDS}

    def chosen(self, rows: NDArray[np.generic] | slice) -> Self:
        """Some of the rows: a mask, indexes, or a slice."""
        return type(self)(*(column[rows] for column in self.columns.values()))

    @classmethod
    def concatenated(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, one after the other; none without parts."""
        return cls(
            *(
                np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)], dtype=kind)
                for name, kind in cls.KINDS.items()
            )
        )


@dataclass(frozen=True)
class Received(Rows):
    """Reports that were received.

    Attributes:
        high: the first 64 bits of the keyed hash of each report's user id.
        low: its last 64 bits.
        window: the start of its window, in milliseconds: of the step of windows that slide, and without
            windows of the period.
        service: its place in :func:`services_of`.
        payload: a keyed hash of its payload; and of its report id, or else its event time, where a user may
            have several reports in a window.
    """

    KINDS = MappingProxyType(_USER | {"window": np.int64, "service": np.uint16, "payload": np.uint64})
    high: Unsigned
    low: Unsigned
    window: NDArray[np.int64]
    service: NDArray[np.uint16]
    payload: Unsigned


@dataclass(frozen=True)
class UserReports(Rows):
    """How many distinct reports each user sent to each service in each period.

    Attributes:
        high: as of :class:`Received`.
        low: as of :class:`Received`.
        period: the start of the period, in milliseconds.
        service: as of :class:`Received`.
        reports: how many; negative for reports that no longer count.
    """

    KINDS = MappingProxyType(_USER | {"period": np.int64, "service": np.uint16, "reports": np.int64})
    high: Unsigned
    low: Unsigned
    period: NDArray[np.int64]
    service: NDArray[np.uint16]
    reports: NDArray[np.int64]


def distinct(rows: Received, only_from: int = 0) -> Received:
    """The rows in the order of users, windows, services and payloads, each once.

    Args:
        rows: the rows.
        only_from: only rows from this place on, and of these only those that are not before it.
    """
    # Stable: of equal rows, the one that came first stays first.
    order, differs = _in_order(rows, tuple(Received.KINDS))
    first = order[differs]
    return rows.chosen(first[first >= only_from])


def counted(rows: Received, period: int) -> UserReports:
    """How many reports each user sent to each service in each period of so many milliseconds."""
    starts = rows.window - rows.window % period
    return summed(UserReports(rows.high, rows.low, starts, rows.service, np.ones(len(rows), dtype=np.int64)))


def summed(rows: UserReports) -> UserReports:
    """One row for each user, period and service, in their order; those without reports are left out."""
    order, differs = _in_order(rows, ("high", "low", "period", "service"))
    first = np.flatnonzero(differs)
    if not len(first):
        return rows
    reports = np.add.reduceat(rows.reports[order], first)
    return replace(rows.chosen(order[first]), reports=reports).chosen(reports != 0)


def negative(rows: UserReports) -> UserReports:
    """Rows that take away from others what these add, in :func:`summed`."""
    return replace(rows, reports=-rows.reports)


def _in_order(rows: Rows, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(the order of rows by some columns, ``high`` first; :func:`_differ` of it), both of shape (n,).

    Equal rows stay in their order. Rows mostly come as parts that are in order. A stable sort by one column
    only merges them, and leaves few users to be sorted by all columns.
    """
    order: NDArray[np.int64] = np.argsort(rows.high, kind="stable")
    descends, equal = (np.full(max(len(order) - 1, 0), value) for value in (False, True))
    for name in names:
        column = getattr(rows, name)[order]
        descends |= equal & (column[1:] < column[:-1])
        equal &= column[1:] == column[:-1]
    if not descends.any():
        differs = np.ones(len(order), dtype=np.bool_)
        differs[1:] = ~equal
        return order, differs
    user = np.cumsum(_differ(rows, order, ("high",))) - 1
    unsorted = np.zeros(len(order), dtype=np.bool_)
    unsorted[user[1:][descends]] = True
    places = np.flatnonzero(unsorted[user])
    users_rows = order[places]
    columns = [getattr(rows, name)[users_rows] for name in reversed(names)]
    order[places] = users_rows[np.lexsort(columns)]
    return order, _differ(rows, order, names)


def _differ(rows: Rows, order: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.bool_]:
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


def spent(rows: UserReports, costs: Costs) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period.

    Args:
        rows: all reports of the users, as of :func:`summed`.
        costs: the costs of each service.
    """
    if not len(rows):
        return {}
    first = _differ(rows, np.arange(len(rows)), ("high", "low", "period"))
    person, of_person = np.cumsum(first) - 1, rows.period[first]
    service, reports = rows.service, rows.reports
    values, changes, deltas = (
        np.round(np.bincount(person, weights=each), DECIMALS)
        for each in (
            np.minimum(reports * costs.epsilon[service], costs.most[service]),
            reports * costs.instant[service],
            reports * costs.delta[service],
        )
    )
    result = {}
    for start in np.unique(of_person):
        in_period = of_person == start
        result[int(start)] = PeriodSpent(
            about_values=Line(*np.unique(values[in_period], return_counts=True)),
            changes_included=Line(*np.unique(changes[in_period], return_counts=True)),
            delta=float(deltas[in_period].max()),
            reports=int(reports[rows.period == start].sum()),
        )
    return result


def added(totals: Mapping[int, PeriodSpent], more: Mapping[int, PeriodSpent]) -> dict[int, PeriodSpent]:
    """What two sets of users without a common user spent."""
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

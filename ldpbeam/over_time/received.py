"""Reports that were received, one row of integers each: what the ledger of a period adds up.

A row says who sent the report, in which window, to which service, and what it says. Users and payloads are
keyed hashes. The rows of several files are a set: a report that is in two of them counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldpbeam.cells import Cells

Unsigned = NDArray[np.uint64]

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
        service: its place in :func:`ldpbeam.over_time.spent.services_of`.
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
        high: the first 64 bits of the keyed hash of each user id.
        low: its last 64 bits.
        period: the start of the period, in milliseconds.
        service: the place of the service's version (:func:`ldpbeam.over_time.spent.services_of`).
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


def counted(rows: Received, periods: Cells) -> UserReports:
    """How many reports each user sent to each service in each period."""
    starts = periods.starts(periods.numbers(rows.window))
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
    """The rows with negative counts: :func:`summed` subtracts them."""
    return replace(rows, reports=-rows.reports)


def _in_order(rows: Rows, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(the order of rows by some columns, ``high`` first; :func:`differ` of it), both of shape (n,).

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
    user = np.cumsum(differ(rows, order, ("high",))) - 1
    unsorted = np.zeros(len(order), dtype=np.bool_)
    unsorted[user[1:][descends]] = True
    places = np.flatnonzero(unsorted[user])
    users_rows = order[places]
    columns = [getattr(rows, name)[users_rows] for name in reversed(names)]
    order[places] = users_rows[np.lexsort(columns)]
    return order, differ(rows, order, names)


def differ(rows: Rows, order: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows, in an order, differ from the one before in some column, shape (n,); the first does."""
    differs = np.zeros(len(order), dtype=np.bool_)
    differs[:1] = True
    for name in names:
        column = getattr(rows, name)[order]
        differs[1:] |= column[1:] != column[:-1]
    return differs

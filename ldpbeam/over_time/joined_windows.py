"""What each user sent in several windows: integers that can be merged, and the variance of sums from them.

The reports of one user may depend on each other, because clients remember their noise, and values last. Users
are independent, so the variance of a sum over users is estimated by the squares of what each user adds to it,
however the reports of a user depend on each other. For C, the sum of m_i over users with T_i of the N
reports,

    var(C) = sum_i (m_i - T_i C / N)^2.

This is the linearised variance of the ratio C/N, times N^2 (Cochran, *Sampling Techniques*, 1977, section
6.3). It is the variance for people drawn from a population, and an upper bound for the people themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam import joint_cells
from ldpbeam.domains import Floats, Integers

#: The most supports, one per report and category, in memory at once.
BLOCK_SUPPORTS = 2**24
#: The most numbers, several per report or user, in memory at once.
BLOCK_NUMBERS = 2**20


@dataclass(frozen=True, eq=False)
class Table:
    """A table of counts, stored without its zeros.

    Anybody can date reports so that there are many windows of one user each; these must not take the memory
    of whole tables.

    Attributes:
        shape: the shape of the table.
        cells: the flat indexes of the counts that are not zero, ascending, shape (n,).
        counts: the counts that are not zero, shape (n,).
    """

    shape: tuple[int, ...]
    cells: Integers
    counts: Integers

    @classmethod
    def of(cls, array: Integers) -> Table:
        """The table of an array."""
        flat = array.ravel()
        cells = np.flatnonzero(flat).astype(np.int64)
        return cls(array.shape, cells, flat[cells].astype(np.int64))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.shape == other.shape
            and np.array_equal(self.cells, other.cells)
            and np.array_equal(self.counts, other.counts)
        )

    @property
    def array(self) -> Integers:
        """The whole table."""
        flat = np.zeros(math.prod(self.shape), dtype=np.int64)
        flat[self.cells] = self.counts
        return flat.reshape(self.shape)

    def plus(self, other: Table) -> Table:
        """The sum of two tables.

        Raises:
            ValueError: if they have other shapes.
        """
        if self.shape != other.shape:
            raise ValueError(f"statistics of {self.shape} and of {other.shape} counts cannot be merged")
        cells, counts = joint_cells.added_up(
            np.concatenate((self.cells, other.cells)), np.concatenate((self.counts, other.counts))
        )
        return Table(self.shape, cells, counts)


@dataclass(frozen=True)
class JoinedSupports:
    """How often the reports of users in several windows support each category.

    Attributes:
        table: the number of users by category, number of supporting reports and number of reports; shape
            (categories, windows + 1, windows + 1).
    """

    table: Table

    @functools.cached_property
    def users(self) -> Integers:
        """The whole table."""
        return self.table.array

    @property
    def windows(self) -> int:
        """The number of windows: the most reports of a user."""
        return self.table.shape[1] - 1

    @property
    def reports(self) -> int:
        """The number of reports."""
        return int(self.users[0].sum(axis=0) @ np.arange(self.windows + 1))

    @property
    def supports(self) -> Integers:
        """The number of reports that support each category, shape (categories,)."""
        return np.asarray(self.users.sum(axis=2) @ np.arange(self.windows + 1))

    def merged(self, other: JoinedSupports) -> JoinedSupports:
        """The statistic of both sets of users, who are different people.

        Raises:
            ValueError: if they have other numbers of categories or windows.
        """
        return JoinedSupports(self.table.plus(other.table))

    @property
    def negative(self) -> JoinedSupports:
        """The statistic with negative counts: merging it removes these users."""
        return JoinedSupports(replace(self.table, counts=-self.table.counts))

    @property
    def variances(self) -> Floats:
        """The variance of each of ``supports``, shape (categories,); zeros without reports."""
        times = np.arange(self.windows + 1)
        rates = self.supports / max(self.reports, 1)
        away = times[:, None] - times * rates[:, None, None]
        return np.asarray((self.users * away**2).sum(axis=(1, 2)))

    @property
    def factors(self) -> Floats:
        """The variances relative to those of independent reports, at least 1, shape (categories,)."""
        independent = self.supports * (1.0 - self.supports / max(self.reports, 1))
        return np.maximum(1.0, self.variances / np.where(independent > 0.0, independent, np.inf))


def joined_supports(
    rows: Integers,
    reports: NDArray[Any],
    windows: int,
    supported: Callable[[NDArray[Any]], NDArray[np.bool_]] = np.asarray,
) -> JoinedSupports:
    """The statistic of the reports of some users in several windows.

    Args:
        rows: the user of each report, any whole number, shape (reports,). A user has one report per window.
        reports: the reports, shape (reports, ...).
        windows: the number of windows.
        supported: a function of reports: which categories they support, shape (n, categories). By default,
            the reports are this.

    Raises:
        ValueError: if a user has more reports than there are windows.
    """
    size = supported(reports[:0]).shape[1]
    users = np.zeros(size * (windows + 1) ** 2, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    _, starts, sent = np.unique(rows[order], return_index=True, return_counts=True)
    if len(sent) and sent.max() > windows:
        raise ValueError(f"a user has {sent.max()} reports in {windows} windows")
    # Blocks of whole users, each with at most ``windows`` reports.
    step = max(1, BLOCK_SUPPORTS // (size * windows))
    for first in range(0, len(sent), step):
        counts = sent[first : first + step]
        begin = starts[first]
        chosen = supported(reports[order[begin : begin + counts.sum()]])
        times = np.add.reduceat(chosen, starts[first : first + step] - begin, axis=0, dtype=np.int64)
        cells = (np.arange(size) * (windows + 1) + times) * (windows + 1) + counts[:, None]
        users += np.bincount(cells.ravel(), minlength=len(users))
    return JoinedSupports(Table.of(users.reshape(size, windows + 1, windows + 1)))


@dataclass(frozen=True, eq=False)
class JoinedCells:
    """Sums over users of products of their counts in report cells.

    Attributes:
        totals: the number of reports in each cell, shape (cells,).
        table: the sum over users of h_a h_b, for a user's counts h in cells a and b; shape (cells, cells).
    """

    totals: Integers
    table: Table

    @functools.cached_property
    def products(self) -> Integers:
        """The whole table."""
        return self.table.array

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, JoinedCells)
            and np.array_equal(self.totals, other.totals)
            and self.table == other.table
        )

    def merged(self, other: JoinedCells) -> JoinedCells:
        """The statistic of both sets of users, who are different people.

        Raises:
            ValueError: if they have other numbers of cells.
        """
        table = self.table.plus(other.table)
        return JoinedCells(self.totals + other.totals, table)

    @property
    def negative(self) -> JoinedCells:
        """The statistic with negative counts: merging it removes these users."""
        return JoinedCells(-self.totals, replace(self.table, counts=-self.table.counts))

    def covariance(self, values: Floats) -> Floats:
        """The covariance of means over reports, shape (numbers, numbers).

        Args:
            values: the numbers of a report in each cell, shape (cells, numbers).

        Raises:
            ValueError: if there are no reports.
        """
        n = int(self.totals.sum())
        if not n:
            raise ValueError("there are no reports")
        # A user's counts sum to T, so products with centred numbers subtract T times the mean.
        centred = values - self.totals @ values / n
        return centred.T @ self.products @ centred / float(n) ** 2


def joined_cells(rows: Integers, cells: Integers, size: int) -> JoinedCells:
    """The statistic of the reports of some users in several windows.

    Args:
        rows: the user of each report, any whole number, shape (reports,).
        cells: the report bucket of each report, shape (reports,).
        size: the number of report buckets.
    """
    _, which, sent = np.unique(rows, return_inverse=True, return_counts=True)
    products = np.zeros((size, size), dtype=np.int64)
    order = np.argsort(which, kind="stable")
    starts = np.concatenate(([0], np.cumsum(sent)))
    by_user = cells[order]
    # Pairs of a user's reports at a distance of 0, 1, 2 and so on: one round per distance, over all users.
    position = np.arange(len(by_user)) - np.repeat(starts[:-1], sent)
    for shift in range(int(sent.max()) if len(sent) else 0):
        later = np.flatnonzero(position >= shift)
        np.add.at(products, (by_user[later - shift], by_user[later]), 1)
        if shift:
            np.add.at(products, (by_user[later], by_user[later - shift]), 1)
    return JoinedCells(np.bincount(cells, minlength=size).astype(np.int64), Table.of(products))


#: What the users of one channel sent in several windows.
JoinedWindows = JoinedSupports | JoinedCells


def merged_windows(parts: Sequence[JoinedWindows]) -> JoinedWindows | None:
    """The statistic of all users; None if there are none, or none is left.

    Raises:
        ValueError: if the parts are of other kinds or sizes.
    """
    merged = functools.reduce(lambda one, other: one.merged(other), parts) if parts else None  # type: ignore
    return merged if merged is not None and len(merged.table.counts) else None


def difference_of_windows(
    users: int,
    first: tuple[Integers, NDArray[Any]],
    second: tuple[Integers, NDArray[Any]],
    values_of: Callable[[NDArray[Any]], NDArray[Any]],
) -> tuple[Floats, Floats, Floats]:
    """(the means of the first window, those of the second, the standard errors of ``second - first``).

    Each has the shape (numbers,). The errors hold for any overlap of users, and any number of reports.

    The variance is the sum over users of the squares of what each adds to the difference.

    Args:
        users: the number of users.
        first: (the user of each report, from 0, shape (reports,); the reports).
        second: the same for the second window, which has no report in common with the first.
        values_of: a function of n reports: their numbers, shape (n, numbers).

    Raises:
        ValueError: if a window has no reports.
    """
    if not len(first[0]) or not len(second[0]):
        raise ValueError("a window has no reports")
    size = values_of(first[1][:0]).shape[1]
    step = max(1, BLOCK_NUMBERS // size)
    sides = []
    for rows, reports in (first, second):
        order = np.argsort(rows, kind="stable")
        totals = [values_of(reports[at : at + step]).sum(axis=0) for at in range(0, len(rows), step)]
        sides.append((rows[order], reports[order], np.sum(totals, axis=0) / len(rows)))
    squares = np.zeros(size)
    for start in range(0, users, step):
        added = np.zeros((2, min(step, users - start), size))
        for by_user, (rows, reports, mean) in zip(added, sides, strict=True):
            low, high = np.searchsorted(rows, (start, start + step))
            np.add.at(by_user, rows[low:high] - start, (values_of(reports[low:high]) - mean) / len(rows))
        squares += ((added[1] - added[0]) ** 2).sum(axis=0)
    return sides[0][2], sides[1][2], np.sqrt(squares)

"""Reports that come as counts: each row states how many users sent the same reports.

A statistic is linear in the reports, so ``n`` users who sent the same reports give ``n`` times the statistic
of one. Counts are split into binary digits: for each digit, the rows that have it are tallied once, and their
statistic is multiplied. So the integers are those of the reports, whatever a mechanism counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.statistics import Answers, Moments, Statistic, empty, has_tail, merge, of_users, tally, times

#: Exact integers of any size.
Exact = NDArray[np.object_]


@dataclass(frozen=True)
class CellSums:
    """The sums of the reports of a channel, if its counts name only cells.

    Attributes:
        version: the channel's index in ``attribute.versions``.
        rows: the row of each cell, shape (n,).
        sums: the sums of the reports of all users of each row, in steps of the grid, shape (n,).
        squares: the sums of the squares of the same integers, shape (n,).
    """

    version: int
    rows: Integers
    sums: Exact
    squares: Exact


def tally_counted(
    attribute: Attribute, counts: Integers, answers: Sequence[Answers], cells: Sequence[CellSums] = ()
) -> Statistic:
    """The statistic of users counted by what they sent.

    Args:
        attribute: the attribute of the reports.
        counts: the number of users of each row, above zero, shape (rows,).
        answers: the reports of each row's users: at most one entry per channel, with rows of counts as
            ``rows``.
        cells: the sums of channels whose payloads only represent their cells.

    Raises:
        ValueError: if a report is impossible for its mechanism.
    """
    parts = [empty(attribute)]
    for digit in range(int(counts.max(initial=0)).bit_length()):
        chosen = counts >> digit & 1 == 1
        of_digit = of_users(answers, chosen)
        parts.append(times(tally(attribute, int(chosen.sum()), of_digit), 1 << digit))
    statistic = merge(parts)
    return (
        replace(statistic, moments=_with_sums(attribute, statistic, answers, cells)) if cells else statistic
    )


def _with_sums(
    attribute: Attribute, statistic: Statistic, answers: Sequence[Answers], cells: Sequence[CellSums]
) -> dict[int, Moments]:
    """The moments of a statistic, with the sums of cells instead of the sums of their representatives."""
    masks = np.zeros(1 + max(int(answer.rows.max(initial=0)) for answer in answers), dtype=np.int64)
    for answer in answers:
        masks[answer.rows] |= 1 << answer.version
    moments = dict(statistic.moments)
    for given in cells:
        of_rows = masks[given.rows] if attribute.group_users else np.full(len(given.rows), 1 << given.version)
        for mask in np.unique(of_rows).tolist():
            chosen, before = of_rows == mask, moments[mask]
            moments[mask] = replace(
                before,
                sums=_put(before.sums, given.version, given.sums[chosen].sum()),
                squares=_put(before.squares, given.version, given.squares[chosen].sum()),
            )
    return moments


def _put(numbers: tuple[int, ...], index: int, number: Any) -> tuple[int, ...]:
    return (*numbers[:index], int(number), *numbers[index + 1 :])


def counted_bits(attribute: Attribute, version: int, reports: int, ones: Integers) -> Statistic:
    """The statistic of reports, from the number that supports each category.

    Args:
        attribute: the attribute of the reports.
        version: the channel, in whose histogram each category has two cells: without and with support.
        reports: the number of reports.
        ones: the number of reports that support each category, shape (size,).
    """
    nothing = empty(attribute)
    if not reports:
        return nothing
    zeros = (0,) * len(attribute.versions)
    tails = any(has_tail(version.mechanism) for version in attribute.versions)
    histograms = list(nothing.histograms)
    histograms[version] = np.column_stack((reports - ones, ones)).ravel()
    return replace(
        nothing,
        reports=reports,
        users=None if nothing.users is None else reports,
        histograms=tuple(histograms),
        moments={1 << version: Moments(reports, zeros, zeros, zeros if tails else ())},
    )

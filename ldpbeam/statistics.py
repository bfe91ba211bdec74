"""Mergeable statistics: exact integers that summarise the reports of an attribute.

:func:`merge` of statistics is a :class:`Statistic` again. It is associative and commutative, with
:func:`empty` as identity. A statistic has no floats, so the order of merging does not change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.attributes import MOST_JOINT_CELLS, Attribute
from ldpbeam.domains import Integers
from ldpbeam.mechanisms import NumericMechanism


@dataclass(frozen=True)
class Answers:
    """The reports of one channel, each with the index of its user.

    Attributes:
        version: the channel's index in ``attribute.versions``.
        rows: the user of each report, 0 .. users - 1, distinct, shape (n,).
        payloads: the payloads of the reports, on the mechanism's own scale, shape (n,).
    """

    version: int
    rows: Integers
    payloads: NDArray[Any]


@dataclass(frozen=True)
class Moments:
    """Sums over the users who answered one particular set of channels and no others.

    Attributes:
        users: the number of these users; the number of reports if reports are not grouped by user.
        sums: for each channel, the sum of their reports, in steps of the mechanism's fixed-point grid.
        squares: for each channel, the sum of the squares of the same integers.
    """

    users: int
    sums: tuple[int, ...]
    squares: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Statistic:
    """The sufficient statistic of an attribute's reports in one window and group.

    Attributes:
        fingerprint: the attribute's fingerprint; :func:`merge` refuses statistics of different channels.
        reports: the number of reports.
        users: the number of users; None if reports are not grouped by user.
        histograms: the report counts of each channel, each of shape (cells,).
        moments: sums by the set of channels that a user answered; the set is a mask with one bit per channel.
        joint_cells: the indexes of the joint histogram's cells that are not empty, ascending.
        joint_counts: the number of users in each of these cells.
    """

    fingerprint: str
    reports: int
    users: int | None
    histograms: tuple[Integers, ...]
    moments: Mapping[int, Moments]
    joint_cells: Integers
    joint_counts: Integers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistic):
            return NotImplemented
        return (
            (self.fingerprint, self.reports, self.users, dict(self.moments))
            == (other.fingerprint, other.reports, other.users, dict(other.moments))
            and all(map(np.array_equal, self.histograms, other.histograms))
            and np.array_equal(self.joint_cells, other.joint_cells)
            and np.array_equal(self.joint_counts, other.joint_counts)
        )


def explain(attribute: Attribute) -> Iterator[str]:
    """Sentences on what the statistic of an attribute holds."""
    cells = sum(v.mechanism.histogram_cells(attribute.buckets) for v in attribute.versions)
    yield (
        f"The statistic of {attribute.name!r} has {counted(cells, 'count')} in "
        f"{counted(len(attribute.versions), 'histogram')}, and exact sums; statistics merge without "
        f"the reports (fingerprint {attribute.fingerprint[:8]})."
    )
    if attribute.joint_services:
        joint = math.prod(attribute.joint_shape)
        bound = (
            "so its size is bounded"
            if joint <= MOST_JOINT_CELLS
            else f"more than {MOST_JOINT_CELLS:,}, so it may grow with the users and the solver is slow: "
            "lower joint_buckets"
        )
        yield (
            f"The reports of {', '.join(attribute.joint_services)} are joined by user into a joint "
            f"histogram of {' x '.join(map(str, attribute.joint_shape))} = {joint:,} cells, {bound}."
        )


def counted(n: int, noun: str) -> str:
    """As in: 1 count, 2 counts."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def empty(attribute: Attribute) -> Statistic:
    """The statistic of no reports."""
    return Statistic(
        fingerprint=attribute.fingerprint,
        reports=0,
        users=0 if attribute.group_users else None,
        histograms=tuple(
            np.zeros(version.mechanism.histogram_cells(attribute.buckets), dtype=np.int64)
            for version in attribute.versions
        ),
        moments={},
        joint_cells=np.zeros(0, dtype=np.int64),
        joint_counts=np.zeros(0, dtype=np.int64),
    )


def tally(attribute: Attribute, users: int, answers: Sequence[Answers]) -> Statistic:
    """The statistic of a batch of users' reports.

    Args:
        attribute: the attribute of the reports.
        users: the number of users in the batch; ignored if reports are not grouped by user.
        answers: the users' reports: at most one entry per channel, at most one report per user and service.
    """
    histograms = list(empty(attribute).histograms)
    for answer in answers:
        mechanism = attribute.versions[answer.version].mechanism
        histograms[answer.version] = mechanism.histogram(answer.payloads, attribute.buckets)
    joint_cells, joint_counts = _joint_histogram(attribute, users, answers)
    return Statistic(
        fingerprint=attribute.fingerprint,
        reports=sum(len(answer.payloads) for answer in answers),
        users=users if attribute.group_users else None,
        histograms=tuple(histograms),
        moments=_moments(attribute, users, answers),
        joint_cells=joint_cells,
        joint_counts=joint_counts,
    )


def _joint_histogram(
    attribute: Attribute, users: int, answers: Sequence[Answers]
) -> tuple[Integers, Integers]:
    if not attribute.joint_services:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    cell_of_user = np.zeros(users, dtype=np.int64)
    by_version = {answer.version: answer for answer in answers}
    stride = 1
    for service, size in zip(attribute.joint_services, attribute.joint_shape, strict=True):
        first = 1
        for index in attribute.versions_of([service]):
            mechanism = attribute.versions[index].mechanism
            if index in by_version:
                answer = by_version[index]
                bucket = mechanism.bucketise(answer.payloads, attribute.joint_buckets)
                cell_of_user[answer.rows] += stride * (first + bucket)
            first += mechanism.cells(attribute.joint_buckets)
        stride *= size
    # Cell 0 is of users who answered none of the joined services; they give no information and are left out.
    if stride <= 4 * users:
        counts = np.bincount(cell_of_user, minlength=1)
        counts[0] = 0
        cells = np.flatnonzero(counts)
        return cells.astype(np.int64), counts[cells].astype(np.int64)
    cells, counts = np.unique(cell_of_user[cell_of_user > 0], return_counts=True)
    return cells, counts.astype(np.int64)


def _moments(attribute: Attribute, users: int, answers: Sequence[Answers]) -> dict[int, Moments]:
    width = len(attribute.versions)
    if not attribute.group_users:
        # Reports are counted alone: the set of channels of each is the one channel it came through.
        return {
            1 << answer.version: _moments_of(
                attribute, {answer.version: answer.payloads}, len(answer.payloads), width
            )
            for answer in answers
            if len(answer.payloads)
        }
    answered = np.zeros(users, dtype=np.int64)
    for answer in answers:
        answered[answer.rows] |= np.int64(1 << answer.version)
    found = {}
    for mask, count in zip(*np.unique(answered, return_counts=True), strict=True):
        chosen = answered == mask
        payloads = {
            answer.version: answer.payloads[chosen[answer.rows]]
            for answer in answers
            if mask >> answer.version & 1
        }
        found[int(mask)] = _moments_of(attribute, payloads, int(count), width)
    return found


def _moments_of(
    attribute: Attribute, payloads: Mapping[int, NDArray[Any]], users: int, width: int
) -> Moments:
    sums, squares = [0] * width, [0] * width
    for index, reports in payloads.items():
        mechanism = attribute.versions[index].mechanism
        if isinstance(mechanism, NumericMechanism):
            grid = mechanism.fixed_point(reports)
            square = (grid * grid).astype(np.uint64)
            # A square has up to 60 bits, so a sum of a few overflows 64 bits: the halves are summed instead.
            high, low = square >> np.uint64(32), square & np.uint64(0xFFFFFFFF)
            sums[index] = int(grid.sum())
            squares[index] = (int(high.sum()) << 32) + int(low.sum())
    return Moments(users, tuple(sums), tuple(squares))


def merge(statistics: Iterable[Statistic]) -> Statistic:
    """The statistic of the union of several statistics' reports; the reports must be disjoint.

    Raises:
        ValueError: if there is no statistic, or the channels of two statistics differ.
    """
    parts = list(statistics)
    if not parts:
        raise ValueError("there is nothing to merge; empty(attribute) is the identity")
    first = parts[0]
    for part in parts[1:]:
        if part.fingerprint != first.fingerprint:
            raise ValueError(
                "these statistics are of different channels and must not be added: fingerprints "
                f"{first.fingerprint} and {part.fingerprint} (another domain, resolution, "
                "mechanism or epsilon)"
            )
    if len(parts) == 1:
        return first
    moments: dict[int, Moments] = {}
    for part in parts:
        for mask, other in part.moments.items():
            own = moments.get(mask)
            moments[mask] = other if own is None else _add_moments(own, other)
    cells, inverse = np.unique(np.concatenate([part.joint_cells for part in parts]), return_inverse=True)
    counts = np.zeros(len(cells), dtype=np.int64)
    np.add.at(counts, inverse, np.concatenate([part.joint_counts for part in parts]))
    # Entries that a difference made zero are removed, so that equal statistics have equal bytes.
    moments = {mask: own for mask, own in moments.items() if own.users or any(own.sums) or any(own.squares)}
    cells, counts = cells[counts != 0], counts[counts != 0]
    return Statistic(
        fingerprint=first.fingerprint,
        reports=sum(part.reports for part in parts),
        users=None if first.users is None else sum(part.users or 0 for part in parts),
        histograms=tuple(
            np.sum(columns, axis=0) for columns in zip(*(p.histograms for p in parts), strict=True)
        ),
        moments=moments,
        joint_cells=cells,
        joint_counts=counts,
    )


def difference(after: Statistic, before: Statistic) -> Statistic:
    """The statistic that gives ``after`` when merged with ``before``; its counts may be negative.

    Raises:
        ValueError: if the channels of the two statistics differ.
    """
    negative = Statistic(
        fingerprint=before.fingerprint,
        reports=-before.reports,
        users=None if before.users is None else -before.users,
        histograms=tuple(-histogram for histogram in before.histograms),
        moments={
            mask: Moments(-own.users, tuple(-s for s in own.sums), tuple(-s for s in own.squares))
            for mask, own in before.moments.items()
        },
        joint_cells=before.joint_cells,
        joint_counts=-before.joint_counts,
    )
    return merge([after, negative])


def _add_moments(one: Moments, other: Moments) -> Moments:
    return Moments(
        one.users + other.users,
        tuple(map(sum, zip(one.sums, other.sums, strict=True))),
        tuple(map(sum, zip(one.squares, other.squares, strict=True))),
    )

"""Mergeable statistics: exact integers that summarise the reports of an attribute.

:func:`merge` of statistics is a :class:`Statistic` again. It is associative and commutative, with
:func:`empty` as identity. A statistic has no floats, so the order of merging does not change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ldpbeam import joint_cells
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.mechanisms import CategoricalMechanism, Mechanism, NumericMechanism, UnbiasedMechanism
from ldpbeam.mechanisms.mechanism import in_cache
from ldpbeam.over_time.joined_windows import JoinedWindows, joined_cells, joined_supports, merged_windows
from ldpbeam.resolution import ENOUGH
from ldpbeam.words import counted

#: A joint histogram has at most this many cells that are not empty: up to 800 MB with two words per cell. A
#: message between Beam's workers cannot have more than 2 GB.
MOST_ROWS = 2**25
#: The most joined services for which solvers were measured.
MOST_MEASURED = 16


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


def of_users(answers: Iterable[Answers], chosen: NDArray[np.bool_]) -> list[Answers]:
    """The reports of the chosen users, who are renumbered."""
    numbers = np.cumsum(chosen) - 1
    kept = [(answer, chosen[answer.rows]) for answer in answers]
    return [
        Answers(answer.version, numbers[answer.rows[of_chosen]], answer.payloads[of_chosen])
        for answer, of_chosen in kept
        if of_chosen.any()
    ]


@dataclass(frozen=True)
class Moments:
    """Sums over the users who answered exactly one set of channels.

    Attributes:
        users: the number of these users; the number of reports if reports are not grouped by user.
        sums: for each channel, the sum of their reports, in steps of the mechanism's fixed-point grid.
        squares: for each channel, the sum of the squares of the same integers.
        bounded: for each channel whose mechanism has a tail, the sum of the reports without their tails, on
            the same grid; zero for the others. Empty if no mechanism has a tail.
    """

    users: int
    sums: tuple[int, ...]
    squares: tuple[int, ...]
    bounded: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Statistic:
    """The sufficient statistic of an attribute's reports in one window and group.

    Attributes:
        fingerprint: the attribute's fingerprint; :func:`merge` refuses statistics of different channels.
        reports: the number of reports.
        users: the number of users; None if reports are not grouped by user.
        histograms: the report counts of each channel, each of shape (cells,).
        moments: sums by the set of channels that a user answered; the set is a mask with one bit per channel.
            If the windows of users are joined, its ``users`` are reports.
        joint_cells: the indexes of the joint histogram's cells that are not empty, ascending, shape (cells,),
            or (cells, words) if an index takes several words (:mod:`ldpbeam.joint_cells`).
        joint_counts: the number of users in each of these cells.
        joined: what each user sent in several windows; None for one window, or if windows were added up
            without joining them by user.
    """

    fingerprint: str
    reports: int
    users: int | None
    histograms: tuple[Integers, ...]
    moments: Mapping[int, Moments]
    joint_cells: Integers
    joint_counts: Integers
    joined: JoinedWindows | None = None

    def moments_of(self, index: int) -> list[Moments]:
        """The moments of the users who answered a channel, one for each set of channels."""
        return [moments for mask, moments in self.moments.items() if mask >> index & 1]

    def reports_of(self, index: int) -> int:
        """The number of reports of a channel."""
        return sum(moments.users for moments in self.moments_of(index))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistic):
            return NotImplemented
        return (
            (self.fingerprint, self.reports, self.users, dict(self.moments))
            == (other.fingerprint, other.reports, other.users, dict(other.moments))
            and all(map(np.array_equal, self.histograms, other.histograms))
            and np.array_equal(self.joint_cells, other.joint_cells)
            and np.array_equal(self.joint_counts, other.joint_counts)
            and self.joined == other.joined
        )


def explain(attribute: Attribute) -> Iterator[str]:
    """Sentences about what the statistic of an attribute holds."""
    cells = sum(v.mechanism.histogram_cells(attribute.buckets) for v in attribute.versions)
    yield (
        f"The statistic of {attribute.name!r} has {counted(cells, 'count')} in "
        f"{counted(len(attribute.versions), 'histogram')}, and exact sums; statistics merge without "
        f"the reports (fingerprint {attribute.fingerprint[:8]})."
    )
    if attribute.joint_services:
        yield _explain_joined(attribute)
        kept = attribute.least_information
        little = [f"{share:.0%} of {label}'s" for label, share in kept.items() if share < ENOUGH]
        if little:
            yield f"That can be too little: {', '.join(little)} information. Raise joint_buckets."
        if len(attribute.joint_services) > MOST_MEASURED:
            yield f"More than {MOST_MEASURED} joined services have not been measured: expect slow solves."


def _explain_joined(attribute: Attribute) -> str:
    """What a joint histogram holds, how large it gets, and how much of the information it keeps."""
    shape = attribute.joint_shape
    cells, kept = math.prod(shape), min(attribute.least_information.values())
    services = f"The reports of {', '.join(attribute.joint_services)} are joined by user"
    if not attribute.keeps_rows:
        return (
            f"{services} into a joint histogram of {' x '.join(map(str, shape))} = {cells:,} cells; "
            f"it keeps at least {kept:.0%} of each service's information."
        )
    bytes_each = 8 * (1 + len(joint_cells.words(shape)))
    return (
        f"{services}: one row per user has the user's report bucket at each service, of "
        f"{', '.join(str(size - 1) for size in shape)} buckets. A row takes {bytes_each} bytes, "
        f"{bytes_each} MB per million users; a window and group may have at most {MOST_ROWS:,}. Snapshots "
        "hold the rows, and only their owner may read these files. "
        f"The rows keep at least {kept:.0%} of each service's information."
    )


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
        joint_cells=joint_cells.NONE,
        joint_counts=joint_cells.NONE,
    )


def tally(
    attribute: Attribute,
    users: int,
    answers: Sequence[Answers],
    *,
    checked: bool = False,
    windows: int = 1,
) -> Statistic:
    """The statistic of a batch of users' reports.

    Args:
        attribute: the attribute of the reports.
        users: the number of users in the batch; ignored if reports are not grouped by user.
        answers: the users' reports: at most one entry per channel, at most one report per user and service.
        checked: whether validation and the join have already ensured this, and that every report is possible.
        windows: the number of windows of the reports. With several, a user has up to one report in each, to
            the attribute's only channel, and the statistic records how these depend on each other.

    Raises:
        ValueError: if a report is impossible for its mechanism, a user or a channel does not exist, or a user
            has two reports of a channel.
    """
    if not checked:
        for answer in answers:
            _check(attribute, users, answer)
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
        moments=_moments(attribute, users, answers, joined=windows > 1),
        joint_cells=joint_cells,
        joint_counts=joint_counts,
        joined=_joined(attribute, answers[0], windows) if windows > 1 and answers else None,
    )


def _joined(attribute: Attribute, answer: Answers, windows: int) -> JoinedWindows:
    mechanism = attribute.versions[answer.version].mechanism
    if isinstance(mechanism, CategoricalMechanism):
        return joined_supports(answer.rows, answer.payloads, windows, mechanism.supported)
    cells = mechanism.bucketise(answer.payloads, attribute.buckets)
    return joined_cells(answer.rows, cells, mechanism.cells(attribute.buckets))


def _check(attribute: Attribute, users: int, answer: Answers) -> None:
    """Check that the reports of a channel are possible, and come from different users.

    Raises:
        ValueError: if they are not.
    """
    version = attribute.versions[answer.version]
    mechanism, payloads, rows = version.mechanism, answer.payloads, answer.rows
    if (payloads.dtype.kind == "V") != (mechanism.payload_dtype.kind == "V"):
        raise ValueError(
            f"the reports of {version.label} are of type {payloads.dtype}, and {mechanism.name} sends "
            f"{mechanism.output()} (of type {mechanism.payload_dtype})"
        )
    possible = mechanism.is_report(payloads)
    if not possible.all():
        row = int(np.argmin(possible))
        raise ValueError(
            f"report {row} of {version.label} is {payloads[row]}, which {mechanism.name} never sends: a "
            f"report is {mechanism.output()}"
        )
    distinct = np.unique(rows[(rows >= 0) & (rows < users)])
    if attribute.group_users and not len(distinct) == len(rows) == len(payloads):
        raise ValueError(
            f"the reports of {version.label} must be of different users of 0 to {users - 1}, one report each"
        )


def _joint_histogram(
    attribute: Attribute, users: int, answers: Sequence[Answers]
) -> tuple[Integers, Integers]:
    if not attribute.joint_services:
        return joint_cells.NONE, joint_cells.NONE
    return joint_cells.histogram(attribute.joint_shape, joint_digits(attribute, users, answers))


def joint_digits(attribute: Attribute, users: int, answers: Sequence[Answers]) -> list[Integers]:
    """Each user's place on each axis of the joint histogram, arrays of shape (users,)."""
    digits = [np.zeros(users, dtype=np.int64) for _ in attribute.joint_services]
    by_version = {answer.version: answer for answer in answers}
    for service, digit in zip(attribute.joint_services, digits, strict=True):
        for index, first, _ in attribute.axis(service):
            if index in by_version:
                mechanism, answer = attribute.versions[index].mechanism, by_version[index]
                resolution = attribute.joint_resolution(index)
                for part in in_cache(len(answer.rows)):
                    digit[answer.rows[part]] = first + mechanism.bucketise(answer.payloads[part], resolution)
    return digits


def _moments(
    attribute: Attribute, users: int, answers: Sequence[Answers], *, joined: bool
) -> dict[int, Moments]:
    if joined or not attribute.group_users:
        # Reports are counted alone, so the set of channels of each is its one channel.
        return {
            1 << answer.version: _moments_of(
                attribute, {answer.version: answer.payloads}, len(answer.payloads)
            )
            for answer in answers
            if len(answer.payloads)
        }
    # Where numbers are small, counting takes a tenth of the time.
    small = len(attribute.versions) <= 16
    answered: NDArray[Any] = np.zeros(users, dtype=np.uint16 if small else np.int64)
    for answer in answers:
        answered[answer.rows] |= answered.dtype.type(1 << answer.version)
    by_mask = {}
    if small:
        counts = np.bincount(answered)
        masks = np.flatnonzero(counts)
        counts = counts[masks]
    else:
        masks, counts = np.unique(answered, return_counts=True)
    for mask, count in zip(masks, counts, strict=True):
        chosen = answered == mask
        payloads = {
            answer.version: answer.payloads if count == users else answer.payloads[chosen[answer.rows]]
            for answer in answers
            if mask >> answer.version & 1
        }
        by_mask[int(mask)] = _moments_of(attribute, payloads, int(count))
    return by_mask


def _moments_of(attribute: Attribute, payloads: Mapping[int, NDArray[Any]], users: int) -> Moments:
    sums, squares, bounded = ([0] * len(attribute.versions) for _ in range(3))
    for index, reports in payloads.items():
        mechanism = attribute.versions[index].mechanism
        if not isinstance(mechanism, UnbiasedMechanism):
            continue
        for part in in_cache(len(reports)):
            grid = mechanism.fixed_point(reports[part])
            square = (grid * grid).astype(np.uint64)
            # A square has up to 60 bits, and the sum of a few would overflow 64 bits: halves are summed.
            high, low = square >> np.uint64(32), square & np.uint64(0xFFFFFFFF)
            sums[index] += int(grid.sum())
            squares[index] += (int(high.sum()) << 32) + int(low.sum())
            if has_tail(mechanism):
                bounded[index] += int(mechanism.fixed_point(mechanism.bounded(reports[part])).sum())
    tails = any(has_tail(version.mechanism) for version in attribute.versions)
    return Moments(users, tuple(sums), tuple(squares), tuple(bounded) if tails else ())


def has_tail(mechanism: Mechanism) -> TypeGuard[NumericMechanism]:
    """Whether the reports of a mechanism are numbers with a tail of rare large ones."""
    return isinstance(mechanism, NumericMechanism) and mechanism.tail is not None


def merge(statistics: Iterable[Statistic]) -> Statistic:
    """The statistic of the union of several statistics' reports; the reports must be disjoint.

    Raises:
        ValueError: if there is no statistic, the channels of two statistics differ, or one is joined by user
            over several windows and another not.
        MemoryError: if the joint histogram has more than :data:`MOST_ROWS` cells that are not empty.
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
        for mask, added in part.moments.items():
            moment = moments.get(mask)
            moments[mask] = added if moment is None else _add_moments(moment, added)
    # Zero entries, which a difference can have, are removed, so that equal statistics have equal bytes.
    moments = {
        mask: moment
        for mask, moment in moments.items()
        if moment.users or any(moment.sums) or any(moment.squares) or any(moment.bounded)
    }
    windows = [part.joined for part in parts if part.joined is not None]
    if windows and any(part.reports and part.joined is None for part in parts):
        raise ValueError("a statistic of joined windows and one of a single window must not be added")
    services = [part for part in parts if len(part.joint_counts)] or [first]
    cells, counts = joint_cells.added_up(
        np.concatenate([part.joint_cells for part in services]),
        np.concatenate([part.joint_counts for part in services]),
    )
    if len(cells) > MOST_ROWS:
        raise MemoryError(
            f"the joint histogram has rows of {len(cells):,} users, and at most {MOST_ROWS:,} are allowed: "
            "use shorter windows, or a lower joint_buckets, which bounds it"
        )
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
        joined=merged_windows(windows),
    )


def part_of(
    statistic: Statistic, fingerprint: str, versions: range, joined: tuple[Integers, Integers]
) -> Statistic:
    """The statistic of some successive channels.

    Args:
        statistic: a statistic all of whose users answered at least one of these channels.
        fingerprint: the fingerprint of the attribute with these channels alone.
        versions: the channels.
        joined: the cells of its joint histogram, and the number of users in each.
    """
    channels, moments = slice(versions.start, versions.stop), dict[int, Moments]()
    for mask, of_mask in statistic.moments.items():
        inside = mask >> versions.start & (1 << len(versions)) - 1
        sums = (tuple(values[channels]) for values in (of_mask.sums, of_mask.squares, of_mask.bounded))
        added = Moments(of_mask.users, *sums)
        moments[inside] = _add_moments(moments[inside], added) if inside in moments else added
    return Statistic(
        fingerprint=fingerprint,
        reports=sum(of_mask.users * mask.bit_count() for mask, of_mask in moments.items()),
        users=statistic.users,
        histograms=statistic.histograms[channels],
        moments=moments,
        joint_cells=joined[0],
        joint_counts=joined[1],
    )


def difference(after: Statistic, before: Statistic) -> Statistic:
    """The statistic that gives ``after`` when merged with ``before``; its counts may be negative.

    Raises:
        ValueError: if the channels of the two statistics differ.
    """
    joined = None if before.joined is None else before.joined.negative
    return merge([after, replace(times(before, -1), joined=joined)])


def times(statistic: Statistic, factor: int) -> Statistic:
    """The statistic with every count and sum multiplied, except what users sent in several windows."""
    return replace(
        statistic,
        reports=factor * statistic.reports,
        users=None if statistic.users is None else factor * statistic.users,
        histograms=tuple(factor * histogram for histogram in statistic.histograms),
        moments={
            mask: Moments(
                factor * moment.users,
                tuple(factor * s for s in moment.sums),
                tuple(factor * s for s in moment.squares),
                tuple(factor * s for s in moment.bounded),
            )
            for mask, moment in statistic.moments.items()
        },
        joint_counts=factor * statistic.joint_counts,
    )


def _add_moments(one: Moments, other: Moments) -> Moments:
    return Moments(
        one.users + other.users,
        tuple(map(sum, zip(one.sums, other.sums, strict=True))),
        tuple(map(sum, zip(one.squares, other.squares, strict=True))),
        tuple(map(sum, zip(one.bounded, other.bounded, strict=True))),
    )

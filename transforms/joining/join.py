"""The exact join: the reports of each user in one window become one row, in groups of a bounded number.

Pure functions over batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.cells import Cells
from ldpbeam.statistics import Answers
from ldpbeam.study import MOST_GROUPS
from ldpbeam.transforms.joining.gathered import Reports, column_or_nulls, gathered, payloads_of
from ldpbeam.transforms.joining.kept import (
    codes_of,
    first_of,
    kept,
    pairs_of,
    per_service,
    services_of,
)
from ldpbeam.transforms.joining.same_ids import in_order
from ldpbeam.transforms.reports.batches import version_index


class UserReports(NamedTuple):
    """Reports of some users of one attribute and group, one row per user.

    Attributes:
        attribute: the attribute's name, or a coordinate's.
        group: the value of the study's group field; None without one.
        users: the number of rows; 0 if users are not joined.
        answers: the reports by channel, each with the row of its user.
    """

    attribute: str
    group: str | None
    users: int
    answers: tuple[Answers, ...]

    @property
    def reports(self) -> int:
        """The number of reports in all rows."""
        return sum(len(answer.payloads) for answer in self.answers)


def join(
    attribute: Attribute,
    batches: Sequence[pa.RecordBatch],
    counted_until: int = 2**62,
    most_groups: int = MOST_GROUPS,
    windows: Cells | None = None,
) -> tuple[list[UserReports], int]:
    """Join all reports of some users in one window into one row per user.

    One report of each user to each service is kept; the others are dropped as duplicates. Groups split a
    user's reports: those of one group are joined with each other.

    Args:
        attribute: the attribute that all reports are of.
        batches: every report of these users in the window, in any order.
        counted_until: event time in epoch milliseconds; later reports are joined, but a later window counts
            them.
        most_groups: how many groups have rows of their own (:func:`at_most_groups`).
        windows: the windows that the reports lie in, if in several. A report of each user, service
            and window is then kept, and a row has all that its user sent.

    Returns:
        The rows, one element per group, and how many reports are kept, of those that are counted here.
    """
    if len(batches) == 1 and batches[0].num_rows == 1:
        # There may be hundreds of thousands of windows with one report.
        (alone,) = without_join(batches[0], attribute, most_groups)
        return [alone._replace(users=1)], int(batches[0].column("event_time")[0].as_py() < counted_until)
    reports = gathered(attribute, batches)
    order, first = in_order(reports.users)
    users = np.empty(len(order), dtype=np.int64)
    users[order] = np.cumsum(first) - 1
    if windows is None:
        rows_kept = first_of(reports, *_repeated(services_of(attribute, reports.versions), order, first))
    else:
        of_window = pairs_of(users, codes_of(pa.array(windows.numbers(reports.times)))[0])
        rows_kept = kept(reports, per_service(attribute, reports, of_window))
    groups, names = codes_of(reports.groups)
    groups, names = at_most_groups(groups, rows_kept, names, most_groups)
    joined = [
        _user_reports(attribute, names[code].as_py(), reports, users, rows)
        for code, rows in _rows_of_codes(groups, rows_kept)
    ]
    return joined, int((rows_kept & (reports.times < counted_until)).sum())


def _repeated(
    services: NDArray[np.uint16], order: NDArray[np.int64], first: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(the rows of users who have several at a service, ascending; a number for each user and service).

    Args:
        services: the service of each row, ascending.
        order: the rows in the order of users (:func:`in_order`).
        first: which of these are the first of their users.
    """
    of_row = services[order]
    alone = first.copy()
    # The rows of a user ascend, so those of a service follow each other.
    alone[1:] |= of_row[1:] != of_row[:-1]
    places = np.flatnonzero(~alone | ~np.append(alone[1:], True))
    same, rows = np.cumsum(alone[places], dtype=np.int64), order[places]
    ascending = np.argsort(rows)
    return rows[ascending], same[ascending]


def _rows_of_codes(
    codes: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    rows = np.flatnonzero(chosen)
    codes_of_rows = codes[rows]
    if len(codes_of_rows) and (codes_of_rows == codes_of_rows[0]).all():
        yield int(codes_of_rows[0]), rows
        return
    order = np.argsort(codes_of_rows, kind="stable")
    bounds = np.flatnonzero(np.diff(codes_of_rows[order])) + 1
    for part in np.split(rows[order], bounds):
        yield int(codes[part[0]]), part


def _user_reports(
    attribute: Attribute,
    group: str | None,
    reports: Reports,
    users: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> UserReports:
    """The reports in some rows, ascending, which are those of a group."""
    numbers = ranks_of(users[rows], len(users))
    answers = [Answers(index, numbers[part], payloads) for index, part, payloads in reports.by_channel(rows)]
    return UserReports(attribute.name, group, int(numbers.max(initial=-1)) + 1, tuple(answers))


def ranks_of(codes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The rank of each code among the distinct ones, shape (n,); codes are below ``most``."""
    if 8 * len(codes) < most:
        # There may be thousands of small groups: the work for one must not grow with the users of all.
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    present = np.zeros(most, dtype=np.bool_)
    present[codes] = True
    present = present[: int(codes.max(initial=-1)) + 1]
    # Where there are no groups, all users are present.
    return codes if present.all() else (np.cumsum(present) - 1)[codes]


def without_join(
    batch: pa.RecordBatch, attribute: Attribute, most_groups: int = MOST_GROUPS
) -> Iterator[UserReports]:
    """The reports of a batch without a join, split by group; ``most_groups`` is that of :func:`join`."""
    codes, names = codes_of(column_or_nulls([batch], "group", pa.string()))
    every = np.ones(len(codes), dtype=np.bool_)
    codes, names = at_most_groups(codes, every, names, most_groups)
    payloads = payloads_of(attribute, batch)
    parts: Iterable[tuple[int, Any]] = [(0, slice(None))] if len(names) == 1 else _rows_of_codes(codes, every)
    for code, rows in parts:
        of_group = payloads[rows]
        answers = Answers(version_index(batch), np.zeros(len(of_group), dtype=np.int64), of_group)
        yield UserReports(attribute.name, names[code].as_py(), 0, (answers,))


#: The start of the name of merged groups. It is longer than a group of a report can be.
_MERGED = "merged groups".ljust(300, ".")


def at_most_groups(
    codes: NDArray[np.int64], counted: NDArray[np.bool_], names: pa.Array, most: int
) -> tuple[NDArray[np.int64], pa.Array]:
    """The codes and names of groups, where the groups beyond the ``most`` with the most reports are one.

    A group has statistics of its own, of thousands of bytes, however few reports it has. So a client that
    sends another group with each report would fill the memory of a worker.

    Reports without a group are never merged with others. The result does not depend on the order of reports.

    Args:
        codes: the index of each report's group, shape (n,).
        counted: which reports count, shape (n,).
        names: the distinct groups, text, with a null for reports without one.
        most: how many groups stay as they are.
    """
    if len(names) <= most:
        return codes, names
    reports = np.bincount(codes[counted], minlength=len(names))
    named = np.flatnonzero((reports > 0) & names.is_valid().to_numpy(zero_copy_only=False))
    if len(named) <= most:
        return codes, names
    ranks = pc.rank(names.take(pa.array(named)), tiebreaker="dense").to_numpy()
    order = named[np.lexsort((ranks, -reports[named]))]
    merged = np.zeros(len(names), dtype=np.bool_)
    merged[order[most:]] = True
    # Which groups are merged differs between folds: the first of them tells the folds apart.
    first = zlib.crc32(names[int(order[most])].as_py().encode())
    name = f"{_MERGED}{first:08x}/{len(order) - most}"
    return np.where(merged[codes], len(names), codes), pa.concat_arrays([names, pa.array([name])])


def groups_merged(name: str | None) -> int:
    """How many groups have this name: 0 if it is that of one group, or of reports without a group."""
    return int(name.rpartition("/")[2]) if name is not None and name.startswith(_MERGED) else 0

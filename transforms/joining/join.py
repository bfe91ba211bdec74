"""The exact join: which reports stand, and which rows are one user's. Pure functions over batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Vector
from ldpbeam.schemas.reports.columns import binary_of_width
from ldpbeam.schemas.reports.payloads import payloads_in
from ldpbeam.statistics import Answers
from ldpbeam.transforms.reports.batches import version_index
from ldpbeam.transforms.reports.partitions import mixed


class UserReports(NamedTuple):
    """Reports of some users of one attribute and group, one row a user.

    Attributes:
        attribute: the attribute's name.
        group: the value of the study's group field, None without.
        users: how many users they are; 0 where users are not grouped.
        answers: their reports, a channel each.
    """

    attribute: str
    group: str | None
    users: int
    answers: tuple[Answers, ...]

    @property
    def reports(self) -> int:
        """How many reports they have."""
        return sum(len(answer.payloads) for answer in self.answers)


class Joined(NamedTuple):
    """What became of the reports of some users in one window.

    Attributes:
        users: one row a user, a batch a group.
        used: how many reports stand.
        duplicates: how many do not.
    """

    users: list[UserReports]
    used: int
    duplicates: int


class Reports(NamedTuple):
    """Batches of several channels as parallel columns, one row a report."""

    versions: NDArray[np.int64]
    users: pa.Array
    times: NDArray[np.int64]
    report_ids: pa.Array
    groups: pa.Array
    payloads: dict[int, NDArray[Any]]
    places: NDArray[np.int64]


def gathered(attribute: Attribute, batches: Sequence[pa.RecordBatch]) -> Reports:
    """The reports of some batches; ``places`` are rows of ``payloads`` of the report's own channel."""
    by_version: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        by_version.setdefault(version_index(batch), []).append(batch)
    ordered = [batch for version in sorted(by_version) for batch in by_version[version]]
    payloads = {
        version: np.concatenate([_payloads(attribute, batch) for batch in parts])
        for version, parts in by_version.items()
    }
    versions = sorted(payloads)
    return Reports(
        versions=np.repeat(versions, [len(payloads[version]) for version in versions]),
        users=pa.concat_arrays([batch.column("user") for batch in ordered]),
        times=np.concatenate([batch.column("event_time").to_numpy() for batch in ordered]),
        report_ids=_column_or_nulls(ordered, "report_id", pa.binary()),
        groups=_column_or_nulls(ordered, "group", pa.string()),
        payloads=payloads,
        places=np.concatenate([np.arange(len(payloads[version])) for version in versions]),
    )


def _payloads(attribute: Attribute, batch: pa.RecordBatch) -> NDArray[Any]:
    dtype = attribute.versions[version_index(batch)].mechanism.payload_dtype
    return payloads_in(batch.column("payload"), dtype)


def _column_or_nulls(batches: Sequence[pa.RecordBatch], name: str, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(
        [
            batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)
            for batch in batches
        ]
    )


def codes_of(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Each value's number among the distinct ones (null is one), compared exactly, and those values."""
    encoded = array.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def standing(reports: Reports, same: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which reports stand: of those with the same number, the one that comes first.

    The order is by event time, then report id (none first), then a number mixed from all that a report has:
    so it never matters in which order reports arrive, and which of several stands says nothing of their
    payloads. The smallest payload, say, would stand for small values.
    """
    stands = np.ones(len(same), dtype=np.bool_)
    repeated = np.flatnonzero(np.bincount(same)[same] > 1)
    if not len(repeated):
        return stands
    keys = (
        _lots(reports, repeated),
        _ranks(reports.report_ids, repeated),
        reports.times[repeated],
        same[repeated],
    )
    order = np.lexsort(keys)
    ordered = same[repeated][order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    stands[repeated[order[~first]]] = False
    return stands


def _ranks(column: pa.Array, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ranks of some rows' values (text or bytes), nulls first, ties alike."""
    ranks: NDArray[np.int64] = pc.rank(_bytes(column, rows), tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _bytes(column: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    return pc.fill_null(pc.cast(column.take(pa.array(rows)), pa.binary()), b"")


def _lots(reports: Reports, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number for each of some reports that is even over all numbers whatever its payload.

    Reports of a group that are alike in everything draw a number each, so that a payload sent twice is as
    likely to stand as two payloads sent once.
    """
    lots = _payload_numbers(reports, rows)
    for column in (reports.users, reports.groups, reports.report_ids):
        lots = _mixed_in(lots, mixed(_bytes(column, rows)))
    for numbers in (reports.versions, reports.times):
        lots = _mixed_in(lots, numbers[rows].astype(np.int64).view(np.uint64))
    order = np.argsort(lots, kind="stable")
    runs = np.flatnonzero(np.concatenate(([True], np.diff(lots[order]) != 0)))
    occurrence = np.zeros(len(rows), dtype=np.uint64)
    occurrence[order] = np.arange(len(rows)) - np.repeat(runs, np.diff(np.append(runs, len(rows))))
    return _mixed_in(lots, occurrence)


def _mixed_in(numbers: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    pairs = np.column_stack((numbers, more)).view(np.uint8).reshape(-1, 16)
    return mixed(binary_of_width(pairs)) if len(pairs) else numbers


def _payload_numbers(reports: Reports, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number from the bytes of each payload."""
    numbers = np.zeros(len(rows), dtype=np.uint64)
    for version, payloads in reports.payloads.items():
        own = np.flatnonzero(reports.versions[rows] == version)
        values = np.ascontiguousarray(payloads[reports.places[rows[own]]])
        if len(own):
            numbers[own] = mixed(binary_of_width(values.view(np.uint8).reshape(len(own), -1)))
    return numbers


def join(attribute: Attribute, batches: Sequence[pa.RecordBatch], counted_until: int = 2**62) -> Joined:
    """All reports of some users in one window to one row a user.

    A duplicate is a second report of the same user and service. Groups split a user's reports; those
    of one group are joined with each other.

    Args:
        attribute: what was asked.
        batches: every report of these users in the window, in any order.
        counted_until: reports from this event time on are joined, but not counted here.
    """
    reports = gathered(attribute, batches)
    users, _ = codes_of(reports.users)
    stands = standing(reports, per_service(attribute, reports, users))
    groups, names = codes_of(reports.groups)
    joined = [
        _user_reports(attribute, names[code].as_py(), reports, users, rows)
        for code, rows in _rows_of_codes(groups, stands)
    ]
    counted = stands[reports.times < counted_until]
    return Joined(joined, int(counted.sum()), int((~counted).sum()))


def per_service(attribute: Attribute, reports: Reports, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each pair of a code and a service that reports have."""
    services = {service: place for place, service in enumerate(attribute.services)}
    of_version = np.array([services[version.service] for version in attribute.versions])
    pairs = codes * len(services) + of_version[reports.versions]
    # Few enough to count with as they are, else renumbered.
    if pairs.max(initial=0) <= 8 * len(pairs):
        return np.asarray(pairs, dtype=np.int64)
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def _rows_of_codes(
    codes: NDArray[np.int64], stands: NDArray[np.bool_]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    rows = np.flatnonzero(stands)
    own = codes[rows]
    if len(own) and (own == own[0]).all():
        yield int(own[0]), rows
        return
    order = np.argsort(own, kind="stable")
    bounds = np.flatnonzero(np.diff(own[order])) + 1
    for part in np.split(rows[order], bounds):
        yield int(codes[part[0]]), part


def _user_reports(
    attribute: Attribute,
    group: str | None,
    reports: Reports,
    users: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> UserReports:
    present = np.zeros(int(users.max(initial=-1)) + 1, dtype=np.bool_)
    present[users[rows]] = True
    numbers = np.cumsum(present) - 1
    answers = []
    for version in sorted(reports.payloads):
        own = rows[reports.versions[rows] == version]
        if len(own):
            payloads = reports.payloads[version][reports.places[own]]
            answers.append(Answers(version, numbers[users[own]], payloads))
    return UserReports(attribute.name, group, int(present.sum()), tuple(answers))


def without_join(batch: pa.RecordBatch, attribute: Attribute) -> Iterator[UserReports]:
    """A batch's reports, each on its own, split by group."""
    codes, names = codes_of(_column_or_nulls([batch], "group", pa.string()))
    payloads = _payloads(attribute, batch)
    for code, rows in _rows_of_codes(codes, np.ones(len(codes), dtype=np.bool_)):
        answers = Answers(version_index(batch), np.zeros(len(rows), dtype=np.int64), payloads[rows])
        yield UserReports(attribute.name, names[code].as_py(), 0, (answers,))


def by_coordinate(attribute: Attribute, users: UserReports) -> Iterator[UserReports]:
    """A vector's reports as those of its coordinates; of any other attribute as they are."""
    if not isinstance(attribute.domain, Vector):
        yield users
        return
    sampled = [answer.payloads["coordinate"] for answer in users.answers]
    for index in np.unique(np.concatenate(sampled)):
        answers, rows = [], []
        for answer, coordinates in zip(users.answers, sampled, strict=True):
            own = np.flatnonzero(coordinates == index)
            if len(own):
                answers.append(Answers(answer.version, answer.rows[own], answer.payloads["report"][own]))
                rows.append(answer.rows[own])
        numbers, inverse = np.unique(np.concatenate(rows), return_inverse=True)
        places = np.split(inverse, np.cumsum([len(part) for part in rows])[:-1])
        yield UserReports(
            f"{attribute.name}.{attribute.domain.coordinates[index]}",
            users.group,
            len(numbers) if attribute.group_users else 0,
            tuple(replace(a, rows=place) for a, place in zip(answers, places, strict=True)),
        )

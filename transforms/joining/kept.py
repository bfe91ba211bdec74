"""Which of several duplicates is kept: the first in a fixed order. Pure functions over batches.

Where several reports of a user count (``repeats: all``), a number of them is compared: also the first in a
fixed order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.cells import Cells
from ldpbeam.schemas.reports.casts import binary_of_width, is_null
from ldpbeam.schemas.reports.columns import DELIVERY
from ldpbeam.schemas.reports.payloads import payloads_in
from ldpbeam.study import Study
from ldpbeam.transforms.joining.same_ids import numbers_of
from ldpbeam.transforms.reports.batches import mixed, shard_of, version_index
from ldpbeam.transforms.reports.counts import BEYOND_MOST, DUPLICATES


def explain(study: Study) -> Iterator[str]:
    """Sentences on which reports count."""
    if study.without_users:
        yield (
            f"Reports of {_listed(study.without_users)} have no users (users: none): no user id is read, and "
            "one that is there is not kept. Each report is taken for one of another person, in thresholds, "
            "intervals and tests of fit: who sends several counts as often, and spends epsilon each time."
        )
    if study.duplicates == "drop" and study.without_users:
        yield (
            "A report id of theirs counts once per service: the earliest of its reports is kept, so whoever "
            "knows the id of a report can send another in its place, dated earlier. Reports without one are "
            "compared by how their messages were delivered, and in files with none."
        )
    if study.duplicates == "keep" or study.without_users != tuple(study.attributes):
        yield _of_users(study)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _of_users(study: Study) -> str:
    """A sentence on which reports of users count."""
    if study.duplicates == "keep":
        return "Every report counts: no report is compared with another, and users are not counted."
    if study.repeats == "all":
        return (
            "A report id counts once per user and service: the earliest of its reports is kept. Up to "
            f"{study.most_reports:,} reports of a user count per service and window, those with the smallest "
            "hashes of their report ids; users are not counted."
        )
    return (
        "A user counts once per service and window, and a report id once per user and service: the report "
        "with the earliest event time is kept, and the others are dropped as duplicates."
    )


class Reports(NamedTuple):
    """Batches of several channels as parallel columns, one row per report.

    Attributes:
        versions: the channel's index, ascending, shape (n,).
        users: user keys, binary, n values; null where reports have no users.
        times: event times in epoch milliseconds, shape (n,).
        report_ids: binary, n values; null without one.
        deliveries: binary, n values; null with a report id, and where reports do not come in messages.
        groups: text, n values; null without one.
        payloads: the payloads of each channel, by its index, ascending.
    """

    versions: NDArray[np.uint16]
    users: pa.Array
    times: NDArray[np.int64]
    report_ids: pa.Array
    deliveries: pa.Array
    groups: pa.Array
    payloads: dict[int, NDArray[Any]]

    def by_channel(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, slice, NDArray[Any]]]:
        """(a channel's index, which of some ascending rows are its reports, their payloads) if it has any."""
        ends = np.cumsum([*map(len, self.payloads.values())])
        bounds = [0, *np.searchsorted(rows, ends).tolist()]
        for (version, payloads), end, (first, last) in zip(
            self.payloads.items(), ends.tolist(), itertools.pairwise(bounds), strict=True
        ):
            if first < last:
                part = slice(first, last)
                yield version, part, payloads[rows[part] - (end - len(payloads))]


def gathered(attribute: Attribute, batches: Sequence[pa.RecordBatch]) -> Reports:
    """Concatenate batches into columns, ordered by channel."""
    ordered = sorted(batches, key=version_index)
    payloads = {
        version: np.concatenate([payloads_of(attribute, batch) for batch in parts])
        for version, parts in itertools.groupby(ordered, version_index)
    }
    return Reports(
        versions=np.repeat(np.array([*payloads], np.uint16), [*map(len, payloads.values())]),
        users=column_or_nulls(ordered, "user", pa.binary()),
        times=np.concatenate([batch.column("event_time").to_numpy() for batch in ordered]),
        report_ids=column_or_nulls(ordered, "report_id", pa.binary()),
        deliveries=column_or_nulls(ordered, DELIVERY, pa.binary()),
        groups=column_or_nulls(ordered, "group", pa.string()),
        payloads=payloads,
    )


def payloads_of(attribute: Attribute, batch: pa.RecordBatch) -> NDArray[Any]:
    """A batch's payloads in its mechanism's type."""
    dtype = attribute.versions[version_index(batch)].mechanism.payload_dtype
    return payloads_in(batch.column("payload"), dtype)


def column_or_nulls(batches: Sequence[pa.RecordBatch], name: str, kind: pa.DataType) -> pa.Array:
    """Concatenate a column of batches, with nulls for batches that do not have it.

    It is of the given kind, unless the batches agree on another, or none of them has it.
    """
    if not any(name in batch.schema.names for batch in batches):
        return pa.nulls(sum(batch.num_rows for batch in batches))
    columns = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)
        for batch in batches
    ]
    if len({column.type for column in columns}) > 1:
        columns = [pc.cast(column, kind) for column in columns]
    return pa.concat_arrays(columns)


def codes_of(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """(each value's index among the distinct values, shape (n,); the distinct values, null among them)."""
    if len(array) and array.null_count == len(array):
        # A study without groups, or without report ids, has thousands of such columns.
        return np.zeros(len(array), dtype=np.int64), array.slice(0, 1)
    encoded = array.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def pairs_of(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """A code for each pair of codes, shape (n,), from 0 to the number of distinct pairs - 1."""
    pairs = first * (int(second.max(initial=0)) + 1) + second
    return codes_of(pa.array(pairs))[0]


def services_of(attribute: Attribute, versions: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The index of each channel's service."""
    return np.array(
        [attribute.services.index(version.service) for version in attribute.versions], dtype=np.uint16
    )[versions]


def per_service(attribute: Attribute, reports: Reports, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each report, shape (n,): equal for reports with the same code and service."""
    pairs: NDArray[np.int64] = codes * len(attribute.services) + services_of(attribute, reports.versions)
    # Small numbers serve as they are, since kept counts by them; large ones are renumbered.
    if pairs.max(initial=0) <= 8 * len(pairs):
        return pairs
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def kept(reports: Reports, same: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which reports are kept, shape (n,): the first report of each number, as :func:`first_of` has it."""
    repeated = np.flatnonzero(np.bincount(same)[same] > 1)
    return first_of(reports, repeated, same[repeated])


def first_of(reports: Reports, rows: NDArray[np.int64], same: NDArray[np.int64]) -> NDArray[np.bool_]:
    """All reports but those in some rows that are not the first of their number, shape (n,).

    The order is by event time, then report id (none first), then a tie-break: a hash of the whole report. So
    the order of arrival never matters, and the choice reveals nothing about payloads. Keeping the smallest
    payload, say, would bias estimates towards small values.

    Args:
        reports: n reports.
        rows: rows, ascending.
        same: a number for each of them.
    """
    first = np.ones(len(reports.times), dtype=np.bool_)
    times = reports.times[rows]
    order = np.lexsort((times, same))
    follows = same[order][1:] == same[order][:-1]
    if (follows & (times[order][1:] == times[order][:-1])).any():
        # Dense ranks: no report id ranks as the empty text.
        ranks = pc.rank(_bytes(reports.report_ids, rows), tiebreaker="dense").to_numpy()
        order = np.lexsort((_tie_breaks(reports, rows), ranks.astype(np.int64), times, same))
    first[rows[order[1:][follows]]] = False
    return first


#: Of the reports of a user that come first together, so many are looked at.
MOST_TIED = 1_024
#: Batches of fewer reports are left as they are; of another so many reports are looked at, or one of so many.
_FEW, _SAMPLE, _ONE_OF = 4_096, 512, 32
#: So many reports of a batch are compared first, since comparing takes eight times their memory.
_AT_ONCE = 2**17


class Alike(NamedTuple):
    """Of which reports of a channel one is kept, at most, or some.

    Attributes:
        columns: they have equal values here, all of which are binary.
        steps: they lie in the same one of these; None for any times.
        most: of how many of them the ids are compared; None if one is kept.
    """

    columns: tuple[str, ...] = ("user",)
    steps: Cells | None = None
    most: int | None = None

    def counts(self, left_out: int) -> Iterator[tuple[str, int]]:
        """The counts of reports that were left out because others are alike."""
        if left_out:
            yield DUPLICATES, left_out
            if self.most is not None:
                yield BEYOND_MOST, left_out


def users_alike(study: Study) -> Alike:
    """Of which reports of a user one is kept, or some, whatever the window."""
    steps = None if study.windows is None else study.windows.steps
    return Alike(steps=steps, most=study.most_reports if study.repeats == "all" else None)


def can_be_kept(batch: pa.RecordBatch, alike: Alike) -> pa.RecordBatch:
    """The reports of a channel without those that :func:`kept` never keeps, whatever other reports there are.

    So a user with millions of reports takes the memory of :data:`MOST_TIED`. Of more reports that come first
    together, those with the smallest hashes are looked at; no other choice differs from that of :func:`kept`.
    The result does not depend on how reports are divided into batches. A batch in which few
    reports are alike is returned as it is, since looking for them takes longer.
    """
    rows = batch.num_rows
    if rows < _FEW:
        return batch
    size = max(_SAMPLE, rows // _ONE_OF)
    some = batch.take(pa.array(np.random.default_rng().integers(0, rows, size)))
    columns = (numbers_of(column_or_nulls([some], name, pa.binary())) for name in alike.columns)
    if (
        any(numbers.max() > size // 2 for numbers in columns)
        or _codes_of_alike([some], alike).max() > size // 2
    ):
        return batch
    parts = [_can_be_kept(batch.slice(start, _AT_ONCE), alike) for start in range(0, rows, _AT_ONCE)]
    few = _can_be_kept(pa.concat_batches(parts), alike)
    return few if few.num_rows < rows else batch


def _can_be_kept(batch: pa.RecordBatch, alike: Alike) -> pa.RecordBatch:
    if alike.most is not None:
        return at_most([batch], alike)[0]
    same = _codes_of_alike([batch], alike)
    every = np.arange(batch.num_rows)
    report_ids = column_or_nulls([batch], "report_id", pa.binary())
    ids = pc.rank(_bytes(report_ids, every), tiebreaker="dense").to_numpy().astype(np.int64)
    times, numbers, _ = _order_of(batch)
    order = np.lexsort((numbers, ids, times, same))
    places = _occurrences(same[order])
    first = order[every - places]
    tied = (times[order] == times[first]) & (ids[order] == ids[first]) & (places < MOST_TIED)
    return batch.take(pa.array(np.sort(order[tied])))


def _order_of(batch: pa.RecordBatch) -> tuple[NDArray[Any], ...]:
    """(times of a channel's reports, hashes of their contents, hashes of their ids, shape (n,) each).

    The hash of an id has the user in it. Without an id it is one of the time and the contents, and not of how
    a message was delivered.
    """
    payload = batch.column("payload")
    if not pa.types.is_fixed_size_binary(payload.type):
        values = np.ascontiguousarray(payload.to_numpy()).view(np.uint8)
        payload = binary_of_width(values.reshape(batch.num_rows, -1))
    user, group, delivery, ids = (
        column_or_nulls([batch], name, pa.binary()) for name in ("user", "group", DELIVERY, "report_id")
    )
    times = batch.column("event_time").to_numpy().astype(np.int64)
    contents = _hashes((user, payload, group))
    dated = _mixed_in(contents, times.view(np.uint64))
    of_ids = np.where(is_null(ids), dated, _hashes((user, ids)))
    return times, _mixed_in(contents, mixed(_bytes(delivery, np.arange(batch.num_rows)))), of_ids


def at_most(
    batches: Sequence[pa.RecordBatch], alike: Alike, attribute: Attribute | None = None
) -> list[pa.RecordBatch]:
    """The reports without those that are alike, of one service, and beyond the most.

    The first report of each id comes before the second ones, and so on; among these the order is by a hash of
    user and id, or without an id of the whole report. So the result depends neither on the order of reports,
    nor on how they are divided into batches, nor on what was left out of these before.

    Args:
        batches: reports of one channel; of several channels, all reports of some users.
        alike: which reports are compared.
        attribute: the attribute of the channels; None for one channel.
    """
    if alike.most is None or not batches:
        return list(batches)
    batches = sorted(batches, key=version_index)
    services = [attribute.versions[version_index(batch)].service if attribute else "" for batch in batches]
    sizes = [batch.num_rows for batch in batches]
    of_service = np.repeat(np.unique(services, return_inverse=True)[1], sizes)
    same = pairs_of(_codes_of_alike(batches, alike), of_service)
    beyond = np.bincount(same)[same] > alike.most
    if not beyond.any():
        return list(batches)
    keys = map(_order_of, filtered(batches, beyond))
    times, numbers, ids = map(np.concatenate, zip(*keys, strict=True))
    rows, same = np.flatnonzero(beyond), same[beyond]
    order = np.lexsort((numbers, times))
    copies = _occurrences(pairs_of(same, codes_of(pa.array(ids))[0])[order])
    order = order[np.lexsort((ids[order], copies, same[order]))]
    beyond[rows[order]] = _occurrences(same[order]) >= alike.most
    return filtered(batches, ~beyond)


def filtered(batches: Sequence[pa.RecordBatch], rows: NDArray[np.bool_]) -> list[pa.RecordBatch]:
    """The chosen rows of batches, of all rows one after the other; a batch without any is left out."""
    parts = np.split(rows, np.cumsum([batch.num_rows for batch in batches])[:-1])
    return [batch.filter(pa.array(part)) for batch, part in zip(batches, parts, strict=True) if part.any()]


#: A shard with more reports than this is compared in parts.
PART_REPORTS = 2**21


def in_parts(pieces: Iterable[pa.RecordBatch], alike: Alike) -> Iterator[tuple[list[pa.RecordBatch], int]]:
    """(some of the reports, how many were left out as :func:`can_be_kept` does) until there are no more.

    Reports with equal values in the columns of ``alike`` are in one part. So the memory of a shard grows
    neither with its reports nor with those of one user.

    Args:
        pieces: the reports of a shard; they are read once for each part.
        alike: which reports are compared.
    """
    pieces = pieces if hasattr(pieces, "reports") else list(pieces)
    parts = 1 + _reports_in(pieces) // PART_REPORTS
    for number in range(parts):
        part: list[pa.RecordBatch] = []
        size = left_out = 0
        most = PART_REPORTS
        for piece in pieces:
            if parts > 1:
                columns = [column_or_nulls([piece], name, pa.binary()) for name in alike.columns]
                # Its high bits chose the shard, and ids that count up share its low ones: it is hashed again.
                keys = binary_of_width(_hashes(columns).view(np.uint8).reshape(-1, 8))
                piece = piece.filter(pa.array(shard_of(keys, parts) == number))
            part += [piece] if piece.num_rows else []
            size += piece.num_rows
            if size > most:
                part = [can_be_kept(batch, alike) for batch in concatenated(part)]
                left_out += size
                size = sum(batch.num_rows for batch in part)
                left_out -= size
                most = max(most, 2 * size)
        if part:
            yield part, left_out


def _reports_in(pieces: Iterable[pa.RecordBatch]) -> int:
    """How many reports pieces have; about how many, if they are not in memory."""
    about: int | None = getattr(pieces, "reports", None)
    return sum(piece.num_rows for piece in pieces) if about is None else about


def concatenated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenate the batches that have the same channel and schema.

    The batches are pieces, one per bundle and shard. Cut further as they are, each would fall apart into
    single reports.
    """
    alike: dict[tuple[int, pa.Schema], list[pa.RecordBatch]] = {}
    for batch in batches:
        alike.setdefault((version_index(batch), batch.schema), []).append(batch)
    return map(pa.concat_batches, alike.values())


def _hashes(columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
    """A hash of each row of some columns, shape (n,)."""
    every = np.arange(len(columns[0]))
    return functools.reduce(_mixed_in, [mixed(_bytes(column, every)) for column in columns])


def _codes_of_alike(batches: Sequence[pa.RecordBatch], alike: Alike) -> NDArray[np.int64]:
    """A number for each report, shape (n,), equal for reports that are alike."""
    codes = [numbers_of(column_or_nulls(batches, name, pa.binary())) for name in alike.columns]
    if alike.steps is not None:
        steps = [alike.steps.numbers(batch.column("event_time").to_numpy()) for batch in batches]
        codes.append(codes_of(pa.array(np.concatenate(steps)))[0])
    return functools.reduce(pairs_of, codes)


def _bytes(column: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    return pc.fill_null(pc.cast(column.take(pa.array(rows)), pa.binary()), b"")


def _tie_breaks(reports: Reports, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each whole report, which is uniform over 64-bit numbers whatever the payload.

    Reports that are equal in everything get different numbers, so that a payload that was sent twice has two
    chances to be kept.
    """
    numbers = _payload_numbers(reports, rows)
    for column in (reports.users, reports.groups, reports.report_ids):
        numbers = _mixed_in(numbers, mixed(_bytes(column, rows)))
    for values in (reports.versions, reports.times):
        numbers = _mixed_in(numbers, values[rows].astype(np.int64).view(np.uint64))
    return _mixed_in(numbers, _occurrences(numbers).view(np.uint64))


def _occurrences(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """How many earlier rows have the same number, for each row."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    occurrences = np.empty(len(numbers), dtype=np.int64)
    occurrences[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered)
    return occurrences


def _mixed_in(numbers: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    pairs = np.column_stack((numbers, more)).view(np.uint8).reshape(-1, 16)
    return mixed(binary_of_width(pairs)) if len(pairs) else numbers


def _payload_numbers(reports: Reports, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of the bytes of each payload, shape (rows,)."""
    numbers = np.zeros(len(rows), dtype=np.uint64)
    for _, part, payloads in reports.by_channel(rows):
        numbers[part] = mixed(binary_of_width(payloads.view(np.uint8).reshape(len(payloads), -1)))
    return numbers

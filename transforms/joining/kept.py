"""Which of several duplicates is kept: one with the earliest event time. Pure functions over batches.

Where several reports of a user count (``repeats: all``), a number of them is kept: the first in a fixed
order. Both depend on times, contents and which ids are equal, and on one byte of a hash of each id. So of
reports with other ids in place of their own (:mod:`ldpbeam.transforms.joining.hidden_ids`) the same are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.cells import Cells
from ldpbeam.schemas.reports.casts import binary_of_width, is_null
from ldpbeam.study import Study
from ldpbeam.transforms.joining.draws import bytes_of, contents_of, draws_in, hashes_of, mixed_in
from ldpbeam.transforms.joining.gathered import Reports, column_or_nulls, gathered
from ldpbeam.transforms.joining.same_ids import numbers_of
from ldpbeam.transforms.reports.batches import mixed, shard_of, version_index
from ldpbeam.transforms.reports.counts import BEYOND_MOST, DUPLICATES


def explain(study: Study) -> Iterator[str]:
    """Sentences on which reports count."""
    if study.without_users:
        yield (
            f"Reports of {_listed(study.without_users)} have no users (users: none): no user id is read, "
            "and one that is there is not kept. Thresholds, intervals and tests of fit take each report as "
            "another person's: someone who sends several counts that often, and spends epsilon each time."
        )
    if study.duplicates == "drop" and study.without_users:
        yield (
            "There, a report id counts once per service: the earliest of its reports is kept, so whoever "
            "knows the id of a report can send another in its place, dated earlier. Reports without one "
            "are compared by how their messages were delivered, and in files with none."
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
            f"{study.most_reports:,} reports of a user count per service and window, chosen by hashes of "
            "their report ids; users are not counted."
        )
    return (
        "A user counts once per service and window, and a report id once per user and service: the report "
        "with the earliest event time is kept, and the others are dropped as duplicates."
    )


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
    """Which reports are kept, shape (n,): one of each number, as :func:`first_of` has it."""
    repeated = np.flatnonzero(np.bincount(same)[same] > 1)
    return first_of(reports, repeated, same[repeated])


def first_of(reports: Reports, rows: NDArray[np.int64], same: NDArray[np.int64]) -> NDArray[np.bool_]:
    """All reports but those in some rows that are not the one that is kept of their number, shape (n,).

    That is the one with the earliest event time; of several with that time, one is drawn (:func:`_drawn`). So
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
    numbers, times = same[order], times[order]
    follows = numbers[1:] == numbers[:-1]
    first[rows[order[1:][follows]]] = False
    if (follows & (times[1:] == times[:-1])).any():
        starts = _starts(numbers)
        earliest = times == times[starts]
        tied = np.sort(order[earliest & (np.bincount(starts, earliest)[starts] > 1)])
        first[rows[tied]] = False
        first[rows[tied[_drawn(reports, rows[tied], same[tied])]]] = True
    return first


def _drawn(reports: Reports, rows: NDArray[np.int64], same: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of one of each number among some rows, which have the earliest event times of their numbers.

    Among copies (one id or delivery), only the one with the smallest hash has a chance, however
    often each was sent. Those with a chance stand in an order that is the same for all users, and the draw of
    the user points at one: at each of k for 256 / k of the draws, rounded up or down.
    """
    draws = draws_in(reports, rows)
    contents = contents_of(reports, rows)
    chances = _with_a_chance(same, _copies(reports, rows, same), hashes_of(contents, draws))
    order = chances[np.lexsort((contents[chances], same[chances]))]
    starts, sizes = _starts(same[order]), np.bincount(same[order])[same[order]]
    pointed_at = starts + ((draws[order].view(np.int64) & 255) * sizes >> 8)
    drawn: NDArray[np.int64] = order[np.arange(len(order)) == pointed_at]
    return drawn


def _with_a_chance(
    same: NDArray[np.int64], copies: NDArray[np.int64] | None, hashes: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The places of the reports of which one is drawn: of all copies one, and no more than :data:`MOST_TIED`.

    Those with the smallest hashes are left. What is left out of some reports is left out of more.

    Args:
        same: a number for each of n reports, which have the earliest event time of their number.
        copies: :func:`_copies` of them.
        hashes: their hashes, shape (n,).
    """
    if copies is None and np.bincount(same).max(initial=0) <= MOST_TIED:
        return np.arange(len(same))
    order = np.lexsort((hashes, same))
    if copies is not None:
        order = order[_occurrences(copies[order]) == 0]
    chosen: NDArray[np.int64] = order[np.arange(len(order)) - _starts(same[order]) < MOST_TIED]
    return chosen


def _copies(reports: Reports, rows: NDArray[np.int64], same: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """A number for each row, the same for those of one number that have one id, or delivery; None without."""
    ids, deliveries = (column.take(pa.array(rows)) for column in (reports.report_ids, reports.deliveries))
    if ids.null_count == deliveries.null_count == len(rows):
        return None
    copies = functools.reduce(pairs_of, (same, numbers_of(ids), numbers_of(deliveries)))
    return np.where(is_null(ids) & is_null(deliveries), len(rows) + np.arange(len(rows)), copies)


#: Of a user's earliest reports with the same time, at most this many are compared.
MOST_TIED = 1_024
#: Batches of fewer than _FEW reports are left as they are; of others, _SAMPLE reports are sampled, or one in
#: _ONE_OF.
_FEW, _SAMPLE, _ONE_OF = 4_096, 512, 32
#: How many reports of a batch are compared at once, because comparing takes eight times their memory.
_AT_ONCE = 2**17


class Alike(NamedTuple):
    """Of which reports of a channel one is kept, at most, or some.

    Attributes:
        columns: they have equal values here, all of which are binary.
        steps: they lie in the same one of these; None for any times.
        most: of how many of them the ids are compared; None if one is kept.
        counted: whether those that are left out count as duplicates; not in a pair, whose attributes count.
    """

    columns: tuple[str, ...] = ("user",)
    steps: Cells | None = None
    most: int | None = None
    counted: bool = True

    def counts(self, left_out: int) -> Iterator[tuple[str, int]]:
        """The counts of reports that were left out because others are alike."""
        if left_out and self.counted:
            yield DUPLICATES, left_out
            if self.most is not None:
                yield BEYOND_MOST, left_out


def users_alike(study: Study) -> Alike:
    """Of which reports of a user one is kept, or some, whatever the window."""
    steps = None if study.windows is None else study.windows.steps
    return Alike(steps=steps, most=study.most_reports if study.repeats == "all" else None)


def can_be_kept(batch: pa.RecordBatch, alike: Alike) -> pa.RecordBatch:
    """The reports of a channel without those that :func:`kept` never keeps, whatever other reports there are.

    So a user with millions of reports takes the memory of :data:`MOST_TIED`. What is kept at last does not
    depend on how reports are divided into batches. A batch in which few reports are alike is returned as it
    is, since looking for them takes longer.
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
    reports, same = gathered(None, [batch]), _codes_of_alike([batch], alike)
    order = np.lexsort((reports.times, same))
    times = reports.times[order]
    rows = np.sort(order[times == times[_starts(same[order])]])
    hashes = hashes_of(contents_of(reports, rows), draws_in(reports, rows))
    chances = _with_a_chance(same[rows], _copies(reports, rows, same[rows]), hashes)
    return batch.take(pa.array(np.sort(rows[chances])))


def at_most(
    batches: Sequence[pa.RecordBatch], alike: Alike, attribute: Attribute | None = None
) -> list[pa.RecordBatch]:
    """The reports without those that are alike, of one service, and beyond the most.

    The first report of each id comes before the second ones, and so on. Among these the order is by a hash
    of the draws of user and id, then by event time, then by a hash of the contents. Without an id it is by
    that hash alone, and equal reports are copies. So the result depends neither on the order of reports, nor
    on how they are divided into batches, nor on what was left out of these before.

    Args:
        batches: reports of one channel; of several channels, all reports of some users.
        alike: which reports are compared.
        attribute: the attribute of the channels; None for some of the reports of one channel, of which one
            more is left, so that it is seen later whether it is tied with the others.
    """
    if alike.most is None or not batches:
        return list(batches)
    batches = sorted(batches, key=version_index)
    services = [attribute.versions[version_index(batch)].service if attribute else "" for batch in batches]
    sizes = [batch.num_rows for batch in batches]
    of_service = np.repeat(np.unique(services, return_inverse=True)[1], sizes)
    same = pairs_of(_codes_of_alike(batches, alike), of_service)
    most = alike.most + (attribute is None)
    beyond = np.bincount(same)[same] > most
    if not beyond.any():
        return list(batches)
    rows = np.flatnonzero(beyond)
    order, keys = _order_of(gathered(attribute, filtered(batches, beyond)), same[rows])
    out = np.arange(len(order)) - _starts(same[rows[order]]) >= most
    beyond[rows[order]] = out
    if attribute is not None and alike.steps is not None:
        # Of first reports that differ in their ids alone any count: no other may be compared with their ids.
        differ = np.logical_or.reduce([key[1:] != key[:-1] for key in (key[order] for key in keys)])
        tied = np.append(0, np.cumsum(differ))
        unsure = np.zeros(len(beyond), dtype=np.bool_)
        unsure[rows[order]] = (keys[1] == 0)[order] & np.isin(tied, tied[out])
        batches = _without_ids(batches, unsure)
    return filtered(batches, ~beyond)


def _order_of(reports: Reports, same: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
    """(rows in the order of :func:`at_most`, those of one number together; what the order is by, by row)."""
    rows, ids = np.arange(len(same)), numbers_of(reports.report_ids)
    draws = draws_in(reports, rows)
    hashes, firsts = hashes_of(contents_of(reports, rows), draws), mixed_in(draws)
    identified = ~is_null(reports.report_ids)
    if not identified.all():
        firsts = np.where(identified, firsts, hashes)
        ids = np.where(identified, ids, len(rows) + codes_of(pa.array(hashes))[0])
    equal = same * (2 * len(rows)) + ids
    within: list[NDArray[Any]] = [hashes, reports.times]
    if reports.deliveries.null_count < len(rows):
        again = _occurrences(pairs_of(pairs_of(same, ids), numbers_of(reports.deliveries)))
        again[is_null(reports.deliveries)] = 0
        within = [mixed(bytes_of(reports.deliveries)), again, *within]
    order = np.lexsort((*within, equal))
    copies = np.empty_like(rows)
    copies[order] = rows - _starts(equal[order])
    return np.lexsort((*within, firsts, copies, same)), [same, copies, firsts, *within]


def _without_ids(batches: Sequence[pa.RecordBatch], rows: NDArray[np.bool_]) -> list[pa.RecordBatch]:
    """Batches without the report ids of some rows, if they have any."""
    parts = np.split(rows, np.cumsum([batch.num_rows for batch in batches])[:-1])
    changed = []
    for batch, part in zip(batches, parts, strict=True):
        if part.any() and "report_id" in batch.schema.names:
            place = batch.schema.get_field_index("report_id")
            ids = pc.if_else(pa.array(part), None, batch.column(place))
            batch = batch.set_column(place, "report_id", ids)
        changed.append(batch)
    return changed


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

    The batches are pieces, one per bundle and shard. Without this, cutting them further would leave single
    reports.
    """
    alike: dict[tuple[int, pa.Schema], list[pa.RecordBatch]] = {}
    for batch in batches:
        alike.setdefault((version_index(batch), batch.schema), []).append(batch)
    return map(pa.concat_batches, alike.values())


def _hashes(columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
    """A hash of each row of some columns, shape (n,)."""
    return functools.reduce(mixed_in, [mixed(bytes_of(column)) for column in columns])


def _codes_of_alike(batches: Sequence[pa.RecordBatch], alike: Alike) -> NDArray[np.int64]:
    """A number for each report, shape (n,), equal for reports that are alike."""
    codes = [numbers_of(column_or_nulls(batches, name, pa.binary())) for name in alike.columns]
    if alike.steps is not None:
        steps = [alike.steps.numbers(batch.column("event_time").to_numpy()) for batch in batches]
        codes.append(codes_of(pa.array(np.concatenate(steps)))[0])
    return functools.reduce(pairs_of, codes)


def _occurrences(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """How many earlier rows have the same number, for each row."""
    order = np.argsort(numbers, kind="stable")
    occurrences = np.empty(len(numbers), dtype=np.int64)
    occurrences[order] = np.arange(len(numbers)) - _starts(numbers[order])
    return occurrences


def _starts(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Where the equal numbers begin, of which each of some sorted numbers is one, shape (n,)."""
    starts = np.arange(len(numbers))
    starts[1:][numbers[1:] == numbers[:-1]] = 0
    return np.maximum.accumulate(starts)

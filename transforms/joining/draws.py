"""What is drawn for a report: hashes that decide which of several is kept, and favour no payload."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.reports.casts import binary_of_width
from ldpbeam.transforms.joining.gathered import Reports
from ldpbeam.transforms.reports.batches import mixed, mixed_words


def draws_of(users: pa.Array, report_ids: pa.Array) -> NDArray[np.uint16]:
    """The draws of reports, shape (n,): a byte that is a hash of the user, and above it one of the report id.

    It is all that depends on ids beside which of them are equal.

    Args:
        users: binary, n values; null where reports have no users.
        report_ids: binary, n values; null without one.
    """
    # Hashes of ids that count up differ too regularly, and shards are chosen by them.
    of_users, of_ids = (mixed_in(_hashes(ids)) >> np.uint64(56) for ids in (users, report_ids))
    return (of_users | of_ids << np.uint64(8)).astype(np.uint16)


def draws_in(reports: Reports, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """:func:`draws_of` some reports."""
    chosen = pa.array(rows)
    given = reports.draws.take(chosen)
    if given.null_count:
        computed = pa.array(draws_of(reports.users.take(chosen), reports.report_ids.take(chosen)))
        given = computed if given.null_count == len(given) else pc.coalesce(given, computed)
    draws: NDArray[np.uint16] = given.to_numpy(zero_copy_only=False)
    return draws.astype(np.uint64)


def contents_of(reports: Reports, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of the channel, time, group and payload of each of some reports, whose rows ascend."""
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for _, part, payloads in reports.by_channel(rows):
        hashes[part] = mixed(binary_of_width(payloads.view(np.uint8).reshape(len(payloads), -1)))
    groups, numbers = _hashes(reports.groups.take(pa.array(rows))), (reports.versions, reports.times)
    return mixed_in(hashes, groups, *(values[rows].astype(np.int64).view(np.uint64) for values in numbers))


def hashes_of(contents: NDArray[np.uint64], draws: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of the contents and the draws of each report, shape (n,).

    Of two reports with the same ids each has the smaller hash for half of the 256 draws of users, since one
    of each two draws reverses the order of the other. That holds for the draws of ids as well, and where each
    report has its user's id.
    """
    hashes = mixed_in(contents, draws & np.uint64(0xFCFE))
    return np.where((draws ^ draws >> np.uint64(9)) & np.uint64(1), ~hashes, hashes)


def _hashes(column: pa.Array) -> NDArray[np.uint64]:
    """A hash of each value, where null is empty."""
    if column.null_count == len(column):
        return np.zeros(len(column), dtype=np.uint64)
    return mixed(bytes_of(column))


def bytes_of(column: pa.Array) -> pa.Array:
    """A column as binary, with empty values for nulls."""
    return pc.fill_null(pc.cast(column, pa.binary()), b"")


def mixed_in(*hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of some hashes of each row, shape (n,)."""
    words = np.column_stack(hashes)
    return mixed_words(words, np.full(len(words), 8 * len(hashes))) if len(words) else hashes[0]

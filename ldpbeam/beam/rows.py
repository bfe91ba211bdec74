"""The rows of transforms' outputs: named tuples whose Beam schemas are registered.

Times are RFC 3339 text in UTC, because not every sink of Beam accepts its timestamps. A row as a dict
(:func:`as_dict`) is JSON, and an element for ``WriteToBigQuery``.
"""

import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import pyarrow as pa

from ldpbeam.schemas.outputs import tables
from ldpbeam.schemas.outputs.estimates import OF_SNAPSHOTS
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.rows import EstimateRow, ShareRow
from ldpbeam.schemas.outputs.snapshots import Snapshot, decode_statistic, encode_statistic
from ldpbeam.statistics import Statistic
from ldpbeam.study import Study
from ldpbeam.times import rfc3339, window_fields

# Beam's schemas know Optional and no X | None. Annotations are not postponed here: Beam would find text.
# ruff: noqa: UP045


class StatisticRow(NamedTuple):
    """The statistic of an attribute, window and group: exact integers, which :func:`ldpbeam.merge` adds up.

    Attributes:
        study: the study's name.
        study_fingerprint: 32 hexadecimal digits; statistics of different studies must not be added up.
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        window_start: RFC 3339 in UTC; None without windows.
        window_end: the same.
        group: as in :class:`EstimateRow`, like the next five.
        other_groups: likewise.
        pane_index: likewise.
        pane_timing: likewise.
        complete: likewise.
        joined: likewise; never add statistics of joined windows to those of the windows inside.
        reports: the number of reports.
        users: the number of users; None if users are not counted.
        statistic: an Avro datum, which :func:`statistic_of` reads.
    """

    study: str
    study_fingerprint: str
    attribute: str
    window_start: Optional[str]
    window_end: Optional[str]
    group: Optional[str]
    other_groups: int
    pane_index: int
    pane_timing: str
    complete: bool
    joined: bool
    reports: int
    users: Optional[int]
    statistic: bytes


class DeadLetterRow(NamedTuple):
    """An input that could not be used; the fields are those of ``dead_letter.avsc``.

    Attributes:
        file: the file of the input; empty if it came as an element.
        position: the byte offset or row group in the file; None for an element.
        row: the record's index there; None for an element.
        reason: the reason, one of those in docs/reports.md.
        detail: more about it; may be empty.
        reports: the number of reports in it.
        sha256: the hash of the record; with a user-id key, its HMAC.
        record: the record as JSON; None unless bad records are kept.
    """

    file: str
    position: Optional[int]
    row: Optional[int]
    reason: str
    detail: str
    reports: int
    sha256: str
    record: Optional[bytes]


class CountRow(NamedTuple):
    """What became of reports.

    ``in`` = ``used`` + ``duplicates`` + ``late`` + ``out_of_range`` + ``dead_letters``.

    Attributes:
        name: ``in``, ``used``, ..., or ``dead_letters_by_reason/`` and a reason.
        reports: the number of reports; for a stream an increment, to be added up with others of the name.
    """

    name: str
    reports: int


for _kind in (EstimateRow, ShareRow, StatisticRow, DeadLetterRow, CountRow):
    beam.coders.registry.register_coder(_kind, beam.coders.RowCoder)


def estimate_rows(records: Iterable[EstimateRecord]) -> list[EstimateRow]:
    """One row for each estimate."""
    return _rows(EstimateRow, tables.estimate_rows(records))


def share_rows(records: Iterable[EstimateRecord]) -> list[ShareRow]:
    """One row for each bucket, category or key of each estimate."""
    return _rows(ShareRow, tables.share_rows(records))


def _rows(kind: Any, table: pa.Table) -> list[Any]:
    """The rows of a table of estimates or shares, with only the columns of the kind."""
    columns = [_values(table.column(name), annotation) for name, annotation in kind.__annotations__.items()]
    return [kind(*row) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray, annotation: Any) -> list[Any]:
    """The values of a column for a field: times are text, and a list is never None."""
    if pa.types.is_timestamp(column.type):
        return [None if time is None else rfc3339(time) for time in column.cast(pa.int64()).to_pylist()]
    values: list[Any] = column.to_pylist()
    if typing.get_origin(annotation) is not Sequence:
        return values
    (inner,) = typing.get_args(annotation)
    fields = getattr(inner, "_fields", None)
    if fields is None:
        return [value or [] for value in values]
    return [[inner(*(part[field] for field in fields)) for part in value or ()] for value in values]


def statistic_row(study: Study, snapshot: Snapshot) -> StatisticRow:
    """The row of a snapshot."""
    return StatisticRow(
        study=study.name,
        study_fingerprint=study.fingerprint,
        **window_fields(snapshot.window),
        **{field: getattr(snapshot, field) for field in OF_SNAPSHOTS},
        reports=snapshot.statistic.reports,
        users=snapshot.statistic.users,
        statistic=encode_statistic(snapshot.statistic),
    )


def statistic_of(row: StatisticRow) -> Statistic:
    """The statistic in a row, for :func:`ldpbeam.merge` and :func:`ldpbeam.estimators.estimate`."""
    return decode_statistic(row.statistic)


def dead_letter_rows(batch: pa.RecordBatch) -> Iterable[DeadLetterRow]:
    """The rows of a batch of ``dead_letter.avsc``."""
    return (DeadLetterRow(**record) for record in batch.to_pylist())


def as_dict(row: Any) -> dict[str, Any]:
    """A row, and rows inside it, as dicts, with bytes as hexadecimal text."""
    return {name: _plain(value) for name, value in row._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value

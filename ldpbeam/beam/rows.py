"""The rows that transforms give: named tuples whose Beam schemas are registered.

Times are RFC 3339 text in UTC, because not every sink of Beam takes its timestamps. A row as a dict
(:func:`as_dict`) is JSON, and what ``WriteToBigQuery`` takes.
"""

import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import pyarrow as pa

from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.schemas.outputs.snapshots import Snapshot, decode_statistic, encode_statistic
from ldpbeam.schemas.outputs.tables import estimates_table, shares_table
from ldpbeam.statistics import Statistic
from ldpbeam.study import Study
from ldpbeam.times import rfc3339

# Beam's schemas know Optional and no X | None. Annotations are not postponed here: Beam would find text.
# ruff: noqa: UP045


class Quantile(NamedTuple):
    """A quantile of an estimated distribution.

    Attributes:
        level: the share of people below it, from 0 to 1.
        value: in the attribute's unit, as the next two.
        value_low: the low end of its interval; None if the study asks for no intervals.
        value_high: its high end.
    """

    level: float
    value: float
    value_low: Optional[float]
    value_high: Optional[float]


class RangeShare(NamedTuple):
    """The share of people between two values, as the study's ``ranges`` ask.

    Attributes:
        low: in the attribute's unit.
        high: in the attribute's unit.
        share: from 0 to 1.
        share_low: the low end of its interval; None if the study asks for no intervals.
        share_high: its high end.
    """

    low: float
    high: float
    share: float
    share_low: Optional[float]
    share_high: Optional[float]


class Frequent(NamedTuple):
    """One of the most frequent categories or keys, as the study's ``top`` asks.

    Attributes:
        name: the category or key.
        frequency: its share, from 0 to 1.
    """

    name: str
    frequency: float


class Flag(NamedTuple):
    """Why the intervals of a field may hold the truth less often than their level, or say little.

    Attributes:
        of: the field.
        flag: the reason.
    """

    of: str
    flag: str


class EstimateRow(NamedTuple):
    """One estimate; the fields are columns of ``estimates.parquet``.

    Attributes:
        schema_version: the version of the columns.
        study: the study's name.
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        services: the services whose reports were used.
        estimate: the name of the estimate in the study.
        estimator: the name of the estimator.
        window_start: RFC 3339 in UTC; None without windows.
        window_end: the same.
        group: the value of the study's group field; None without groups, and for the groups beyond the cap.
        other_groups: how many groups beyond the cap are added up in it.
        pane_index: how many panes of the window came before; a later pane replaces an earlier one.
        pane_timing: ``early``, ``on_time`` or ``late``.
        complete: False for an early pane.
        reports: how many reports were used.
        users: how many users sent them; None if users are not counted.
        mean: in the attribute's unit, as the next three; None if the estimator has none.
        standard_error: of the mean.
        mean_low: the low end of the mean's interval; None if the study asks for no intervals.
        mean_high: its high end.
        variance: of the values, in the unit's square, as the next two.
        variance_low: the low end of its interval.
        variance_high: its high end.
        median: of the distribution.
        quantiles: those that the study asks for.
        ranges: the shares of the ranges that the study asks for.
        top: the most frequent categories or keys.
        interval_level: the level of the intervals, from 0 to 1.
        intervals_simultaneous: whether the intervals of all shares hold together.
        interval_flags: what weakens intervals.
        converged: whether the estimator has converged.
        n_iterations: how many iterations it took.
        log_likelihood: at the end.
        warnings: sentences.
        details: what else the estimator says, as JSON.
    """

    schema_version: int
    study: str
    attribute: str
    services: Sequence[str]
    estimate: str
    estimator: str
    window_start: Optional[str]
    window_end: Optional[str]
    group: Optional[str]
    other_groups: int
    pane_index: int
    pane_timing: str
    complete: bool
    reports: int
    users: Optional[int]
    mean: Optional[float]
    standard_error: Optional[float]
    mean_low: Optional[float]
    mean_high: Optional[float]
    variance: Optional[float]
    variance_low: Optional[float]
    variance_high: Optional[float]
    median: Optional[float]
    quantiles: Sequence[Quantile]
    ranges: Sequence[RangeShare]
    top: Sequence[Frequent]
    interval_level: Optional[float]
    intervals_simultaneous: Optional[bool]
    interval_flags: Sequence[Flag]
    converged: bool
    n_iterations: int
    log_likelihood: Optional[float]
    warnings: Sequence[str]
    details: str


class ShareRow(NamedTuple):
    """One value bucket, category or key of an estimate; the fields are columns of ``distribution.parquet``.

    Attributes:
        schema_version: as in :class:`EstimateRow`, like the next twelve.
        study: see there.
        attribute: see there.
        services: see there.
        estimate: see there.
        estimator: see there.
        window_start: see there.
        window_end: see there.
        group: see there.
        other_groups: see there.
        pane_index: see there.
        pane_timing: see there.
        complete: see there.
        kind: ``bucket``, ``category`` or ``key``.
        place: the number of the bucket, category or key, from 0.
        low: the low end of a bucket, in the attribute's unit.
        high: its high end.
        label: the name of a category or key.
        share: of the people in it, or who have the key.
        share_low: the low end of the share's interval; None if the study asks for no intervals.
        share_high: its high end.
        key_mean: the mean of a key's values.
        key_mean_low: the low end of its interval.
        key_mean_high: its high end.
        interval_level: the level of the intervals, from 0 to 1.
    """

    schema_version: int
    study: str
    attribute: str
    services: Sequence[str]
    estimate: str
    estimator: str
    window_start: Optional[str]
    window_end: Optional[str]
    group: Optional[str]
    other_groups: int
    pane_index: int
    pane_timing: str
    complete: bool
    kind: str
    place: int
    low: Optional[float]
    high: Optional[float]
    label: Optional[str]
    share: float
    share_low: Optional[float]
    share_high: Optional[float]
    key_mean: Optional[float]
    key_mean_low: Optional[float]
    key_mean_high: Optional[float]
    interval_level: Optional[float]


class StatisticRow(NamedTuple):
    """The statistic of an attribute, window and group: exact integers, which :func:`ldpbeam.merge` adds up.

    Attributes:
        study: the study's name.
        study_fingerprint: 32 hexadecimal digits; statistics of different studies must not be added up.
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        window_start: RFC 3339 in UTC; None without windows.
        window_end: the same.
        group: as in :class:`EstimateRow`, like the next four.
        other_groups: see there.
        pane_index: see there.
        pane_timing: see there.
        complete: see there.
        reports: how many reports it counts.
        users: of how many users; None if users are not counted.
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
    reports: int
    users: Optional[int]
    statistic: bytes


class DeadLetterRow(NamedTuple):
    """An input that could not be used; the fields are those of ``dead_letter.avsc``.

    Attributes:
        file: the file that it was read from; empty if it came as an element.
        position: the byte offset or row group in the file; None for an element.
        row: the record's index there; None for an element.
        reason: the reason, one of those in docs/reports.md.
        detail: more about it; may be empty.
        reports: how many reports it stands for.
        sha256: the hash of the record; with a user-id key an HMAC.
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
        reports: how many. Of a stream, how many more: rows of one name are to be added up.
    """

    name: str
    reports: int


for _kind in (EstimateRow, ShareRow, StatisticRow, DeadLetterRow, CountRow):
    beam.coders.registry.register_coder(_kind, beam.coders.RowCoder)


def estimate_rows(study: Study, solved: Sequence[SolvedEstimate]) -> list[EstimateRow]:
    """One row for each estimate."""
    return _rows(EstimateRow, estimates_table(study, solved))


def share_rows(study: Study, solved: Sequence[SolvedEstimate]) -> list[ShareRow]:
    """One row for each bucket, category or key of each estimate."""
    return _rows(ShareRow, shares_table(study, solved))


def _rows(kind: Any, table: pa.Table) -> list[Any]:
    """The rows of a table of estimates or shares; columns that the kind has not are left out."""
    columns = [_values(table.column(name), annotation) for name, annotation in kind.__annotations__.items()]
    return [kind(*row) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray, annotation: Any) -> list[Any]:
    """The values of a column as a field has them: times are text, and a list is never None."""
    if pa.types.is_timestamp(column.type):
        return [None if time is None else rfc3339(time) for time in column.cast(pa.int64()).to_pylist()]
    values: list[Any] = column.to_pylist()
    if typing.get_origin(annotation) is not Sequence:
        return values
    (inner,) = typing.get_args(annotation)
    fields = getattr(inner, "_fields", None)
    if fields is None:
        return [own or [] for own in values]
    return [[inner(*(part[field] for field in fields)) for part in own or ()] for own in values]


def statistic_row(study: Study, snapshot: Snapshot) -> StatisticRow:
    """The row of a snapshot."""
    start, end = map(rfc3339, snapshot.window) if snapshot.window else (None, None)
    return StatisticRow(
        study.name,
        study.fingerprint,
        snapshot.attribute,
        start,
        end,
        snapshot.group,
        snapshot.other_groups,
        snapshot.pane_index,
        snapshot.pane_timing,
        snapshot.complete,
        snapshot.statistic.reports,
        snapshot.statistic.users,
        encode_statistic(snapshot.statistic),
    )


def statistic_of(row: StatisticRow) -> Statistic:
    """The statistic in a row, for :func:`ldpbeam.merge` and :func:`ldpbeam.estimators.estimate`."""
    return decode_statistic(row.statistic)


def dead_letter_rows(batch: pa.RecordBatch) -> Iterable[DeadLetterRow]:
    """The rows of a batch of ``dead_letter.avsc``."""
    return (DeadLetterRow(**record) for record in batch.to_pylist())


def as_dict(row: Any) -> dict[str, Any]:
    """A row as a dict; rows inside it too, and bytes as hexadecimal text."""
    return {name: _plain(value) for name, value in row._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value

"""Estimates as Arrow tables with a fixed schema: one row per estimate, and one row per share of each.

Every column is in every table, whatever the study asks for; what an estimate does not have is null.
"""

from __future__ import annotations

import itertools
import json
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam import metrics
from ldpbeam.pair_answer import Measured, PairAnswer
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.rows import (
    SCALARS,
    SCHEMA_VERSION,
    CumulativeShare,
    EstimateRow,
    Frequent,
    Quantile,
    RangeShare,
    ShareRow,
)

#: A file's row group has the rows of at most this many estimates.
ESTIMATES_AT_ONCE = 128

_NUMBER = pa.float64()
#: A text that many rows repeat: each distinct text is held once.
_NAME = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("ms", "UTC")
_TYPES = {int: pa.int64(), float: _NUMBER, bool: pa.bool_(), str: pa.string()}
#: The columns whose type is not that of the row's field: times are text there, and details are seldom equal.
_OTHER_TYPES = {
    "schema_version": pa.int32(),
    "window_start": _TIME,
    "window_end": _TIME,
    "details": pa.string(),
    "pair": pa.string(),
}


def _schema(row: Any) -> pa.Schema:
    """The schema of a class of rows, with the column ``run``, which rows of Beam do not have."""
    columns = [(name, _column_type(name, annotation)) for name, annotation in row.__annotations__.items()]
    position = 1 + row._fields.index("study")
    return pa.schema([*columns[:position], ("run", _NAME), *columns[position:]])


def _column_type(name: str, annotation: Any) -> pa.DataType:
    kind = _OTHER_TYPES.get(name) or _type(annotation)
    return _NAME if kind == pa.string() and name not in _OTHER_TYPES else kind


def _type(annotation: Any) -> pa.DataType:
    """The type of values with an annotation; None is a value of every type."""
    if annotation in _TYPES:
        return _TYPES[annotation]
    if hasattr(annotation, "_fields"):
        return pa.struct([(name, _type(inner)) for name, inner in annotation.__annotations__.items()])
    inner = _type(typing.get_args(annotation)[0])
    return pa.list_(inner) if typing.get_origin(annotation) is Sequence else inner


#: One row per estimate, with the columns of :class:`EstimateRow`.
ESTIMATES = _schema(EstimateRow)
#: One row per value bucket, category or key, with the columns of :class:`ShareRow`.
SHARES = _schema(ShareRow)
#: The columns that both have.
_PLACE = pa.schema(itertools.takewhile(lambda column: column.name != "kind", SHARES))

#: One row per number of a pair: of one attribute, ``given`` a group of the values of the other.
PAIRS = pa.schema([
    ("attribute", _NAME), ("estimate", _NAME), ("window_start", _TIME), ("group", _NAME), ("number", _NAME),
    ("of", _NAME), ("group_of", _NAME), ("given", _NAME), ("group_of_given", _NAME),
    ("value", _NUMBER), ("low", _NUMBER), ("high", _NUMBER),
])  # fmt: skip

#: The schema of each table, by the name of its files.
SCHEMAS = {"estimates": ESTIMATES, "distribution": SHARES}


def estimate_rows(records: Iterable[EstimateRecord]) -> pa.Table:
    """The table :data:`ESTIMATES` of records."""
    return pa.Table.from_pylist([_row(record) for record in records], schema=ESTIMATES)


def share_rows(records: Iterable[EstimateRecord]) -> pa.Table:
    """The table :data:`SHARES` of records; one without a distribution or frequencies has no rows."""
    owners = [record for record in records if _shares(record)]
    if not owners:
        return SHARES.empty_table()
    lengths = [len(_shares(record)) for record in owners]
    places = pa.Table.from_pylist([_place(record) for record in owners], schema=_PLACE)
    owner = pa.array(np.repeat(np.arange(len(owners)), lengths))
    columns = places.take(owner)
    labels = [record.labels or [None] * length for record, length in zip(owners, lengths, strict=True)]
    added: dict[str, pa.Array] = {
        "kind": pa.array([_kind(record) for record in owners], _NAME).take(owner),
        "place": pa.array(np.concatenate([np.arange(length) for length in lengths])),
        "label": pa.array(list(itertools.chain.from_iterable(labels)), _NAME),
    }
    added |= {name: _numbers([_column(name, r) for r in owners], lengths) for name in _NUMBERS}
    for name in SHARES.names[len(_PLACE) :]:
        columns = columns.append_column(name, added[name])
    return columns.cast(SHARES)


def pair_rows(records: Iterable[EstimateRecord]) -> pa.Table:
    """One row for each number of each pair: :data:`PAIRS`."""
    rows = [
        {**vars(record), "estimate": record.name, "window_start": (record.window or (None,))[0], **number}
        for record in records
        if record.pair is not None
        for number in _numbers_of(record.pair)
    ]
    return pa.Table.from_pylist(rows, schema=PAIRS)


def _numbers_of(pair: PairAnswer) -> Iterator[dict[str, Any]]:
    yield {"number": "p_value", "value": pair.p_value}
    for name in ("correlation", "mutual_information"):
        if (number := getattr(pair, name)) is not None:
            yield {"number": name} | _measured(number, 0)
    for part in pair.given:
        for row in range(len(part.given)):
            about = {
                "of": part.of.attribute,
                "given": part.given.attribute,
                "group_of_given": part.given[row],
            }
            if part.means is not None:
                yield {**about, "number": "mean"} | _measured(part.means, row)
            for column in range(len(part.of)):
                group = {"number": "share", "group_of": part.of[column]}
                yield {**about, **group} | _measured(part.shares, row * len(part.of) + column)


def _measured(numbers: Measured, index: int) -> dict[str, float | None]:
    return {name: None if column is None else column[index] for name, column in vars(numbers).items()}


def write_table(stream: IO[bytes], schema: pa.Schema, records: Iterable[EstimateRecord]) -> None:
    """Write the table :data:`ESTIMATES` or :data:`SHARES` of records as a Parquet file."""
    rows = estimate_rows if schema is ESTIMATES else share_rows
    given = iter(records)
    with pq.ParquetWriter(stream, schema) as writer:
        while part := list(itertools.islice(given, ESTIMATES_AT_ONCE)):
            writer.write_table(rows(part))


def _place(record: EstimateRecord) -> dict[str, Any]:
    """The columns that are fields of the record, and those of its window and run."""
    start, end = record.window or (None, None)
    return vars(record) | {
        "schema_version": SCHEMA_VERSION,
        "run": record.run or None,
        "estimate": record.name,
        "window_start": start,
        "window_end": end,
    }


def _row(record: EstimateRecord) -> dict[str, Any]:
    row = _place(record) | {
        "median": _median(record),
        "quantiles": record.quantiles
        and _structs(
            Quantile, record, "quantiles", [(float(level), own) for level, own in record.quantiles.items()]
        ),
        "ranges": record.ranges
        and _structs(RangeShare, record, "ranges", [(own.low, own.high, own.share) for own in record.ranges]),
        "top": record.top
        and _structs(Frequent, record, "frequencies", [(own.name, own.frequency) for own in record.top]),
        "details": json.dumps(record.details),
        "pair": None if record.pair is None else json.dumps(fields_of(record.pair)),
    }
    alarm, intervals = record.alarm, record.intervals
    row["alarm"] = None if alarm is None else alarm.differs
    if alarm is not None:
        row |= {"alarm_number": alarm.number, "alarm_expected": alarm.expected}
    if intervals is not None:
        row["cdf"] = _structs(CumulativeShare, record, "cdf", [(at,) for at in intervals.at])
        row["interval_level"], row["intervals_simultaneous"] = intervals.level, intervals.simultaneous
        row["interval_flags"] = [{"of": name, "flag": text} for name, text in intervals.flags.items()]
        for part, name in itertools.product(SCALARS, ESTIMATES.names):
            if name.startswith(f"{part}_"):
                ends = _ends(record, part, name.removeprefix(f"{part}_"))
                row[name] = ends and ends[0]
    return row


def _structs(kind: Any, record: EstimateRecord, part: str, values: Sequence[Sequence[Any]]) -> list[Any]:
    """The numbers of a part of an estimate with their intervals, in the fields of a kind of struct.

    Args:
        kind: its first fields are those of ``values``, and the others ends of intervals.
        record: the estimate.
        part: the part.
        values: the first fields of each struct.
    """
    if not values:
        return []
    names = kind._fields[len(values[0]) :]
    nothing = [None] * len(values)
    columns = [_ends(record, part, name) or nothing for name in names]
    return [
        dict(zip(kind._fields, (*own, *ends), strict=True))
        for own, *ends in zip(values, *columns, strict=False)
    ]


def _ends(record: EstimateRecord, part: str, name: str) -> list[float] | None:
    """One end of the intervals of a part of an estimate, as ``certain_low``; None if it has none."""
    condition, _, end = name.rpartition("_")
    columns = None if record.intervals is None else record.intervals.of(part, condition)
    return None if columns is None else columns[:, int(end == "high")].tolist()


def _median(record: EstimateRecord) -> float | None:
    shares, edges = record.distribution, record.bucket_edges
    if shares is None or edges is None or sum(shares) <= 0:
        return None
    if record.quantiles and "0.5" in record.quantiles:
        return record.quantiles["0.5"]
    return float(metrics.quantiles(shares, edges, (0.5,), record.step)[0])


def _kind(record: EstimateRecord) -> str:
    return "bucket" if record.labels is None else "category" if record.keys is None else "key"


def _shares(record: EstimateRecord) -> Sequence[float]:
    """The shares of an estimate; empty if it has none."""
    return (record.frequencies if record.distribution is None else record.distribution) or ()


#: The columns of numbers in :data:`SHARES`.
_NUMBERS = [field.name for field in SHARES if field.type == _NUMBER]


def _column(name: str, record: EstimateRecord) -> Sequence[float] | None:
    """A column of numbers of one estimate's shares; None if it has none."""
    numbers = {"share": _shares(record), "key_mean": record.key_means}
    if name in numbers:
        return numbers[name]
    if name in ("low", "high"):
        return None if record.bucket_edges is None else record.bucket_ends[name == "high"]
    if name == "interval_level":
        return [record.intervals.level] * len(_shares(record)) if record.intervals else None
    if name.startswith("key_mean_"):
        return _ends(record, "key_means", name.removeprefix("key_mean_"))
    shares = "frequencies" if record.distribution is None else "distribution"
    return _ends(record, shares, name.removeprefix("share_"))


def _numbers(parts: Sequence[Sequence[float] | None], lengths: Sequence[int]) -> pa.Array:
    """One column of the parts of many estimates; null where an estimate has none."""
    values = [
        np.zeros(length) if part is None else np.asarray(part, dtype=np.float64)
        for part, length in zip(parts, lengths, strict=True)
    ]
    missing = np.repeat([part is None for part in parts], lengths)
    return pa.array(np.concatenate(values), mask=missing)

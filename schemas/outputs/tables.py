"""Estimates as Arrow tables with a fixed schema: one row per estimate, and one row per share of each.

Every column is in every table, whatever the study asks for; what an estimate does not have is null. A column
that is added raises :data:`SCHEMA_VERSION`; none is renamed or removed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam import metrics
from ldpbeam.schemas.outputs.estimates import SolvedEstimate, estimate_fields
from ldpbeam.schemas.outputs.records import EstimateRecord, ManyEnds, record_of
from ldpbeam.study import Study

#: The version of both schemas, in the column ``schema_version``.
SCHEMA_VERSION = 1
#: A file's row group has the rows of at most so many estimates.
ESTIMATES_AT_ONCE = 128

#: A text that many rows repeat: each distinct text is held once.
_NAME = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("ms", "UTC")
_PLACE = [
    ("schema_version", pa.int32()),
    ("study", _NAME),
    ("run", _NAME),
    ("attribute", _NAME),
    ("services", pa.list_(pa.string())),
    ("estimate", _NAME),
    ("estimator", _NAME),
    ("window_start", _TIME),
    ("window_end", _TIME),
    ("group", _NAME),
    ("other_groups", pa.int64()),
    ("pane_index", pa.int64()),
    ("pane_timing", _NAME),
    ("complete", pa.bool_()),
]
_NUMBER = pa.float64()
_LEVEL = pa.struct([("level", _NUMBER), ("value", _NUMBER), ("value_low", _NUMBER), ("value_high", _NUMBER)])
_RANGE = pa.struct(
    [
        ("low", _NUMBER),
        ("high", _NUMBER),
        ("share", _NUMBER),
        ("share_low", _NUMBER),
        ("share_high", _NUMBER),
    ]
)
_FREQUENT = pa.struct([("name", pa.string()), ("frequency", _NUMBER)])
_FLAG = pa.struct([("of", pa.string()), ("flag", pa.string())])

#: One row per estimate. Means, errors, variances, quantiles and ranges are in the attribute's unit.
ESTIMATES = pa.schema(
    [
        *_PLACE,
        ("reports", pa.int64()),
        ("users", pa.int64()),
        ("mean", _NUMBER),
        ("standard_error", _NUMBER),
        ("mean_low", _NUMBER),
        ("mean_high", _NUMBER),
        ("variance", _NUMBER),
        ("variance_low", _NUMBER),
        ("variance_high", _NUMBER),
        ("median", _NUMBER),
        ("quantiles", pa.list_(_LEVEL)),
        ("ranges", pa.list_(_RANGE)),
        ("top", pa.list_(_FREQUENT)),
        ("interval_level", _NUMBER),
        ("intervals_simultaneous", pa.bool_()),
        ("interval_flags", pa.list_(_FLAG)),
        ("converged", pa.bool_()),
        ("n_iterations", pa.int64()),
        ("log_likelihood", _NUMBER),
        ("warnings", pa.list_(pa.string())),
        ("details", pa.string()),
    ]
)

#: One row per value bucket (from ``low`` to ``high``), category or key (``label``); ``kind`` says which. The
#: share of a key is that of the people who have it, and ``key_mean`` is the mean of its values. The ends of
#: intervals at ``interval_level`` are in the columns with ``_low`` and ``_high``.
SHARES = pa.schema(
    [
        *_PLACE,
        ("kind", _NAME),
        ("place", pa.int64()),
        ("low", _NUMBER),
        ("high", _NUMBER),
        ("label", _NAME),
        ("share", _NUMBER),
        ("share_low", _NUMBER),
        ("share_high", _NUMBER),
        ("key_mean", _NUMBER),
        ("key_mean_low", _NUMBER),
        ("key_mean_high", _NUMBER),
        ("interval_level", _NUMBER),
    ]
)

#: The schema of each table, by the name of its files.
SCHEMAS = {"estimates": ESTIMATES, "distribution": SHARES}


def records_of(
    study: Study, estimates: Iterable[SolvedEstimate], run: str | None = None
) -> Iterator[EstimateRecord]:
    """The records of estimates, as the tables take them."""
    return (record_of(EstimateRecord, estimate_fields(study, solved, run)) for solved in estimates)


def estimates_table(study: Study, estimates: Iterable[SolvedEstimate]) -> pa.Table:
    """The table :data:`ESTIMATES`, of estimates that belong to no run."""
    return estimate_rows(list(records_of(study, estimates)))


def shares_table(study: Study, estimates: Iterable[SolvedEstimate]) -> pa.Table:
    """The table :data:`SHARES`; an estimate without a distribution or frequencies has no rows."""
    return share_rows(list(records_of(study, estimates)))


def estimate_rows(records: Sequence[EstimateRecord]) -> pa.Table:
    """The table :data:`ESTIMATES` of records."""
    return pa.Table.from_pylist([_row(record) for record in records], schema=ESTIMATES)


def share_rows(records: Sequence[EstimateRecord]) -> pa.Table:
    """The table :data:`SHARES` of records; one without a distribution or frequencies has no rows."""
    owners = [record for record in records if _shares(record)]
    if not owners:
        return SHARES.empty_table()
    lengths = [len(_shares(record)) for record in owners]
    places = pa.Table.from_pylist([_place(record) for record in owners], schema=pa.schema(_PLACE))
    owner = pa.array(np.repeat(np.arange(len(owners)), lengths))
    columns = places.take(owner)
    labels = [own.labels or [None] * length for own, length in zip(owners, lengths, strict=True)]
    own: dict[str, pa.Array] = {
        "kind": pa.array([_kind(record) for record in owners], _NAME).take(owner),
        "place": pa.array(np.concatenate([np.arange(length) for length in lengths])),
        "label": pa.array(list(itertools.chain.from_iterable(labels)), _NAME),
    }
    own |= {name: _numbers([_column(name, r) for r in owners], lengths) for name in _NUMBERS}
    for name in SHARES.names[len(_PLACE) :]:
        columns = columns.append_column(name, own[name])
    return columns.cast(SHARES)


def write_table(stream: IO[bytes], schema: pa.Schema, records: Iterable[EstimateRecord]) -> None:
    """Write the table :data:`ESTIMATES` or :data:`SHARES` of records as a Parquet file."""
    rows = estimate_rows if schema is ESTIMATES else share_rows
    given = iter(records)
    with pq.ParquetWriter(stream, schema) as writer:
        while part := list(itertools.islice(given, ESTIMATES_AT_ONCE)):
            writer.write_table(rows(part))


def _place(record: EstimateRecord) -> dict[str, Any]:
    start, end = record.window or (None, None)
    return {
        "schema_version": SCHEMA_VERSION,
        "study": record.study,
        "run": record.run or None,
        "attribute": record.attribute,
        "services": list(record.services),
        "estimate": record.name,
        "estimator": record.estimator,
        "window_start": start,
        "window_end": end,
        "group": record.group,
        "other_groups": record.other_groups,
        "pane_index": record.pane_index,
        "pane_timing": record.pane_timing,
        "complete": record.complete,
    }


def _row(record: EstimateRecord) -> dict[str, Any]:
    row = _place(record) | {
        "reports": record.reports,
        "users": record.users,
        "mean": record.mean,
        "standard_error": record.standard_error,
        "variance": record.variance,
        "median": _median(record),
        "quantiles": _quantiles(record),
        "ranges": _ranges(record),
        "top": record.top and [vars(own) for own in record.top],
        "converged": record.converged,
        "n_iterations": record.n_iterations,
        "log_likelihood": record.log_likelihood,
        "warnings": list(record.warnings),
        "details": json.dumps(record.details),
    }
    found = record.intervals
    if found is not None:
        row["interval_level"], row["intervals_simultaneous"] = found.level, found.simultaneous
        row["interval_flags"] = [{"of": name, "flag": text} for name, text in found.flags.items()]
        for name in ("mean", "variance"):
            ends = getattr(found, name)
            if ends is not None:
                row |= {f"{name}_low": ends.low, f"{name}_high": ends.high}
    return row


def _median(record: EstimateRecord) -> float | None:
    shares, edges = record.distribution, record.bucket_edges
    if shares is None or edges is None or sum(shares) <= 0:
        return None
    return float(metrics.quantiles(shares, edges, (0.5,))[0])


def _quantiles(record: EstimateRecord) -> list[dict[str, float | None]] | None:
    if record.quantiles is None:
        return None
    ends = (record.intervals and record.intervals.quantiles) or {}
    return [
        {
            "level": float(level),
            "value": value,
            "value_low": ends[level].low if level in ends else None,
            "value_high": ends[level].high if level in ends else None,
        }
        for level, value in record.quantiles.items()
    ]


def _ranges(record: EstimateRecord) -> list[dict[str, float | None]] | None:
    if record.ranges is None:
        return None
    ends = record.intervals and record.intervals.ranges
    nothing = [None] * len(record.ranges)
    return [
        {**vars(own), "share_low": low, "share_high": high}
        for own, low, high in zip(
            record.ranges, ends.low if ends else nothing, ends.high if ends else nothing, strict=True
        )
    ]


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
        edges = record.bucket_edges
        return None if edges is None else edges[:-1] if name == "low" else edges[1:]
    found = record.intervals
    if found is None:
        return None
    if name == "interval_level":
        return [found.level] * len(_shares(record))
    of, _, end = name.rpartition("_")
    shares = found.frequencies if record.distribution is None else found.distribution
    ends: ManyEnds | None = shares if of == "share" else found.key_means
    return None if ends is None else getattr(ends, end)


def _numbers(parts: Sequence[Sequence[float] | None], lengths: Sequence[int]) -> pa.Array:
    """One column of the parts of many estimates; null where an estimate has none."""
    values = [
        np.zeros(length) if part is None else np.asarray(part, dtype=np.float64)
        for part, length in zip(parts, lengths, strict=True)
    ]
    missing = np.repeat([part is None for part in parts], lengths)
    return pa.array(np.concatenate(values), mask=missing)

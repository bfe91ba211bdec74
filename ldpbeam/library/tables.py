"""Tables of other libraries: of reports, as decoded batches like those from a file, and of counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.clients.arrays import OBJECT, array_of
from ldpbeam.clients.times import WRITE
from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.reports.casts import is_without_zone, unwrapped
from ldpbeam.schemas.reports.columns import ATTRIBUTE_KEY, SERVICE_KEY, Columns, decoded, text_of
from ldpbeam.schemas.reports.records import by_payload, columns_of
from ldpbeam.transforms.counted.columns import arrays_of

#: Reports are taken in batches of at most this many.
BATCH_REPORTS = 2**18
_WANTED = "give a table of pandas, polars or Arrow, a dict of columns, or an iterable of these or of reports"


def decoded_batches(reports: Any, wanted: Columns) -> Iterator[pa.RecordBatch]:
    """The decoded batches of one table of reports, or of an iterable of tables and single reports.

    ``position`` in a batch is the table's place among them, and ``row`` the row in that table. Successive
    single reports make a table.

    Raises:
        TypeError: if it is not a table.
        ValueError: if a table lacks a column, or its columns have different lengths.
    """
    for position, table in enumerate(_tables(reports)):
        for columns, metadata, rows in _parts(table, wanted):
            field = wanted.fields["event_time"]
            times = columns.get(field)
            if wanted.timed and wanted.clock is None and times is not None and is_without_zone(times.type):
                raise ValueError(f"the times in the column {field!r} have no zone: {WRITE}")
            for start in range(0, len(rows), BATCH_REPORTS):
                chosen = rows[start : start + BATCH_REPORTS]
                part = {name: column[start : start + BATCH_REPORTS] for name, column in columns.items()}
                places = pa.array(np.full(len(chosen), position))
                yield decoded(part, wanted, metadata, places, pa.array(chosen))


def _tables(reports: Any) -> Iterator[Any]:
    """Each table unchanged; successive single reports become one list of dicts."""
    if (
        isinstance(reports, Mapping | str | bytes)
        or hasattr(reports, "__arrow_c_stream__")
        or _fields(reports)
        or not isinstance(reports, Iterable)
    ):
        reports = [reports]
    for together, entries in itertools.groupby(reports, lambda entry: _fields(entry) is not None):
        if together:
            yield [_fields(entry) for entry in entries]
        else:
            yield from entries


def _fields(entry: Any) -> Mapping[str, Any] | None:
    """The fields of one report: a dict of single values, or a named tuple; None for a table."""
    if isinstance(entry, tuple) and hasattr(entry, "_asdict"):
        entry = entry._asdict()
    if isinstance(entry, Mapping) and not any(_is_column(values) for values in entry.values()):
        return entry or None
    return None


def _is_column(values: Any) -> bool:
    # An array of NumPy without a dimension is a single value.
    single = isinstance(values, str | bytes | np.generic) or getattr(values, "ndim", 1) == 0
    return isinstance(values, Iterable) and not single


#: Columns of reports, the table's metadata, and the row of each report.
_Part = tuple[Mapping[str, pa.Array], Mapping[str, str], NDArray[np.int64]]


def _parts(table: Any, wanted: Columns) -> Iterator[_Part]:
    """The needed columns of a table, in parts whose payloads are of one type."""
    if isinstance(table, list):
        _check_names(list(dict.fromkeys(str(name) for record in table for name in record)), wanted, {})
        for kept in by_payload(table, wanted.fields["payload"]):
            yield columns_of([table[row] for row in kept.tolist()], wanted.fields, wanted.clock), {}, kept
        return
    if isinstance(table, Mapping):
        yield from _of_columns(table, wanted)
        return
    try:
        reader = pa.RecordBatchReader.from_stream(table)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
        # No table, or one of pandas with a column of several types, or of a type that Arrow cannot hold.
        reader = None
    if reader is None or OBJECT in map(str, getattr(table, "dtypes", ())):
        if not hasattr(table, "columns"):
            raise TypeError(f"reports are of type {type(table).__name__}: {_WANTED}")
        yield from _of_columns({name: table[name] for name in table.columns}, wanted)
        return
    metadata = text_of(reader.schema.metadata)
    _check_names(reader.schema.names, wanted, metadata)
    names = [field for field in wanted.fields.values() if field in reader.schema.names]
    first = 0
    for batch in reader:
        rows = np.arange(first, first + batch.num_rows)
        first += batch.num_rows
        yield {name: batch.column(name) for name in names}, metadata, rows


def _of_columns(columns: Mapping[Any, Any], wanted: Columns) -> Iterator[_Part]:
    """The parts of a dict of columns; a text stands for a column that has it in every row."""
    _check_names(list(map(str, columns)), wanted, {})
    given = {field: columns[field] for field in wanted.fields.values() if field in columns}
    for name, values in given.items():
        if not (isinstance(values, str) or (_is_column(values) and hasattr(values, "__len__"))):
            raise ValueError(
                f"the column {name!r} is of type {type(values).__name__}: give a value for each row"
            )
    lengths = {name: len(values) for name, values in given.items() if not isinstance(values, str)}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise ValueError(f"the columns have different numbers of rows: {counts}")
    rows = next(iter(lengths.values()), 0)
    arrays = {name: _array(values, rows) for name, values in given.items()}
    mixed = {name: columns[name] for name, array in arrays.items() if array is None}
    plain = {name: array for name, array in arrays.items() if array is not None}
    if not mixed:
        yield plain, {}, np.arange(rows)
        return
    records = [dict(zip(mixed, values, strict=True)) for values in zip(*mixed.values(), strict=True)]
    for kept in by_payload(records, wanted.fields["payload"]):
        chosen = pa.array(kept)
        nested = columns_of([records[row] for row in kept.tolist()], wanted.fields, wanted.clock)
        yield {**{name: unwrapped(array).take(chosen) for name, array in plain.items()}, **nested}, {}, kept


def _array(values: Any, rows: int) -> pa.Array | None:
    """Values as an Arrow array; None if they are of several types."""
    return pa.repeat(values, rows) if isinstance(values, str) else array_of(values)


def _check_names(names: Sequence[str], wanted: Columns, metadata: Mapping[str, str]) -> None:
    """Check that a table has each column that reports need, or a constant for it, and none twice.

    Raises:
        ValueError: if one is missing, with the column that is probably meant, or if there are two.
    """
    constants = {
        "attribute": metadata.get(ATTRIBUTE_KEY, wanted.attribute),
        "service": metadata.get(SERVICE_KEY, wanted.service),
    }
    needed = [*wanted.needed, *(name for name, value in constants.items() if value is None)]
    for field in wanted.fields.values():
        if names.count(field) > 1:
            raise ValueError(f"the reports have several columns {field!r}: leave one")
    for name in needed:
        field = wanted.fields[name]
        if field not in names:
            rename = f" Rename it, or give columns={{{name!r}: ...}}"
            meant = did_you_mean(field, names, before="; ", after=rename)
            constant = f", or give {name}=..." if name in constants else ""
            raise ValueError(
                f"the reports have no column {field!r}: add it{constant}. There are: "
                f"{', '.join(names) or 'none'}{meant}"
            )


def count_columns(table: Any) -> dict[str, pa.Array]:
    """The columns of a table of counts; a text stands for a column that has it in every row."""
    if isinstance(table, Mapping):
        rows = max((len(values) for values in table.values() if not isinstance(values, str)), default=0)
        arrays = {k: pa.repeat(v, rows) if isinstance(v, str) else array_of(v) for k, v in table.items()}
        for name, array in arrays.items():
            if array is None or len(array) != rows:
                raise ValueError(f"column {name!r}: give a value of one type for each of the {rows:,} rows")
        return {str(name): unwrapped(array) for name, array in arrays.items()}
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(f"counts are of type {type(table).__name__}: give a table, or a dict of columns")
    return arrays_of(pa.RecordBatchReader.from_stream(table).read_all())

"""From a table of counts to estimates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ldpbeam.answers.published import warnings_of, without_groups
from ldpbeam.clients.arrays import array_of
from ldpbeam.library.result import Estimates
from ldpbeam.library.solving import solved
from ldpbeam.schemas.reports.casts import unwrapped
from ldpbeam.study import Study
from ldpbeam.transforms.counted.columns import CountTable
from ldpbeam.transforms.counted.statistics import CountedReports, with_notes
from ldpbeam.transforms.reports.counts import IN, ROWS_OF_COUNTS, USED, accounting
from ldpbeam.transforms.reports.dead_letters import SCHEMA


def estimate_counts(study: Study, counts: Any, attribute: str | None, service: str | None) -> Estimates:
    """The estimates of :func:`ldpbeam.estimate` from a table of counts.

    Raises:
        TypeError: as :func:`ldpbeam.estimate` does.
        ValueError: as well.
    """
    table = CountTable(study, columns_of(counts), attribute, service)
    counted = CountedReports(table)
    snapshots = counted.snapshots()
    reports = sum(snapshot.statistic.reports for snapshot in snapshots)
    estimates, left_out = solved(study, snapshots)
    totals = accounting([(IN, reports), (USED, reports), (ROWS_OF_COUNTS, table.rows), *left_out.items()])
    for sentence in (*warnings_of(study, totals, written=False), *without_groups(study, estimates)):
        warnings.warn(sentence, stacklevel=3)
    noted = tuple(with_notes(study, counted, estimates))
    return Estimates(study, noted, SCHEMA.empty_table(), totals, (), tuple(snapshots))


def columns_of(table: Any) -> dict[str, pa.Array]:
    """The columns of a table; a text stands for a column that has it in every row."""
    if isinstance(table, Mapping):
        rows = max((len(values) for values in table.values() if not isinstance(values, str)), default=0)
        arrays = {k: pa.repeat(v, rows) if isinstance(v, str) else array_of(v) for k, v in table.items()}
        for name, array in arrays.items():
            if array is None or len(array) != rows:
                raise ValueError(f"column {name!r}: give a value of one type for each of the {rows:,} rows")
        return {str(name): unwrapped(array) for name, array in arrays.items()}
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(f"counts are of type {type(table).__name__}: give a table, or a dict of columns")
    given = pa.RecordBatchReader.from_stream(table).read_all()
    return {name: unwrapped(given.column(name)) for name in given.column_names}

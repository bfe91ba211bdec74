"""From a table of counts to estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ldpbeam.clients.arrays import array_of
from ldpbeam.library.estimate_reports import estimates_of
from ldpbeam.library.result import Estimates
from ldpbeam.schemas.reports.casts import unwrapped
from ldpbeam.study import Study
from ldpbeam.transforms.counted.columns import CountTable, arrays_of
from ldpbeam.transforms.counted.statistics import tally_counts


def estimate_counts(study: Study, counts: Any, attribute: str | None, service: str | None) -> Estimates:
    """The estimates of :func:`ldpbeam.estimate` from a table of counts.

    Raises:
        TypeError: as :func:`ldpbeam.estimate` does.
        ValueError: as well.
    """
    return estimates_of(study, tally_counts(CountTable(study, columns_of(counts), attribute, service)))


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
    return arrays_of(pa.RecordBatchReader.from_stream(table).read_all())

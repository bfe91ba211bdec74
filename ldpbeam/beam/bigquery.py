"""The schemas of BigQuery tables for rows as dicts."""

from __future__ import annotations

import typing
from types import NoneType
from typing import Any

from ldpbeam.schemas.outputs import bigquery
from ldpbeam.schemas.outputs.rows import EstimateRow, ShareRow
from ldpbeam.schemas.outputs.tables import ESTIMATES, SHARES

#: Bytes are hexadecimal text in a dict, and times RFC 3339 text, which BigQuery reads as timestamps.
_KINDS = {str: "STRING", bytes: "STRING", int: "INT64", bool: "BOOL"}
_TIMES = ("window_start", "window_end")


def bigquery_schema(kind: Any) -> dict[str, Any]:
    """The schema of a table for one kind of row, for ``WriteToBigQuery`` of their dicts.

    Estimates and shares have the tables of ``estimates.parquet`` and ``distribution.parquet``, so rows of a
    pipeline and files of a run go into the same table; the rows leave ``run`` empty.

    Args:
        kind: :class:`EstimateRow`, or another row class.
    """
    if kind is EstimateRow:
        return {"fields": bigquery.bigquery_schema(ESTIMATES, EstimateRow)}
    if kind is ShareRow:
        return {"fields": bigquery.bigquery_schema(SHARES, ShareRow)}
    return {"fields": [_field(name, annotation) for name, annotation in kind.__annotations__.items()]}


def _field(name: str, annotation: Any) -> dict[str, str]:
    inner = typing.get_args(annotation)
    nullable = NoneType in inner
    kind = "TIMESTAMP" if name in _TIMES else _KINDS[inner[0] if nullable else annotation]
    return {"name": name, "type": kind, "mode": "NULLABLE" if nullable else "REQUIRED"}

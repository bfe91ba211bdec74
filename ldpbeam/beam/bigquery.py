"""The schemas of BigQuery tables for rows as dicts."""

import typing
from collections.abc import Sequence
from types import NoneType
from typing import Any

_KINDS = {str: "STRING", bytes: "STRING", int: "INTEGER", float: "FLOAT", bool: "BOOLEAN"}
#: Times are RFC 3339 text, which BigQuery reads as timestamps.
_TIMES = ("window_start", "window_end")


def bigquery_schema(kind: Any) -> dict[str, Any]:
    """The schema of a table for rows of a kind, as ``WriteToBigQuery`` takes it for their dicts.

    Args:
        kind: :class:`EstimateRow`, or another class of rows.
    """
    return {"fields": [_field(name, annotation) for name, annotation in kind.__annotations__.items()]}


def _field(name: str, annotation: Any) -> dict[str, Any]:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Sequence:
        (annotation,), mode = inner, "REPEATED"
    elif NoneType in inner:
        annotation, mode = inner[0], "NULLABLE"
    else:
        mode = "REQUIRED"
    if name in _TIMES:
        return {"name": name, "type": "TIMESTAMP", "mode": mode}
    if annotation in _KINDS:
        return {"name": name, "type": _KINDS[annotation], "mode": mode}
    return {"name": name, "type": "RECORD", "mode": mode, **bigquery_schema(annotation)}

"""The schemas of the tables as BigQuery takes them: a list of fields in JSON.

The files ``schemas/bigquery/*.json`` are these lists, for ``bq load --schema``; a test keeps them equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_TYPES = {
    pa.string(): "STRING",
    pa.int32(): "INT64",
    pa.int64(): "INT64",
    pa.float64(): "FLOAT64",
    pa.bool_(): "BOOL",
    pa.timestamp("ms", "UTC"): "TIMESTAMP",
}
#: What a column holds, for those whose name does not say it.
DESCRIPTIONS: Mapping[str, str] = {
    "schema_version": "The version of these columns",
    "run": "The run that wrote the estimate",
    "services": "The services whose reports were used",
    "estimate": "The key under estimates: in the study",
    "window_start": "Event time; null without windows",
    "window_end": "Event time; the window ends before it",
    "group": "The value of the study's group field",
    "other_groups": "How many groups beyond the cap are added up in the estimate",
    "pane_index": "The number of earlier panes of the window",
    "pane_timing": "early, on_time or late",
    "complete": "Whether no report that was read is known to be missing",
    "joined": "Whether a user's reports in several windows were brought together",
    "mean": "In the attribute's unit",
    "standard_error": "Of the mean",
    "median": "In the attribute's unit",
    "quantiles": "Those that the study asks for, with the ends of their intervals",
    "ranges": "The shares of people between two values, with the ends of their intervals",
    "top": "The most frequent categories or keys",
    "interval_level": "The share of all samples in which an interval holds the truth",
    "interval_flags": "Why an interval may hold the truth less often than its level, or says little",
    "details": "What else the estimator says, as JSON",
    "kind": "bucket, category or key",
    "place": "The place of the bucket, category or key in the estimate, from 0",
    "low": "The lower edge of a bucket",
    "high": "The upper edge of a bucket",
    "label": "The name of a category or key",
    "share": "The share of people in the bucket or category, or who have the key",
    "key_mean": "The mean value of those who have the key",
}


def bigquery_schema(schema: pa.Schema) -> list[dict[str, Any]]:
    """The fields of a table in BigQuery; a list becomes a repeated field, a struct a record."""
    fields = []
    for column in schema:
        described = DESCRIPTIONS.get(column.name)
        fields.append(_field(column) | ({"description": described} if described else {}))
    return fields


def _field(field: pa.Field) -> dict[str, Any]:
    repeated = pa.types.is_list(field.type)
    kind = field.type.value_type if repeated else field.type
    column: dict[str, Any] = {"name": field.name, "mode": "REPEATED" if repeated else "NULLABLE"}
    if pa.types.is_struct(kind):
        return {**column, "type": "RECORD", "fields": [_field(kind.field(i)) for i in range(kind.num_fields)]}
    return {**column, "type": _TYPES[kind.value_type if pa.types.is_dictionary(kind) else kind]}

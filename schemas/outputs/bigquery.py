"""The schemas of the tables as BigQuery takes them: a list of fields in JSON.

The files ``schemas/bigquery/*.json`` are these lists, for ``bq load --schema``; a test keeps them equal.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ldpbeam.mechanisms.mechanism_options import meaning
from ldpbeam.schemas.outputs.rows import EstimateRow

_TYPES = {
    pa.string(): "STRING",
    pa.int32(): "INT64",
    pa.int64(): "INT64",
    pa.float64(): "FLOAT64",
    pa.bool_(): "BOOL",
    pa.timestamp("ms", "UTC"): "TIMESTAMP",
}


def bigquery_schema(schema: pa.Schema, row: type) -> list[dict[str, Any]]:
    """The fields of a table in BigQuery; a list becomes a repeated field, a struct a record.

    Args:
        schema: the schema of the table.
        row: the class of its rows, whose docstring says what each column holds.
    """
    return [_field(column) | _described(column.name, row) for column in schema]


def _described(name: str, row: type) -> dict[str, str]:
    # Rows of Beam have no run, and those of shares have the first fields of estimates.
    text = "the run that wrote the estimate" if name == "run" else meaning(row, name)
    return {"description": text or meaning(EstimateRow, name)}


def _field(field: pa.Field) -> dict[str, Any]:
    repeated = pa.types.is_list(field.type)
    kind = field.type.value_type if repeated else field.type
    column: dict[str, Any] = {"name": field.name, "mode": "REPEATED" if repeated else "NULLABLE"}
    if pa.types.is_struct(kind):
        return {**column, "type": "RECORD", "fields": [_field(kind.field(i)) for i in range(kind.num_fields)]}
    return {**column, "type": _TYPES[kind.value_type if pa.types.is_dictionary(kind) else kind]}

"""The schemas for BigQuery: the columns of the tables, no more and no less, in files that the wheel has."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pytest

from ldpbeam.schemas.outputs.bigquery import bigquery_schema
from ldpbeam.schemas.outputs.rows import EstimateRow, ShareRow
from ldpbeam.schemas.outputs.tables import SCHEMAS

# The types of https://cloud.google.com/bigquery/docs/loading-data-cloud-storage-parquet#parquet_conversions.
ARROW = {
    "STRING": pa.string(), "INT64": pa.int64(), "FLOAT64": pa.float64(), "BOOL": pa.bool_(),
    "TIMESTAMP": pa.timestamp("ms", "UTC"),
}  # fmt: skip


def kept(name: str) -> list[dict[str, Any]]:
    text = (files("ldpbeam.schemas") / "bigquery" / f"{name}.json").read_text(encoding="utf-8")
    fields: list[dict[str, Any]] = json.loads(text)
    return fields


def as_arrow(field: dict[str, Any]) -> pa.Field:
    if field["type"] == "RECORD":
        kind = pa.struct([as_arrow(own) for own in field["fields"]])
    else:
        kind = ARROW[field["type"]]
    return pa.field(field["name"], pa.list_(kind) if field["mode"] == "REPEATED" else kind)


@pytest.mark.parametrize(("name", "row"), list(zip(SCHEMAS, (EstimateRow, ShareRow), strict=True)))
def test_the_file_is_the_schema_of_the_table(name: str, row: type) -> None:
    assert kept(name) == bigquery_schema(SCHEMAS[name], row)
    # BigQuery has one type of integers, and no dictionaries.
    other = {pa.int32(): pa.int64(), pa.dictionary(pa.int32(), pa.string()): pa.string()}
    wanted = [pa.field(own.name, other.get(own.type, own.type)) for own in SCHEMAS[name]]
    assert [as_arrow(field) for field in kept(name)] == wanted


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_is_described(name: str) -> None:
    assert all(len(field["description"]) > 5 for field in kept(name))

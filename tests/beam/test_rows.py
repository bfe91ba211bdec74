"""Rows by hand: their fields, what they are as dicts, and that these fit the tables of BigQuery."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.io.gcp.bigquery_avro_tools import get_record_schema_from_dict_table_schema
from support.estimate_records import paid, price
from support.studies import SMALL

import ldpbeam as ldp
from ldpbeam.beam.bigquery import bigquery_schema
from ldpbeam.beam.rows import (
    CountRow,
    as_dict,
    dead_letter_rows,
    estimate_rows,
    share_rows,
    statistic_of,
    statistic_row,
)
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Answers, tally
from ldpbeam.transforms.reports.dead_letters import SCHEMA

STUDY = ldp.Study.from_yaml(SMALL)
HOUR = {"window_start": "2026-11-20T10:00:00Z", "window_end": "2026-11-20T11:00:00Z"}
STATISTIC = tally(STUDY.attribute("x"), 3, [Answers(0, np.arange(3), np.array([0.5, -0.5, 1.0]))])
LETTER = {
    "file": "in.jsonl", "position": None, "row": 4, "reason": "not_json", "detail": "not JSON", "reports": 1,
    "sha256": "0" * 64, "record": b"\x00{",
}  # fmt: skip
ROWS: list[Any] = [
    *estimate_rows([price(**HOUR), paid()]),
    *share_rows([price(**HOUR), paid()]),
    statistic_row(STUDY, Snapshot("x", (1_795_168_800_000, 1_795_172_400_000), "north", 0, STATISTIC)),
    statistic_row(STUDY, Snapshot("x", None, None, 2, STATISTIC)),
    *dead_letter_rows(pa.RecordBatch.from_pylist([LETTER], schema=SCHEMA)),
    CountRow("used", 3),
]


def test_rows_have_the_numbers_of_estimates_and_statistics() -> None:
    first, second, cash, card, *statistics = ROWS[:6]
    assert (first.attribute, first.mean, first.window_start) == ("price", 5.0, HOUR["window_start"])
    assert (second.attribute, second.mean, second.window_start) == ("paid", None, None)
    assert (cash.label, cash.share, card.label, card.share) == ("cash", 0.1, "card > 5", 0.9)
    assert [statistic_of(row) for row in statistics] == [STATISTIC] * 2
    assert [(row.group, row.other_groups) for row in statistics] == [("north", 0), (None, 2)]
    assert statistics[0].window_start == HOUR["window_start"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_as_a_dict_is_json_that_fits_its_table(row: Any) -> None:
    """Beam's own translation of a table's schema to Avro, and fastavro, say whether a dict fits a table."""
    table = bigquery_schema(type(row))
    record = json.loads(json.dumps(as_dict(row), allow_nan=False))
    in_bytes = {name: value for name, value in row._asdict().items() if isinstance(value, bytes)}
    assert {name: bytes.fromhex(record[name]) for name in in_bytes} == in_bytes
    times = {field["name"] for field in table["fields"] if field["type"] == "TIMESTAMP"}
    empty = {field["name"]: None for field in table["fields"] if field["mode"] == "NULLABLE"}
    # BigQuery reads times from text; Avro has numbers.
    numbers = {name: record[name] and datetime.fromisoformat(record[name]) for name in times}
    whole = {**empty, **record, **numbers}
    schema = get_record_schema_from_dict_table_schema("row", table)
    fastavro.writer(io.BytesIO(), schema, [whole], strict=True, validator=True)

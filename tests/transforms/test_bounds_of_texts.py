"""The table of ``docs/security.md``: a text beyond its bound is a dead letter, whichever way it came."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to

import ldpbeam as ldp
from ldpbeam.schemas.files.json_lines import MOST_LINE_BYTES
from ldpbeam.schemas.messages.decode import JSON, Message, decode_messages
from ldpbeam.schemas.reports.columns import LONGEST_NAME, MOST_NAMES, NEEDED
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import MOST_GROUPS
from ldpbeam.transforms.reports import validation
from ldpbeam.transforms.reports.reasons import REASONS
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.files import match, sniff_all, split
from ldpbeam.transforms.sources.read import read_range

TEXT = """
study: bounds
groups: {field: city}
attributes:
  x:
    domain: {numeric: [0, 1]}
    services: {app: {mechanism: piecewise, version_field: build, versions: {old: {epsilon: 1.0}}}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
"""
STUDY = parse_study(TEXT)
GOOD: dict[str, Any] = {
    "user_id": "u",
    "report_id": "r",
    "attribute": "x",
    "service": "app",
    "build": "old",
    "city": "Oslo",
    "event_time": 1_795_168_800_000,
    "payload": 0.5,
}
FIELDS = {"group field": "city", "version field": "build"}
SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = SECURITY.partition("## What a client can fill")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|").split("|")]
    for line in SECTION.splitlines()
    if line.startswith("|") and "---" not in line
][1:]


def beyond(field: str, bound: str) -> list[Any]:
    """Values just beyond the bound of a row."""
    found = re.fullmatch(r"(\d+) bytes", bound)
    if found:
        return ["v" * (int(found[1]) + 1), "é" * (int(found[1]) // 2 + 1)]
    years = re.fullmatch(r"the years (\d+) to (\d+)", bound)
    if years:
        return [7_258_118_400_000]  # the first millisecond of 2200
    return [99.5] if field == "payload" else ["another", "v" * 100_000]


def of_batches(batches: list[Any]) -> list[str]:
    return [letter.reason for batch in batches for letter in Validation(STUDY).validate(batch).letters]


def of_file(record: dict[str, Any], path: Path) -> list[str]:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([record]), path)
    else:
        path.write_text(json.dumps(record) + "\n")
    good, _ = sniff_all(match([str(path)]))
    columns = wanted_columns(STUDY, None, None)
    return of_batches([batch for own in good for part in split(own) for batch in read_range(part, columns)])


def of_message(record: dict[str, Any], _: Path) -> list[str]:
    message = Message("1", json.dumps(record).encode(), JSON)
    return of_batches([*decode_messages([message], wanted_columns(STUDY, None, None))])


def of_library(record: dict[str, Any], _: Path) -> list[str]:
    found: list[str] = ldp.estimate(STUDY, pa.Table.from_pylist([record])).dead_letters["reason"].to_pylist()
    return found


WAYS: dict[str, Callable[[dict[str, Any], Path], list[str]]] = {
    "in.jsonl": of_file,
    "in.parquet": of_file,
    "message": of_message,
    "library": of_library,
}


def test_every_field_of_a_report_has_a_row() -> None:
    fields = {FIELDS.get(row[0], row[0]) for row in ROWS}
    assert fields == {*wanted_columns(STUDY, None, None).names} == {*NEEDED, "report_id", "city", "build"}
    assert {row[2] for row in ROWS} <= set(REASONS)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    longest = {row[0]: row[1] for row in ROWS if row[1].endswith("bytes")}
    assert longest == {
        "user_id": f"{validation.LONGEST_USER_ID} bytes",
        "report_id": f"{validation.LONGEST_REPORT_ID} bytes",
        "group field": f"{validation.LONGEST_GROUP} bytes",
    }
    assert f"at most {LONGEST_NAME} characters" in SECTION.replace("\n", " ")
    assert f"{MOST_NAMES} names of a record" in SECTION
    assert f"at most {MOST_LINE_BYTES // 2**20} MB" in SECTION
    assert f"{MOST_GROUPS:,} groups in a window" in SECTION


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_text_beyond_its_bound_is_a_dead_letter(row: list[str], way: str, tmp_path: Path) -> None:
    name, bound, reason, _ = row
    field = FIELDS.get(name, name)
    for value in beyond(field, bound):
        assert WAYS[way]({**GOOD, field: value}, tmp_path / way) == [reason]
    longest = re.match(r"\d+ bytes", bound)
    at_the_bound = {field: "v" * int(bound.split()[0])} if longest else {}
    assert WAYS[way]({**GOOD, **at_the_bound}, tmp_path / way) == []


def test_beam_transforms_have_the_same_bounds() -> None:
    wrong = [(FIELDS.get(row[0], row[0]), row) for row in ROWS]
    records = [{**GOOD, field: value} for field, row in wrong for value in beyond(field, row[1])]
    reasons = [row[2] for field, row in wrong for _ in beyond(field, row[1])]
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        found = pipeline | beam.Create(records) | ldp.beam.Estimate(TEXT)
        assert_that(found.dead_letters | beam.Map(lambda row: row.reason), equal_to(reasons))

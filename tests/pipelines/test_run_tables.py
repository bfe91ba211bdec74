"""The tables of a run: every kind of run writes them, and pandas, polars and DuckDB read them alike."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from ldpbeam.schemas.outputs.tables import ESTIMATES, SHARES

KINDS = ("batch", "scheduled", "rollup", "stream")


def place_of(folder: Path, table: str) -> Path:
    """The file of a table, or the folder of its files where runs share the output folder."""
    whole = folder / f"{table}.parquet"
    return whole if whole.exists() else folder / "tables" / table


def lines_of(folder: Path) -> list[dict[str, Any]]:
    whole = folder / "estimates.jsonl"
    paths = [whole] if whole.exists() else sorted((folder / "estimates").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_the_estimates_in_rows(kind: str, folders: dict[str, Path]) -> None:
    lines = lines_of(folders[kind])
    table = pq.read_table(place_of(folders[kind], "estimates"))
    assert table.schema.equals(ESTIMATES)
    for row, line in zip(table.to_pylist(), lines, strict=True):
        assert row["schema_version"] == 7
        for name in ("study", "run", "attribute", "services", "estimator", "group", "complete", "reports"):
            assert row[name] == line[name]
        assert (row["estimate"], row["mean"], row["users"]) == (line["name"], line.get("mean"), line["users"])
        assert row["window_start"] == pd.Timestamp(line["window_start"]).to_pydatetime()
        quantiles = {f"{own['level']:g}": own["value"] for own in row["quantiles"] or ()}
        assert quantiles == line.get("quantiles", {})
        assert json.loads(row["details"]) == line.get("details", {})
        intervals = line.get("intervals", {})
        assert [own["at"] for own in row["cdf"] or ()] == intervals.get("at", [])
        ends = intervals.get("ends", {})
        for condition in ("certain", "if_smooth"):
            given = [own[f"{condition}_low"] for own in row["cdf"] or ()]
            held = ends.get(condition, {}).get("cdf")
            assert given == (held["low"] if held else [None] * len(given))
        if "0.5" in quantiles:
            assert row["median"] == quantiles["0.5"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_of_distributions_have_a_row_per_share(kind: str, folders: dict[str, Path]) -> None:
    lines = lines_of(folders[kind])
    table = pq.read_table(place_of(folders[kind], "distribution"))
    assert table.schema.equals(SHARES)
    rows = iter(table.to_pylist())
    for line in lines:
        shares = line.get("frequencies") or line.get("distribution") or []
        rows_of_line = list(itertools.islice(rows, len(shares)))
        assert [row["share"] for row in rows_of_line] == shares
        assert {(row["attribute"], row["estimate"], row["group"]) for row in rows_of_line} <= {
            (line["attribute"], line["name"], line["group"])
        }
        labels = line.get("categories") or line.get("keys") or [None] * len(shares)
        assert [row["label"] for row in rows_of_line] == labels
        assert [row["place"] for row in rows_of_line] == list(range(len(shares)))
        if "bucket_edges" in line:
            edges = [row["low"] for row in rows_of_line] + [rows_of_line[-1]["high"]]
            assert edges == line["bucket_edges"]
            assert {row["kind"] for row in rows_of_line} == {"bucket"}
        ends = line.get("intervals", {}).get("ends", {})
        low = ends.get("certain", {}).get("frequencies") or ends.get("if_smooth", {}).get("distribution")
        expected = low["low"] if low else [None] * len(shares)
        assert [row["share_if_smooth_low"] for row in rows_of_line] == expected
        assert [row["key_mean"] for row in rows_of_line] == (line.get("key_means") or [None] * len(shares))
    assert next(rows, None) is None

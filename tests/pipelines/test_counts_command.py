"""``ldpbeam estimate --counts``: the files of a run over the reports themselves."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

import ldpbeam as ldp
from ldpbeam.command_line.main import main

TEXT = """\
study: commute
attributes:
  mode: {domain: {categories: [car, bus, bike]}, services: {maps: {mechanism: oue, epsilon: 2}}}
windows: {size: 1d}
groups: {field: country, at_most: 5}
intervals: false
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ldp.Study:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(TEXT)
    return ldp.Study.from_yaml("study.yaml")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_of_counts_are_estimated_as_the_reports(study: ldp.Study, kind: str) -> None:
    times = 1_767_225_600_000 + 86_400_000 * (np.arange(900) % 2)
    values, groups = ["car", "bus", "bike"] * 300, ["nl", "de", "07"] * 300
    reports = ldp.Client(study, "mode", "maps").reports(
        values, np.arange(900), event_times=times, groups=groups
    )
    pq.write_table(reports, "reports.parquet")
    query = """
        SELECT
          date_trunc('day', event_time) AS window_start, country, hex(payload) AS payload, count(*) AS count
        FROM 'reports.parquet' GROUP BY ALL ORDER BY ALL
    """
    duckdb.sql(f"COPY ({query}) TO 'counts.{kind}'")
    assert main(["estimate", "--study", "study.yaml", "--input", "reports.parquet", "--output", "all"]) == 0
    assert (
        main(["estimate", "--study", "study.yaml", "--counts", f"counts.{kind}", "--output", "counted"]) == 0
    )
    whole, counted = (
        [{**json.loads(line), "run": ""} for line in Path(folder, "estimates.jsonl").read_text().splitlines()]
        for folder in ("all", "counted")
    )
    assert counted == whole and len(whole) == 6
    assert json.loads(Path("counted/accounting.json").read_text())["used"] == 900


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("payload,count\n01,3\n", "counts.csv: there is no column 'window_start'"),
        (
            "window_start,payload,count,country\n2026-01-01T00:00:00Z,0,3,nl\n",
            "counts.csv: row 0: payload wrong",
        ),
        ("", "counts.csv: Empty CSV file"),
    ],
)
def test_what_is_wrong_has_the_name_of_the_file(
    study: ldp.Study, capsys: pytest.CaptureFixture[str], rows: str, said: str
) -> None:
    Path("counts.csv").write_text(rows)
    assert main(["estimate", "--study", "study.yaml", "--counts", "counts.csv", "--output", "out"]) == 2
    assert said in capsys.readouterr().err


def test_the_sql_of_numbers_is_printed(study: ldp.Study, capsys: pytest.CaptureFixture[str]) -> None:
    Path("study.yaml").write_text(
        TEXT.replace("categories: [car, bus, bike]", "numeric: [0, 1]").replace("oue", "laplace")
    )
    assert main(["explain", "--counts", "study.yaml"]) == 0
    first, cell, step = capsys.readouterr().out.splitlines()
    assert first == "-- mode, maps" and cell.endswith("+ 1, 0), 257) AS cell,") and step.endswith(" AS step")

"""Mistakes that cost more than themselves: lost outputs, memory, other services' files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.tallied import tallied

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports import validation

RECORD = {"attribute": "x", "service": "a", "event_time": 1_795_168_800_000, "payload": 0.5}


@pytest.fixture
def good(tmp_path: Path, write_lines: Callable[..., Path]) -> Path:
    return write_lines(tmp_path / "in.jsonl", [{**RECORD, "user_id": f"u{i}"} for i in range(5)])


def test_a_run_that_cannot_start_leaves_the_outputs_of_the_last_one(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    first = run_estimate(tmp_path / "a", small_text, [good])
    before = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    again = run_estimate(tmp_path / "a", small_text, [good], "--runner", "os.path.join")
    assert again.code == 2
    assert again.err.startswith("ldpbeam: --runner os.path.join: ")
    assert {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "''"),
        ("foo://x", "foo://x: "),
        ("/dev/null", "/dev/null: "),
        ("/dev/null/x", "/dev/null/x: Not a directory: "),
    ],
)
def test_an_output_folder_that_cannot_be_is_one_message(
    output: str, said: str, good: Path, small_text: str, tmp_path: Path, command: Any
) -> None:
    (tmp_path / "study.yaml").write_text(small_text)
    found = command("estimate", "--study", tmp_path / "study.yaml", "--input", good, "--output", output)
    assert found.code == 2
    assert found.err.startswith(f"ldpbeam: --output {said}")


@pytest.mark.parametrize("output", ["people.csv", "people.csv/reports"])
def test_reports_need_a_folder(
    output: str, make_people: Callable[..., Path], small_text: str, tmp_path: Path, command: Any
) -> None:
    (tmp_path / "study.yaml").write_text(small_text)
    people = make_people(tmp_path / "people.csv", [0.1, 0.2])
    found = command(
        "perturb", "--study", tmp_path / "study.yaml", "--attribute", "x", "--input", people,
        "--value-column", "value", "--output", tmp_path / output,
    )  # fmt: skip
    assert found.code == 2
    assert found.err == f"ldpbeam: --output {tmp_path / output}: a folder is needed\n"


def test_what_is_kept_of_names_does_not_grow_with_them(small_text: str) -> None:
    names = pa.array([f"service {i}" for i in range(5000)] + [None, "a", ""])
    batch = pa.RecordBatch.from_pydict({"service": names})
    found = validation._rows_by(batch, "service", list(parse_study(small_text).attribute("x").services))
    assert {name: int(rows.sum()) for name, rows in found.items()} == {"a": 1, "": 5001, None: 1}
    assert all(isinstance(rows, np.ndarray) for rows in found.values())


def test_reports_of_a_service_are_replaced_and_no_others(
    small_text: str, tmp_path: Path, make_people: Any, command: Any
) -> None:
    people = make_people(tmp_path / "people.csv", [0.1, 0.2])
    study = tmp_path / "study.yaml"
    study.write_text(small_text.replace("      b:", "      a-0:").replace("[b]", "[a-0]"))

    def sent(*options: str) -> Any:
        given = (
            "--attribute",
            "x",
            "--input",
            people,
            "--value-column",
            "value",
            "--output",
            tmp_path / "out",
        )
        return command("perturb", "--study", study, *given, *options)

    assert sent("--services", "a-0").code == 0
    other = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sent("--services", "a").code == 0
    refused = sent("--services", "a")
    assert refused.code == 2
    assert "has reports of x to a already" in refused.err
    assert sent("--services", "a", "--overwrite").code == 0
    assert all(path.read_bytes() == data for path, data in other.items())


def test_sliding_windows_count_report_windows_also_where_nothing_is_joined(small_text: str) -> None:
    text = small_text.replace("{estimator: ule}", "{estimator: ems}") + "duplicates: keep\n"
    reports = [{**RECORD, "user_id": f"u{i}"} for i in range(5)]
    found = tallied(text + "windows: {size: 120h, period: 1h}\n", reports).accounting
    assert (found["used"], found["used_in_windows"]) == (5, 5 * 120)


def test_without_windows_all_is_one_and_the_ledger_says_its_users_and_epsilons(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path / "a", small_text + "epsilon_cap: 0.1\n", [good])
    assert [(e["window_start"], e["window_end"], e["name"]) for e in found.estimates] == [
        (None, None, "mean"),
        (None, None, "both"),
    ]
    assert [path.name for path in (found.path / "statistics").iterdir()] == ["small-x-all.avro"]
    (entry,) = found.json("ledger.json")
    assert entry["window_start"] is None
    assert entry["users_over_cap"] == sum(part["users"] for part in entry["spent"]) == 5
    assert "5 users spent more than the study's epsilon_cap of 0.1" in found.out
    assert json.loads((found.path / "accounting.json").read_text())["used"] == 5

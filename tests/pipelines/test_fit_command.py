"""``ldpbeam estimate`` and ``rollup`` say whether the reports are what the study claims."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.pipelines.estimates.fit import print_fit
from ldpbeam.schemas.study.yaml_file import parse_study

TWO = """\
study: two
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 64
    services:
      wave: {mechanism: square_wave, epsilon: 1.0}
      sign: {mechanism: stochastic_rounding, epsilon: 1.0}
    estimates: {mean: {estimator: ivw}, both: {estimator: ule}}
"""
GROUPS = "groups: {field: region}\n"
WINDOWS = "windows: {size: 1h}\n"
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
PEOPLE = 20_000


@pytest.fixture(scope="module")
def sent(simulate: Any) -> list[Any]:
    """Three hours of reports of 20,000 people to both services."""
    values = np.random.default_rng(1).beta(2, 5, PEOPLE)
    return simulate(parse_study(TWO), "x", values, seed=2, start=START, spread=3 * 3_600_000)


@pytest.fixture
def estimated(tmp_path: Path, write_reports: Any, run_estimate: Any) -> Callable[..., Any]:
    """Runs ``estimate`` on what was sent."""

    def run(text: str, sent: list[Any], *options: object, name: str = "run", kind: str = "avro") -> Any:
        write_reports(tmp_path / f"{name}-reports", sent, kind)
        return run_estimate(tmp_path / name, text, [tmp_path / f"{name}-reports" / "*"], *options)

    return run


def test_a_clean_run_says_so_in_one_line_and_lists_its_tests(estimated: Any, sent: list[Any]) -> None:
    ran = estimated(TWO, sent)
    assert (ran.code, ran.err) == (0, "")
    assert "all 3 tests of fit passed" in ran.out
    found = ran.json("fit.json")
    assert (found["false_alarms"], found["not_tested"]) == (0.01, [])
    alike = {
        "attribute": "x", "group": None, "other_groups": False, "window_start": None, "window_end": None,
        "reports": PEOPLE, "flagged": False,
    }  # fmt: skip
    assert [entry | alike for entry in found["tests"]] == found["tests"]
    assert [(entry["test"], entry["services"]) for entry in found["tests"]] == [
        ("reports", ["wave"]), ("reports", ["sign"]), ("same_people", ["wave", "sign"]),
    ]  # fmt: skip
    assert all(0.01 < entry["p_value"] <= 1.0 for entry in found["tests"])


def test_another_epsilon_is_a_warning_and_no_other_exit_code(estimated: Any, sent: list[Any]) -> None:
    # JSON lines do not state the epsilon that they were made with.
    ran = estimated(TWO.replace("square_wave, epsilon: 1.0", "square_wave, epsilon: 0.8"), sent, kind="jsonl")
    assert ran.code == 0
    # Beside the other service, the reports do not fit either.
    warning, second = ran.err.splitlines()
    assert "users to wave and sign are inconsistent" in second
    assert warning.startswith("ldpbeam: warning: x: the 20,000 reports to wave do not fit square_wave with ")
    assert "epsilon 0.8 (by chance: below 1e-12). Its clients may use another mechanism" in warning
    assert "2 of 3 tests of fit failed: the reports are not what the study claims" in ran.out
    flags = {tuple(entry["services"]): entry["flagged"] for entry in ran.json("fit.json")["tests"]}
    assert flags == {("wave",): True, ("sign",): False, ("wave", "sign"): True}


def test_reports_that_no_client_can_send_have_a_warning_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Few say nothing of the others.
    for dropped, said in ((1, "1 report of 100,000 (0.0010%)"), (1_200, "1,200 reports of 100,000 (1.20%)")):
        print_fit(parse_study(TWO), [], dropped, 100_000)
        printed = capsys.readouterr().err
        assert f"ldpbeam: warning: {said} cannot come from the mechanism of their service" in printed
        assert ("misread" in printed) == (dropped > 1)


def test_groups_are_tested_alone_and_together_few_warnings_are_printed_and_roll_ups_test_again(
    estimated: Any, sent: list[Any], command: Any, tmp_path: Path
) -> None:
    regions = pa.array(["north", "south", "east"]).take(np.arange(PEOPLE) % 3)
    flipped = [replace(sent[0], extras={"region": regions})]
    flipped.append(replace(sent[1], payloads=-sent[1].payloads, extras={"region": regions}))
    ran = estimated(TWO + WINDOWS + GROUPS, flipped)
    assert ran.code == 0
    same_people = [entry for entry in ran.json("fit.json")["tests"] if entry["test"] == "same_people"]
    hours = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12)]
    assert [(e["window_start"], e["group"]) for e in same_people] == [
        (hour, group) for hour in hours for group in ("east", "north", "south", None)
    ]
    assert all(entry["flagged"] for entry in same_people)
    for of_hour in (same_people[:4], same_people[4:8], same_people[8:]):
        assert sum(entry["reports"] for entry in of_hour[:3]) == of_hour[3]["reports"]
    lines = ran.err.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith(
        "ldpbeam: warning: x, window 2026-11-20T10:00:00Z, group east: the reports of "
    )
    assert "users to wave and sign are inconsistent (by chance: below 1e-12)" in lines[0]
    assert lines[5] == "ldpbeam: warning: 7 more are in fit.json"
    rolled = command(
        "rollup", "--study", tmp_path / "run" / "study.yaml", "--output", tmp_path / "rolled", "--total",
        "--statistics", ran.path / "statistics" / "*.avro",
    )  # fmt: skip
    assert rolled.code == 0
    (warning,) = rolled.err.splitlines()
    assert "the reports of 20,000 users to wave and sign are inconsistent" in warning
    tests = json.loads((tmp_path / "rolled" / "fit.json").read_text())["tests"]
    assert [entry["flagged"] for entry in tests] == [False, False, True]

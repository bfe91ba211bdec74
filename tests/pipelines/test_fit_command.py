"""``ldpbeam estimate`` and ``rollup`` say whether the reports are what the study claims."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    estimates:
      mean: {estimator: ivw}
      both: {estimator: ule}
"""
GROUPS = "groups: {field: region}\n"
WINDOWS = "windows: {size: 1h}\n"
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
PEOPLE = 20_000


@pytest.fixture(scope="module")
def sent(simulate: Callable[..., Any]) -> list[Any]:
    """Three hours of reports of 20,000 people to both services."""
    values = np.random.default_rng(1).beta(2, 5, PEOPLE)
    return simulate(parse_study(TWO), "x", values, seed=2, start=START, spread=3 * 3_600_000)


@pytest.fixture
def estimated(
    tmp_path: Path, write_reports: Callable[..., Any], run_estimate: Callable[..., Any]
) -> Callable[..., Any]:
    """Runs ``estimate`` on what was sent."""

    def run(text: str, sent: list[Any], *options: object, name: str = "run", kind: str = "avro") -> Any:
        write_reports(tmp_path / f"{name}-reports", sent, kind)
        return run_estimate(tmp_path / name, text, [tmp_path / f"{name}-reports" / "*"], *options)

    return run


def test_a_clean_run_says_so_in_one_line_and_lists_its_tests(
    estimated: Callable[..., Any], sent: list[Any]
) -> None:
    ran = estimated(TWO, sent)
    assert (ran.code, ran.err) == (0, "")
    assert "0 of 3 tests say that the reports are not what the study claims" in ran.out
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


def test_another_epsilon_is_a_warning_and_no_other_exit_code(
    estimated: Callable[..., Any], sent: list[Any]
) -> None:
    # JSON lines do not state the epsilon that they were made with.
    ran = estimated(TWO.replace("square_wave, epsilon: 1.0", "square_wave, epsilon: 0.8"), sent, kind="jsonl")
    assert ran.code == 0
    # Beside the other service, the reports do not fit either.
    warning, second = ran.err.splitlines()
    assert "users to wave and sign do not go together" in second
    assert warning.startswith("ldpbeam: warning: x: the 20,000 reports to wave do not fit square_wave with ")
    assert "epsilon 0.8 (by chance: below 1e-12). Its clients may use another mechanism" in warning
    assert "2 of 3 tests say that the reports are not what the study claims" in ran.out
    flags = {tuple(entry["services"]): entry["flagged"] for entry in ran.json("fit.json")["tests"]}
    assert flags == {("wave",): True, ("sign",): False, ("wave", "sign"): True}


def test_a_smaller_epsilon_sends_what_the_mechanism_cannot(
    estimated: Callable[..., Any], simulate: Callable[..., Any]
) -> None:
    """The other reports fit so well that no test sees the epsilon."""
    values = np.random.default_rng(3).beta(2, 5, PEOPLE)
    alone = TWO.replace("      sign: {mechanism: stochastic_rounding, epsilon: 1.0}\n", "").replace(
        "ule", "ems"
    )
    smaller = parse_study(alone.replace("epsilon: 1.0", "epsilon: 0.9"))
    ran = estimated(alone, simulate(smaller, "x", values, seed=4, start=START, spread=1), kind="jsonl")
    dropped = ran.accounting["dead_letters"]
    assert 0 < dropped < PEOPLE / 50
    told = f"ldpbeam: warning: {dropped:,} reports are outside of what the mechanism of the service can send"
    assert told in ran.err


def test_a_flipped_sign_is_a_warning_in_each_window_and_again_in_a_roll_up(
    estimated: Callable[..., Any], sent: list[Any], command: Callable[..., Any], tmp_path: Path
) -> None:
    flipped = [sent[0], replace(sent[1], payloads=-sent[1].payloads)]
    ran = estimated(TWO + WINDOWS, flipped)
    assert ran.code == 0
    first, *others = ran.err.splitlines()
    assert first.startswith("ldpbeam: warning: x, window 2026-11-20T10:00:00Z: the reports of 6,")
    assert "users to wave and sign do not go together (by chance: below 1e-12)" in first
    assert len(others) == 2
    (tmp_path / "study.yaml").write_text(TWO + WINDOWS)
    rolled = command(
        "rollup", "--study", tmp_path / "study.yaml", "--output", tmp_path / "rolled",
        "--statistics", *sorted((ran.path / "statistics").glob("*.avro")),
    )  # fmt: skip
    assert rolled.code == 0
    (warning,) = rolled.err.splitlines()
    assert "the reports of 20,000 users to wave and sign do not go together" in warning
    found = json.loads((tmp_path / "rolled" / "fit.json").read_text())
    assert [entry["flagged"] for entry in found["tests"]] == [False, False, True]


def test_groups_are_tested_alone_and_together_and_few_warnings_are_printed(
    estimated: Callable[..., Any], sent: list[Any]
) -> None:
    regions = np.array([b"north", b"south", b"east"]).astype("S5")[np.arange(PEOPLE) % 3]
    flipped = [replace(sent[0], extras={"region": regions})]
    flipped.append(replace(sent[1], payloads=-sent[1].payloads, extras={"region": regions}))
    ran = estimated(TWO + WINDOWS + GROUPS, flipped)
    found = [entry for entry in ran.json("fit.json")["tests"] if entry["test"] == "same_people"]
    hours = [f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12)]
    assert [(e["window_start"], e["group"]) for e in found] == [
        (hour, group) for hour in hours for group in ("east", "north", "south", None)
    ]
    assert all(entry["flagged"] for entry in found)
    for of_hour in (found[:4], found[4:8], found[8:]):
        assert sum(entry["reports"] for entry in of_hour[:3]) == of_hour[3]["reports"]
    lines = ran.err.splitlines()
    assert len(lines) == 6
    assert "x, window 2026-11-20T10:00:00Z, group east: the reports of" in lines[0]
    assert lines[5] == "ldpbeam: warning: 7 more are in fit.json"


def test_a_scheduled_run_has_its_tests_beside_its_accounting(
    estimated: Callable[..., Any], sent: list[Any]
) -> None:
    span = ("--from", "2026-11-20T10:00:00Z", "--to", "2026-11-20T12:00:00Z")
    ran = estimated(TWO + WINDOWS, sent, *span)
    assert ran.code == 0
    assert ran.own != ran.path
    starts = {entry["window_start"] for entry in ran.json("fit.json")["tests"]}
    assert starts == {"2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"}
    assert not (ran.path / "fit.json").exists()

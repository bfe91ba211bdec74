"""What takes minutes or hours is said before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldpbeam.answers.costs import slow_parts
from ldpbeam.mechanisms import LocalHashing
from ldpbeam.mechanisms.ranges.binned import Binned
from ldpbeam.pipelines.commands import estimate as estimate_command
from ldpbeam.schemas.study.yaml_file import parse_study

TEXT = """\
study: many
attributes:
  x:
    domain: {categories: 200000}
    services: {a: {mechanism: olh, epsilon: 1.0}}
    estimates: {shares: {estimator: norm_sub}}
"""
FAMILY = TEXT.replace("200000", "100000").replace("epsilon: 1.0", "epsilon: 6.0")
EM = FAMILY.replace("estimator: norm_sub", "estimator: em")
COUNTED = (
    "Service 'a' of 'x' is slow to count: every report is compared with all 200,000 categories, about 7 "
    "minutes of one core for a million reports; fewer categories, or hadamard, are faster."
)
SOLVED = (
    "Estimate 'shares' of 'x' is slow: each iteration looks up 268,400,000 hashes, so up to 58 minutes of "
    "one core; set accelerated: true, use norm_sub, or give fewer seeds."
)
HOURS = SOLVED.replace("58 minutes", "64 minutes")


@pytest.mark.parametrize(
    ("text", "slow"),
    [
        (TEXT, [COUNTED]),
        (TEXT.replace("200000", "1000"), []),
        (TEXT.replace("olh", "hadamard"), []),
        (FAMILY, []),
        (EM, [HOURS]),
        (EM.replace("estimator: em", "estimator: mr"), [HOURS.replace("set accelerated: true, ", "")]),
        (EM.replace("estimator: em", "estimator: em, accelerated: true"), []),
        (EM.replace("estimator: em", "estimator: em, accelerated: false"), [HOURS]),
        (EM.replace("estimator: em", "estimator: em, max_iterations: 9000"), [SOLVED]),
        (EM.replace("100000", "222"), []),
    ],
)
def test_a_sentence_says_what_is_slow(text: str, slow: list[str]) -> None:
    assert list(slow_parts(parse_study(text))) == slow


def test_the_oracle_of_bins_says_what_it_costs() -> None:
    family, free = Binned(1.0, bins=500, oracle="olh"), LocalHashing(1.0, 500, seeds="any")
    assert family.lookups_per_product == int(LocalHashing(1.0, 500).seeds) * 500
    assert (family.hashes_per_report, free.hashes_per_report, free.lookups_per_product) == (0, 500, 0)


@pytest.mark.parametrize("name", ["estimate", "rollup"])
def test_what_takes_hours_is_said_before_it_starts(name: str, tmp_path: Path, command: Any) -> None:
    (tmp_path / "study.yaml").write_text(EM)
    files = "--input" if name == "estimate" else "--statistics"
    given = (files, tmp_path / "none", "--output", tmp_path / "out")
    assert HOURS in command(name, "--study", tmp_path / "study.yaml", *given).err
    assert HOURS in command("explain", "--study", tmp_path / "study.yaml").out


def test_it_is_said_before_the_pipeline_starts_and_by_explain(
    tmp_path: Path, command: Any, write_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.yaml").write_text(TEXT)
    reports = write_lines(tmp_path / "in.jsonl", [{"user_id": "u", "attribute": "x", "service": "a"}])

    class Started(BaseException): ...

    def start(*_: object) -> None:
        raise Started

    monkeypatch.setattr(estimate_command, "tally_here", start)
    said: list[str] = []
    monkeypatch.setattr("builtins.print", lambda *texts, **_: said.extend(texts))
    study = ("--study", tmp_path / "study.yaml")
    with pytest.raises(Started):
        command("estimate", *study, "--input", reports, "--output", tmp_path / "out")
    assert said == [f"ldpbeam: {COUNTED}"]
    monkeypatch.undo()
    assert COUNTED in command("explain", *study).out

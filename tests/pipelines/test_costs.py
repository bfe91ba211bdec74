"""What takes minutes or hours is said before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldpbeam.pipelines.commands import estimate as estimate_command
from ldpbeam.pipelines.runs.costs import slow_parts
from ldpbeam.schemas.study.yaml_file import parse_study

TEXT = """\
study: many
attributes:
  x:
    domain: {categories: 100000}
    services: {a: {mechanism: olh, epsilon: 1.0}}
    estimates: {shares: {estimator: norm_sub}}
"""
FAMILY = TEXT.replace("epsilon: 1.0", "epsilon: 6.0")
COUNTED = (
    "Service 'a' of 'x' is slow to count: olh with any seed compares every report with all 100,000 "
    "categories, about 17 minutes of one core for a million reports; fewer categories, or hadamard, are "
    "faster."
)
SOLVED = (
    "Estimate 'shares' of 'x' is slow: each iteration goes twice over 134,200,000 hashes, about 11 minutes "
    "for a thousand iterations; norm_sub needs no iteration, and fewer seeds are faster."
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT, [COUNTED]),
        (FAMILY.replace("norm_sub", "em"), [SOLVED]),
        (FAMILY, []),
        (TEXT.replace("100000", "1000"), []),
        (TEXT.replace("olh", "hadamard"), []),
    ],
)
def test_a_sentence_says_what_is_slow(text: str, said: list[str]) -> None:
    assert list(slow_parts(parse_study(text))) == said


def test_it_is_said_before_the_pipeline_starts_and_by_explain(
    tmp_path: Path, command: Any, write_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.yaml").write_text(TEXT)
    reports = write_lines(tmp_path / "in.jsonl", [{"user_id": "u", "attribute": "x", "service": "a"}])

    class Started(BaseException): ...

    def start(*_: object) -> None:
        raise Started

    monkeypatch.setattr(estimate_command.stages, "run_pipeline", start)
    said: list[str] = []
    monkeypatch.setattr("builtins.print", lambda text, **_: said.append(text))
    study = ("--study", tmp_path / "study.yaml")
    with pytest.raises(Started):
        command("estimate", *study, "--input", reports, "--output", tmp_path / "out")
    assert said == [f"ldpbeam: {COUNTED}"]
    monkeypatch.undo()
    assert COUNTED in command("explain", *study).out

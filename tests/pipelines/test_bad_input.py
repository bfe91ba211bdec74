"""What bad input gets through the whole command; each kind of it: test_read_files and test_validate."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.mechanisms import Piecewise
from ldpbeam.pipelines.commands import estimate
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.counts import accounting


def report(user: str, **changes: Any) -> dict[str, Any]:
    return {"user_id": user, "attribute": "x", "service": "a", "event_time": 0, "payload": 0.5, **changes}


@pytest.fixture
def good(tmp_path: Path, write_lines: Callable[..., Path]) -> Path:
    """Two hundred good reports."""
    return write_lines(tmp_path / "in" / "good.jsonl", [report(f"u{i}") for i in range(200)])


def test_good_input_is_used_without_a_word_of_complaint(
    small_text: str, tmp_path: Path, run_estimate: Any, write_lines: Any
) -> None:
    sent = Piecewise(1.0).perturb(np.full(200, 0.5), np.random.default_rng(1))
    reports = [report(f"u{i}", payload=float(payload)) for i, payload in enumerate(sent)]
    good = write_lines(tmp_path / "in" / "good.jsonl", reports)
    again = write_lines(tmp_path / "in" / "again.jsonl", [report("u1", report_id="r")])
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        found = run_estimate(tmp_path, small_text, [good, again])
    assert (found.code, found.err) == (0, "")
    assert found.accounting["duplicates"] == 1
    # A person would see these on the screen; imports are done, so none is of somebody else's start.
    assert [str(w.message) for w in complaints if issubclass(w.category, FutureWarning)] == []


def test_a_pattern_without_a_file_is_named(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path, small_text, [good, tmp_path / "none*.avro"])
    assert found.code == 2
    assert f"--input {tmp_path}/none*.avro: no file has this name" in found.err
    assert not found.path.exists()


# The place in the file, what was found, and what is allowed: tests/schemas/test_study_file.
def test_a_wrong_study_file_gets_one_message_and_nothing_starts(
    small_text: str, good: Path, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path, small_text.replace("buckets: 8", "buckets: 1"), [good])
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"ldpbeam: {tmp_path}/study.yaml:5: buckets of attribute x: ")
    assert not found.path.exists()


# Two of 200 are exactly the 1% that is allowed.
@pytest.mark.parametrize(("bad", "code"), [(2, 0), (3, 3)])
def test_more_bad_records_than_allowed_is_exit_code_3(
    bad: int, code: int, small_text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = accounting([("in", 200), ("used", 200 - bad), ("dead_letters", bad)])
    assert estimate._judged(parse_study(small_text), counts, 0.01) == code
    assert ("1.50% of the input is bad, more than --max-bad-fraction 0.01" in capsys.readouterr().err) == (
        code == 3
    )

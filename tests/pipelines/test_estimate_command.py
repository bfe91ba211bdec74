"""``ldpbeam estimate``: whose outputs it replaces, how it ends, and its table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.mechanisms import Piecewise
from ldpbeam.pipelines.commands import estimate
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import accounting


def test_good_input_is_used_without_a_word_of_complaint(
    small_text: str, tmp_path: Path, run_estimate: Any, write_lines: Any
) -> None:
    payloads = Piecewise(1.0).perturb(np.full(200, 0.5), np.random.default_rng(1)).tolist()
    record = {"attribute": "x", "service": "a", "event_time": 0}
    reports = [{**record, "user_id": f"u{place}", "payload": own} for place, own in enumerate(payloads)]
    repeat = {**record, "user_id": "u1", "payload": 0.5, "report_id": "r"}
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        given = [write_lines(tmp_path / "in.jsonl", [*reports, repeat])]
        ran = run_estimate(tmp_path, small_text + "epsilon_cap: 0.1\n", given)
    assert (ran.code, ran.err) == (0, "")
    assert ran.accounting["duplicates"] == 1
    assert "200 users spent more than the study's epsilon_cap of 0.1" in ran.out
    assert [path.name for path in (ran.path / "statistics").iterdir()] == ["small-x-all.avro"]
    # A person would see these on the screen; imports are done, so none is of somebody else's start.
    assert [str(w.message) for w in complaints if issubclass(w.category, FutureWarning)] == []


@pytest.mark.parametrize(
    ("counts", "code", "said"),
    [
        # Two of 200 are exactly the 1% that is allowed.
        ({"in": 200, "used": 198, "dead_letters": 2}, 0, ""),
        ({"in": 200, "used": 197, "dead_letters": 3}, 3, "1.50% of the input is bad, more than"),
        ({"in": 200, "used": 200, "damaged_files": 2}, 3, "2 files are damaged: how many"),
        ({"in": 7, "used": 5, "duplicates": 2, "beyond_most_reports": 2}, 3, "2 reports dropped from users"),
        ({}, 0, "ldpbeam: warning: the input has no report, so there is no estimate\n"),
        ({"in": 7, "late": 7}, 0, "none of the 7 reports in the input is used, so there is no"),
    ],
)  # fmt: skip
def test_the_exit_code_and_the_warnings_follow_from_the_accounting(
    counts: dict[str, int], code: int, said: str, commute: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    assert estimate._judged(commute, accounting(counts.items()) | counts, 0.01) == code
    err = capsys.readouterr().err
    assert said in err and bool(said) == bool(err)

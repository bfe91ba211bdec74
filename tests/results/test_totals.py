"""The total over groups is the estimate of everybody's reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.studies import SMALL

from ldpbeam.folders.read import read_results
from ldpbeam.results.totals import totals_of
from ldpbeam.schemas.study.yaml_file import parse_study


def test_a_total_is_what_the_reports_give_without_groups(
    tmp_path: Path, run_estimate: Any, simulate: Any, write_reports: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped, whole = f"{SMALL}groups: {{field: region}}\n", tmp_path / "whole"
    sent = simulate(
        parse_study(grouped), "x", [0.1, 0.1, 0.3, 0.9], users=list("abcd"), groups=["n", "n", "s", "s"]
    )
    whole.mkdir()
    reports = write_reports(tmp_path / "reports", sent)
    assert run_estimate(tmp_path, grouped, reports).code == run_estimate(whole, SMALL, reports).code == 0
    results = read_results(str(tmp_path / "output"))
    totals, alone = totals_of(results, results.estimates), read_results(str(whole / "output")).estimates
    assert totals == [replace(own, group="all groups", run="") for own in alone]
    # The next page has the same panes, and estimates nothing again.
    monkeypatch.setattr("ldpbeam.results.totals.solved", None)
    assert totals_of(results, results.estimates) == totals
    # One group is no sum, and a group of that name is none of ours.
    assert totals_of(results, results.estimates[:2]) == []
    named = replace(results.estimates[0], group="all groups")
    assert totals_of(results, [named, *results.estimates[1:]]) == []

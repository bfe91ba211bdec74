"""Reports of no user beside reports of users, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from support.guessed_ids import START

import ldpbeam as ldp

STUDY = """\
study: nobody
users: none
attributes:
  x: {domain: {numeric: [0, 1]}, buckets: 8, services: {a: {mechanism: piecewise, epsilon: 1.0}}}
  drink: {domain: {categories: [tea, rum, milk]}, services: {a: {mechanism: grr, epsilon: 1.0}}}
windows: {size: 1h, allowed_lateness: 10m}
intervals: false
"""
#: The same study, but its numbers have users.
MIXED = STUDY.replace("users: none\n", "").replace("{domain: {cat", "{users: none, domain: {cat")


def reports(*, ids: bool = True, seed: int = 1) -> list[dict[str, Any]]:
    """Reports of two attributes in two hours; every third has the report id of the one before."""
    rng, found = np.random.default_rng(seed), []
    for number in range(600):
        attribute = ("x", "drink")[number % 2]
        report: dict[str, Any] = {
            "attribute": attribute,
            "service": "a",
            "event_time": START + int(rng.integers(2 * 3_600_000)),
            "payload": float(rng.uniform(-1, 1)) if attribute == "x" else float(rng.integers(3)),
            "report_id": f"r{number // 6}" if number % 3 else None,
        }
        found.append({"user_id": f"u{number // 8}", **report} if ids else report)
    return found


def lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def as_written(estimates: Any) -> list[dict[str, Any]]:
    """The estimates of the library as a run writes them."""
    written: list[dict[str, Any]] = json.loads(json.dumps(estimates.records()))
    return written


def test_an_attribute_with_users_is_joined_beside_one_without(run_estimate: Any, tmp_path: Path) -> None:
    lines(tmp_path / "in.jsonl", reports())
    run = run_estimate(tmp_path / "run", MIXED, [tmp_path / "in.jsonl"])
    users = {s.attribute: s.statistic.users for s in run.snapshots}
    assert users["drink"] is None
    of_x = [{**report, "attribute": "x"} for report in reports() if report["attribute"] == "x"]
    alone = ldp.estimate(ldp.Study.from_yaml(MIXED.replace("users: none, ", "")), of_x)
    counted = ldp.estimate(ldp.Study.from_yaml(MIXED), reports())
    assert run.accounting["used"] == counted.counts["used"]
    assert [e for e in run.estimates if e["attribute"] == "x"] == as_written(alone)
    without = [{n: v for n, v in r.items() if n != "user_id"} for r in reports()]
    counts = ldp.estimate(ldp.Study.from_yaml(MIXED), without).counts
    assert counts["dead_letters_by_reason"] == {"no_user_id": 300}


def test_what_is_made_of_a_run_says_what_it_counts(command: Any, run_estimate: Any, tmp_path: Path) -> None:
    lines(tmp_path / "in.jsonl", reports())
    run = run_estimate(tmp_path / "run", f"{STUDY}publish: {{at_least: 70}}\n", [tmp_path / "in.jsonl"])
    study, folder = tmp_path / "run" / "study.yaml", tmp_path / "rolled"
    # Of one attribute and hour there are fewer reports.
    least = "a window has fewer than 70 reports (publish.at_least)"
    few = [snapshot for snapshot in run.snapshots if snapshot.statistic.reports < 70]
    assert (least in run.err) == bool(few)
    assert {e["users"] for e in run.estimates} == {None}
    assert json.loads((run.path / "ledger.json").read_text()) == []
    rolled = command(
        "rollup", "--study", study, "--window", "2h", "--output", folder,
        "--statistics", run.path / "statistics" / "*.avro", "--json",
    )  # fmt: skip
    assert rolled.code == 0, rolled.err
    estimates = json.loads(rolled.out)["estimates"]
    assert [e["reports"] for e in estimates] == [200, 200]
    assert command("diff", folder, folder).code == 0
    assert command("show", run.path).code == 0
    page = tmp_path / "page.html"
    assert command("report", run.path, "-o", page).code == 0
    assert (
        "Each report is taken for one of another person, in thresholds, intervals and tests"
        in page.read_text()
    )
    planned = command("plan", "--study", study, "--users", 1000)
    assert "nobody can count how many anybody sends" in planned.out
    (of_x, _) = json.loads(command("plan", "--study", study, "--users", 1000, "--json").out)
    assert of_x["attribute"] == "x" and of_x["one_percent_fake"] is None

"""Reports of no user: every way in counts each alone, and what was an id is nowhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from support.guessed_ids import REASONS, START, looked_through, write_inputs

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


def parquet(path: Path, records: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(records), path)


def avro(path: Path, records: list[dict[str, Any]]) -> None:
    kinds: dict[str, Any] = {"event_time": "long", "payload": "double", "report_id": ["null", "string"]}
    names = dict.fromkeys(name for record in records for name in record)
    fields = [{"name": name, "type": kinds.get(name, "string")} for name in names]
    with path.open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": "R", "fields": fields}, records)


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    "jsonl": lines,
    "parquet": parquet,
    "avro": avro,
}


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no ids"])
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("duplicates", ["drop", "keep"])
def test_files_the_library_and_beam_count_the_same_reports(
    kind: str, ids: bool, duplicates: str, run_estimate: Any, tmp_path: Path
) -> None:
    text = f"{STUDY}duplicates: {duplicates}\n"
    WRITERS[kind](tmp_path / f"in.{kind}", reports(ids=ids))
    run = run_estimate(tmp_path / "run", text, [tmp_path / f"in.{kind}"])
    assert run.code == 0, run.err
    study = ldp.Study.from_yaml(text)
    expected = ldp.estimate(study, reports(ids=False))
    # Of the reports of an attribute with one id, whoever sent them, one counts.
    distinct = {(r["attribute"], r["report_id"] or n) for n, r in enumerate(reports(ids=False))}
    assert expected.counts["used"] == (len(distinct) if duplicates == "drop" else 600)
    assert run.accounting["used"] == expected.counts["used"]
    assert run.accounting["duplicates"] == expected.counts["duplicates"]
    tallied = {(s.attribute, s.window): s.statistic for s in run.snapshots}
    assert all(statistic.users is None for statistic in tallied.values())
    assert run.estimates == as_written(expected)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        elements = pipeline | beam.Create(reports(ids=ids))
        counted = elements | ldp.beam.Statistics(study)
        rows = counted.statistics | beam.Map(lambda row: (row.attribute, row.reports, row.users))
        assert_that(rows, equal_to([(name, s.reports, None) for (name, _), s in tallied.items()]))


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


@pytest.mark.parametrize("text", [STUDY, MIXED], ids=["no users", "some users"])
def test_no_output_of_a_batch_has_anything_of_a_guessed_id(
    text: str, run_estimate: Any, tmp_path: Path
) -> None:
    inputs = write_inputs(tmp_path / "in")
    run = run_estimate(tmp_path / "run", text, [inputs / "*"], "--on-bad-file", "skip")
    reasons = {letter["reason"] for letter in run.dead_letters}
    assert REASONS - {"no_user_id", "user_id_too_long"} <= reasons
    # A record without any field has a hash, too.
    nobody = {b"{}", hashlib.sha256(b"{}").hexdigest().encode()}
    if text == STUDY:
        assert not {*looked_through(run.out + run.err, run.path, inputs)} - nobody


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

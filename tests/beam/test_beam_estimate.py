"""``reports | Estimate(study)`` in a pipeline on the local engine, beside ``ldpbeam estimate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

import ldpbeam as ldp
from ldpbeam.runners import direct
from ldpbeam.schemas.outputs.estimates import solved_estimate


def local() -> beam.Pipeline:
    return beam.Pipeline(runner=direct.runner())


def records_of(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The reports in files of JSON lines."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def rows_of(study: ldp.Study, run: Any) -> list[ldp.beam.EstimateRow]:
    """The rows of the estimates that a run wrote."""
    return ldp.beam.rows.estimate_rows(study, [solved_estimate(record) for record in run.estimates])


def test_dicts_give_the_estimates_of_the_command(
    small_text: str, simulate: Any, write_reports: Any, run_estimate: Any, tmp_path: Path
) -> None:
    study = ldp.Study.from_yaml(small_text)
    sent = simulate(study, "x", [0.1, 0.2, 0.5, 0.9] * 50, users=[f"u{i}" for i in range(200)])
    paths = write_reports(tmp_path / "in", sent, "jsonl")
    run = run_estimate(tmp_path / "run", small_text, paths)
    assert run.code == 0
    records = [*records_of(paths), {"user_id": "v", "attribute": "y", "service": "a", "payload": 1}]
    with local() as pipeline:
        reports = pipeline | beam.Create(records)
        found = reports | ldp.beam.Estimate(study)
        assert_that(found.estimates, equal_to(rows_of(study, run)))
        assert_that(
            found.counts,
            equal_to(
                [
                    ("in", 401),
                    ("used", 400),
                    ("dead_letters", 1),
                    ("dead_letters_by_reason/unknown_attribute", 1),
                ]
            ),
            "counts",
        )

"""Reports and their estimates, for the tests of ``ldpbeam.beam`` on every engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ldpbeam as ldp
from ldpbeam.schemas.outputs.checked import record_of
from ldpbeam.schemas.outputs.records import EstimateRecord

KEPT = Path(__file__).parents[1] / "data" / "0.1.0"
#: A study of numbers, categories and keys with values, in windows and groups; and without intervals.
WITH_INTERVALS = (KEPT / "study.yaml").read_text()
STUDY = f"{WITH_INTERVALS}intervals: false\n"
FILES = [*sorted((KEPT / "reports" / "jsonl").glob("*.jsonl")), KEPT / "reports" / "bad.jsonl"]


def records_in(paths: Sequence[Path] = FILES) -> list[dict[str, Any]]:
    """The reports in files of JSON lines."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def rows_of(estimates: Sequence[dict[str, Any]]) -> list[ldp.beam.EstimateRow]:
    """The rows of estimates that a command wrote, as the lines of ``estimates.jsonl`` have them."""
    return ldp.beam.rows.estimate_rows([record_of(EstimateRecord, record) for record in estimates])


def shares_of(estimates: Sequence[dict[str, Any]]) -> list[ldp.beam.ShareRow]:
    """The rows of the shares of estimates that a command wrote."""
    return ldp.beam.rows.share_rows([record_of(EstimateRecord, record) for record in estimates])


def counts_of(accounting: dict[str, Any]) -> dict[str, int]:
    """The counts above zero in ``accounting.json``, by the names that rows have."""
    reasons = accounting["dead_letters_by_reason"]
    named = {f"dead_letters_by_reason/{reason}": reports for reason, reports in reasons.items()}
    counts = {name: n for name, n in accounting.items() if isinstance(n, int) and name != "damaged_files"}
    return {name: reports for name, reports in {**counts, **named}.items() if reports}

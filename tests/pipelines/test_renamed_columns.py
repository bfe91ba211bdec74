"""``--column``: a run reads reports whose fields have other names, and says what cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS = [
    {"user_id": f"u{place}", "attribute": "x", "service": "ab"[place % 2], "payload": place / 40}
    for place in range(40)
]
OPTIONS = ["--column", "user_id=uid", "--column=payload=user_id"]


def theirs(record: dict[str, Any]) -> dict[str, Any]:
    names = {"user_id": "uid", "payload": "user_id"}
    return {names.get(name, name): value for name, value in record.items()} | {"payload": "none"}


def test_a_run_gives_the_estimates_of_reports_with_our_names(
    tmp_path: Path, run_estimate: Callable[..., Any], write_lines: Callable[..., Path], small_text: str
) -> None:
    expected = run_estimate(tmp_path / "ours", small_text, [write_lines(tmp_path / "ours.jsonl", OURS)])
    given = write_lines(tmp_path / "theirs.jsonl", [theirs(own) for own in OURS])
    found = run_estimate(tmp_path / "theirs", small_text, [given], *OPTIONS)
    assert found.code == expected.code == 0, found.err
    assert found.accounting["used"] == 40
    assert found.estimates == expected.estimates
    # Another reading of the same file is another run, which does not replace this one unasked.
    again = run_estimate(tmp_path / "theirs", small_text, [given], "--column", "user_id=payload2")
    assert again.code == 2
    assert "--overwrite" in again.err


def test_a_dead_letter_names_the_fields_of_the_input_and_keeps_the_record(
    tmp_path: Path, run_estimate: Callable[..., Any], write_lines: Callable[..., Path], small_text: str
) -> None:
    record = {"uids": "ann", "attribute": "x", "service": "a", "user_id": 0.5}
    given = write_lines(tmp_path / "in.jsonl", [record, theirs(OURS[0])])
    found = run_estimate(
        tmp_path, small_text, [given], *OPTIONS, "--keep-bad-records", "--max-bad-fraction", 1
    )
    (letter,) = found.dead_letters
    assert letter["detail"] == "the record has 'uids'; did you mean 'uid'?"
    assert json.loads(letter["record"]) == record

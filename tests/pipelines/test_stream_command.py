"""``ldpbeam stream`` over a folder: what it says while nothing has come, and of what it could not use."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ldpbeam as ldp
from ldpbeam.pipelines.commands import stream
from ldpbeam.pipelines.sources import folder
from ldpbeam.schemas.study.yaml_file import parse_study

pytestmark = pytest.mark.slow

TEXT = """\
study: s
windows: {size: 1h}
publish: {at_least: 1000000}
attributes:
  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: grr, epsilon: 1}}}
"""
STUDY = parse_study(TEXT)


def ran(command: Any, place: Path) -> tuple[Any, dict[str, Any]]:
    """A run that ends soon, and its accounting."""
    (place / "study.yaml").write_text(TEXT)
    done = command(
        "stream", "--study", place / "study.yaml", "--input", place / "in/*", "--output", place / "out",
        "--stop-when-idle", "2s",
    )  # fmt: skip
    (path,) = (place / "out").glob("runs/*/accounting.json")
    return done, json.loads(path.read_text())


def test_what_became_of_the_reports_is_said_before_any_has_come(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[dict[str, Any]] = []
    write = stream._write_accounting
    monkeypatch.setattr(
        stream, "_write_accounting", lambda *run: [write(*run), written.append(run[1].manifest.accounting)]
    )
    (tmp_path / "in").mkdir()
    done, accounting = ran(command, tmp_path)
    assert (done.code, accounting) == (0, written[0])
    assert {name for name, count in accounting.items() if count} == set()


def test_a_damaged_file_is_named_and_the_exit_code_says_that_something_is_missing(
    command: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    now = 1_000 * int(time.time())
    good = ldp.Client(STUDY, "x", "a").reports(["p"] * 20, event_times=[now] * 19 + [now - 90 * 86_400_000])
    pq.write_table(good, tmp_path / "in" / "good.parquet")
    bad = tmp_path / "in" / "bad.parquet"
    bad.write_bytes((tmp_path / "in" / "good.parquet").read_bytes()[:-9])
    done, accounting = ran(command, tmp_path)
    assert (done.code, accounting["in"], accounting["used"], accounting["damaged_files"]) == (3, 21, 19, 1)
    assert (
        f"1 file is damaged: how many reports it lost is not known; look at the outputs with care: {bad}"
        in (done.err)
    )
    assert "1 report out of range: older than windows.max_age" in done.err


def test_a_source_that_cannot_be_opened_leaves_no_run(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: object) -> None:
        raise OSError("the server is gone")

    monkeypatch.setattr(folder, "entries_of", gone)
    (tmp_path / "study.yaml").write_text(TEXT)
    given = ("--study", tmp_path / "study.yaml", "--input", tmp_path / "in/*", "--output", tmp_path / "out")
    done = command("stream", *given)
    assert (done.code, "the server is gone" in done.err) == (2, True)
    assert not (tmp_path / "out").exists()

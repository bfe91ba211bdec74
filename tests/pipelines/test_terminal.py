"""What reports, studies and names of files hold reaches no terminal raw, and odd names are one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs.stream_runs import owned_by_stream
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.sources.folder import FolderFeed
from ldpbeam.untrusted import shown

CLEAR = "\x1b[2J"
RECORD = {"attribute": "x", "service": "a", "event_time": 1_800_000_000_000, "payload": 0.5}


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain, ± é 東 \u200d", "plain, ± é 東 \u200d"),
        (CLEAR, r"\x1b[2J"),
        ("a\rb\nc\td\x00\x7f\x9b", r"a\rb\nc\td\x00\x7f\x9b"),
        ("\u202egpj.exe\u2028", r"\u202egpj.exe\u2028"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_a_terminal_acts_on_is_escaped(text: str, safe: str) -> None:
    assert shown(text) == safe


def test_lines_of_our_own_messages_stay() -> None:
    assert shown(f"one\n{CLEAR}", keep="\n") == "one\n\\x1b[2J"


def test_groups_and_categories_are_escaped_in_tables(
    tmp_path: Path, small_text: str, write_lines: Callable[..., Path], run_estimate: Any
) -> None:
    records = [{**RECORD, "user_id": f"u{i}", "region": f"north{CLEAR}"} for i in range(50)]
    text = small_text + "groups: {field: region, at_most: 3}\n"
    found = run_estimate(tmp_path, text, [write_lines(tmp_path / "in.jsonl", records)])
    assert found.code == 0, found.err
    assert r"north\x1b[2J" in found.out
    assert "\x1b" not in found.out + found.err
    assert {record["group"] for record in found.estimates} == {f"north{CLEAR}"}
    categories = (
        'study: s\nattributes:\n  x:\n    domain: {categories: ["a\\e[2J", b]}\n'
        "    services: {a: {mechanism: grr, epsilon: 3.0}}\n    estimates: {e: {estimator: norm_sub}}\n"
    )
    records = [{**RECORD, "user_id": f"u{i}", "payload": 0} for i in range(50)]
    found = run_estimate(tmp_path / "b", categories, [write_lines(tmp_path / "cat.jsonl", records)])
    assert found.code == 0, found.err
    assert (r"a\x1b[2J" in found.out, "\x1b" in found.out) == (True, False)


def test_keys_of_a_study_are_escaped_in_errors(tmp_path: Path, small_text: str, command: Any) -> None:
    study = tmp_path / "study.yaml"
    for text in (f'{small_text}"key\\e[2J": 1\n', small_text.replace("x:", '"x\\e[2J":')):
        study.write_text(text)
        found = command("explain", "--study", study)
        assert found.code == 2
        assert r"\x1b[2J" in found.err
        assert "\x1b" not in found.err


def test_a_key_file_that_everybody_can_read_is_a_warning(
    tmp_path: Path, small_text: str, write_lines: Callable[..., Path], run_estimate: Any
) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    # So few equal reports are not tested for what their mechanism would send.
    reports = write_lines(tmp_path / "in.jsonl", [{**RECORD, "user_id": f"u{i}"} for i in range(40)])
    for mode, said in ((0o644, "can read this key"), (0o604, "chmod 600"), (0o600, ""), (0o640, "")):
        key.chmod(mode)
        found = run_estimate(tmp_path, small_text, [reports], "--user-id-key-file", key)
        assert found.code == 0
        assert said in found.err
        assert bool(found.err) == bool(said)


@pytest.mark.parametrize("place", ["matched", "named", "output"])
def test_a_name_that_is_not_utf_8_is_one_line(
    place: str, tmp_path: Path, small_text: str, write_lines: Callable[..., Path]
) -> None:
    reports = write_lines(tmp_path / "in.jsonl", [{**RECORD, "user_id": "u"}])
    (tmp_path / "study.yaml").write_text(small_text)
    odd = os.fsdecode(b"in\xff.jsonl")
    if place != "output":
        reports.rename(tmp_path / odd)
    given = [str(tmp_path / {"matched": "in*", "named": odd, "output": "in.jsonl"}[place])]
    output = str(tmp_path / ("out" if place != "output" else os.fsdecode(b"out\xff")))
    ran = subprocess.run(
        [sys.executable, "-m", "ldpbeam.pipelines.main", "estimate", "--study", str(tmp_path / "study.yaml"),
         "--input", *given, "--output", output],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "not UTF-8" in ran.stderr
    assert r"\udcff" in ran.stderr


@pytest.mark.parametrize("output", ["x" * 300, f"{'y' * 300}/x"])
def test_a_name_that_is_too_long_is_one_line(
    output: str, tmp_path: Path, small_text: str, write_lines: Callable[..., Path], command: Any
) -> None:
    (tmp_path / "study.yaml").write_text(small_text)
    reports = write_lines(tmp_path / "in.jsonl", [{**RECORD, "user_id": "u"}])
    given = ("--study", tmp_path / "study.yaml", "--input", reports, "--output", tmp_path / output)
    found = command("estimate", *given)
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "File name too long" in found.err


def test_a_stream_whose_files_would_have_too_long_names_does_not_start(tmp_path: Path) -> None:
    long = "n" * 64
    study = parse_study(
        f"study: {long}\nattributes:\n  {long}:\n    domain: {{coordinates: [{long}, b], values: [0, 1]}}\n"
        "    buckets: 8\n    services: {a: {mechanism: piecewise, epsilon: 1.0}}\n"
        "    estimates: {mean: {estimator: ivw}}\nwindows: {size: 1h}\n"
    )
    feed = FolderFeed(("in/*",), Columns(), "", ())
    name = "20261122T000000Z-0123abcd"
    job = StreamJob(study=study, output=str(tmp_path / "out"), run=name, feed=feed, disorder=0, partitions=1)
    with pytest.raises(Exception, match="shorter names") as found, owned_by_stream(job):
        pass
    assert type(found.value).__name__ == "UserError"
    assert not (tmp_path / "out").exists()

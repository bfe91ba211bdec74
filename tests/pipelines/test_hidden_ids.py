"""With a user-id key no output says who is in the input, and dead letters are for their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from support.guessed_ids import REASONS, bad_lines, guesses, looked_through, write_inputs

from ldpbeam.pipelines.simulated.report_files import write_reports
from ldpbeam.schemas.study.yaml_file import parse_study

KEY = b"a key of thirty-two bytes, secret"
WINDOWS = "windows: {size: 1h, allowed_lateness: 10m}\n"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return write_inputs(tmp_path / "in")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


def test_without_a_key_a_guessed_id_is_found(
    run_estimate: Any, inputs: Path, small_text: str, tmp_path: Path
) -> None:
    run = run_estimate(tmp_path / "run", small_text + WINDOWS, [inputs / "*"], "--on-bad-file", "skip")
    assert {letter["reason"] for letter in run.dead_letters} == REASONS | {"bad_file"}
    assert {letter["record"] for letter in run.dead_letters} == {None}
    found = looked_through(run.out + run.err, run.path, inputs)
    # The search is one that finds: each record's hash, of each of the two files, is among what is written.
    assert len(set(found)) >= len(bad_lines())


def test_with_a_key_no_output_of_a_batch_has_anything_of_a_guessed_id(
    run_estimate: Any, inputs: Path, key: Path, small_text: str, tmp_path: Path
) -> None:
    options = ("--on-bad-file", "skip", "--user-id-key-file", key)
    run = run_estimate(tmp_path / "run", small_text + WINDOWS, [inputs / "*"], *options)
    letters = run.dead_letters
    assert {letter["reason"] for letter in letters} == REASONS | {"bad_file"}
    assert looked_through(run.out + run.err, run.path, inputs) == []
    assert {(letter["record"], letter["detail"]) for letter in letters} == {(None, "")}
    # The hash still tells equal records from different ones, in every run with this key and in no other.
    by_place = {(letter["file"], letter["position"], letter["row"]): letter["sha256"] for letter in letters}
    assert len(by_place) == len(letters)
    again = run_estimate(tmp_path / "again", small_text + WINDOWS, [inputs / "*"], *options)
    assert [letter["sha256"] for letter in again.dead_letters] == [letter["sha256"] for letter in letters]
    key.write_bytes(KEY[::-1])
    other = run_estimate(tmp_path / "other", small_text + WINDOWS, [inputs / "*"], *options)
    assert {letter["sha256"] for letter in other.dead_letters}.isdisjoint(by_place.values())


def test_a_file_that_stops_a_run_with_a_key_is_named_and_not_quoted(
    run_estimate: Any, inputs: Path, key: Path, small_text: str, tmp_path: Path
) -> None:
    run = run_estimate(tmp_path / "run", small_text, [inputs / "header.avro"], "--user-id-key-file", key)
    assert run.code == 2
    assert f"{inputs / 'header.avro'}: its problem is not shown, because a user-id key" in run.err
    assert [guess for guess in guesses(sorted(inputs.iterdir())) if guess in run.err.encode()] == []


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def modes_while_written(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """The modes that files with a name like this have when they are about to get their final one."""
    seen: list[str] = []
    rename, replace = os.rename, Path.replace

    def renamed(source: Any, target: Any, **options: Any) -> None:
        if name in str(target):
            seen.append(mode(Path(source)))
        rename(source, target, **options)

    def replaced(source: Path, target: Any) -> Path:
        if name in str(target):
            seen.append(mode(source))
        return replace(source, target)

    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(Path, "replace", replaced)
    return seen


@pytest.mark.parametrize("scheduled", [False, True], ids=["once", "scheduled"])
def test_dead_letters_are_readable_by_their_owner_alone(
    scheduled: bool,
    run_estimate: Any,
    inputs: Path,
    small_text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = modes_while_written(monkeypatch, "part-")
    span = ("--from", "2026-11-20T10:00:00Z", "--to", "2026-11-20T11:00:00Z") if scheduled else ()
    before = os.umask(0o022)
    try:
        run = run_estimate(
            tmp_path / "run", small_text + WINDOWS, [inputs / "*.jsonl"], "--keep-bad-records", *span
        )
    finally:
        os.umask(before)
    folder = run.run_folder / "dead_letters"
    assert mode(folder) == "0o700"
    assert {mode(path) for path in folder.iterdir()} == {"0o600"}
    assert set(seen) == {"0o600"}
    # What says nothing of any one person is as readable as the umask makes it.
    assert {mode(path) for path in (run.path / "statistics").iterdir()} == {"0o644"}


@pytest.mark.parametrize("kind", ["avro", "parquet", "jsonl"])
def test_perturbed_reports_are_readable_by_their_owner_alone(
    kind: str, simulate: Any, small_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = modes_while_written(monkeypatch, "x.a.")
    before = os.umask(0)
    try:
        for sent in simulate(parse_study(small_text), "x", [0.1, 0.2], services=["a"]):
            write_reports(tmp_path, sent, kind)
    finally:
        os.umask(before)
    assert {mode(path) for path in tmp_path.iterdir()} == {"0o600"}
    assert seen == ["0o600"]

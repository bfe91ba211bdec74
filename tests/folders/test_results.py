"""An output folder, read again: what every kind of run left, and one sentence for a folder that is none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.closed import close_folder
from support.output_folders import HOUR, START

from ldpbeam.errors import UserError
from ldpbeam.folders.read import read_results
from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.schemas.study.yaml_file import read_study

KEPT = Path(__file__).parents[1] / "data" / "0.1.0" / "out"


def test_a_batch_run_is_read(folders: dict[str, Path]) -> None:
    found = read_results(str(folders["batch"]))
    lines = [json.loads(line) for line in (folders["batch"] / "estimates.jsonl").read_text().splitlines()]
    assert [json_fields(record) for record in found.estimates] == lines
    assert {own.attribute for own in found.estimates} == {
        *("minutes", "transport", "rating", "pulse.rest", "pulse.run")
    }
    (run,) = found.runs
    assert (found.kind, run.finished, run.folder) == ("batch", True, str(folders["batch"]))
    accounting = json.loads((folders["batch"] / "accounting.json").read_text())
    assert run.accounting is not None and run.accounting.in_ == accounting["in"] == 240 * 5 + 1
    assert found.dead_letters_by_reason == {"no_user_id": 1}
    ledger = json.loads((folders["batch"] / "ledger.json").read_text())
    assert [entry.spent[0].users for entry in run.ledger] == [entry["spent"][0]["users"] for entry in ledger]
    fit = json.loads((folders["batch"] / "fit.json").read_text())
    assert [own.p_value for own in run.fit.tests] == [own["p_value"] for own in fit["tests"]] != []
    assert {own.window for own in found.windows} == {(START, START + HOUR), (START + HOUR, START + 2 * HOUR)}


def test_a_scheduled_run_has_the_same_estimates(folders: dict[str, Path]) -> None:
    found, batch = (read_results(str(folders[kind])) for kind in ("scheduled", "batch"))
    assert found.kind == "scheduled"
    ends = ("2026-11-20T10:00:00Z", "2026-11-20T12:00:00Z")
    assert [(run.about.from_, run.about.to, run.finished) for run in found.runs] == [(*ends, True)]
    assert found.counts == batch.counts
    by_key = {own.key: own.mean for own in batch.estimates}
    assert {own.key: own.mean for own in found.estimates} == by_key


def test_a_rollup_has_no_accounting(folders: dict[str, Path]) -> None:
    found = read_results(str(folders["rollup"]))
    assert (found.kind, found.runs[0].accounting, found.counts) == ("rollup", None, {})
    assert {own.window for own in found.estimates} == {(START, START + 2 * HOUR)}


def test_the_runs_of_a_stream_are_read_together(folders: dict[str, Path]) -> None:
    found = read_results(str(folders["stream"]))
    assert (found.kind, [run.about.run for run in found.runs]) == ("stream", ["run-1", "run-2"])
    windows = [((own.window[0] - START) // HOUR, own.run, own.pane_timing) for own in found.windows]
    assert windows == [
        (0, "run-1", "on_time"), (1, "run-1", "early"), (1, "run-2", "on_time"), (2, "run-2", "early"),
    ]  # fmt: skip
    assert [own.complete for own in found.windows] == [True, False, False, False]
    assert (found.counts["in_"], found.dead_letters_by_reason) == (202, {"no_user_id": 2})


def test_the_folder_of_version_0_1_0_is_read() -> None:
    found = read_results(str(KEPT))
    assert (found.kind, found.about.study, len(found.runs[0].ledger) > 0) == ("batch", "kept", True)
    assert len(found.estimates) == len((KEPT / "estimates.jsonl").read_text().splitlines())


@pytest.mark.parametrize("kind", ["batch", "scheduled", "rollup", "stream"])
def test_the_study_is_kept_and_may_be_given_again(kind: str, folders: dict[str, Path]) -> None:
    found = read_results(str(folders[kind]))
    assert found.study is not None and found.study.name == found.about.study
    again = read_study(folders[kind] / "study.json")
    assert again.fingerprint == found.study.fingerprint == found.about.study_fingerprint


def test_a_study_that_cannot_be_read_here_hides_no_estimate(copied: Callable[[str], Path]) -> None:
    folder = copied("batch")
    before, text = read_results(str(folder)), (folder / "study.json").read_text()
    for written, said in {
        text.replace('"grr"', '"of_a_plugin"'): "unknown mechanism 'of_a_plugin'",
        text.replace("180", "90"): "it is not the study that run.json names",
        "[": "this is not YAML",
        "\x00": "this is not YAML",
    }.items():
        (folder / "study.json").write_text(written)
        found = read_results(str(folder))
        assert (found.study, found.estimates) == (None, before.estimates)
        assert said in found.study_problem
    (folder / "study.json").write_bytes(b"\xff")
    assert "not UTF-8 text" in read_results(str(folder)).study_problem
    (folder / "study.json").unlink()
    assert (read_results(str(folder)).study, read_results(str(folder)).study_problem) == (None, "")


def test_a_span_whose_files_are_being_moved_is_not_finished(copied: Callable[[str], Path]) -> None:
    folder = copied("scheduled")
    (span,) = (folder / "runs").iterdir()
    shutil.copytree(span, folder / "runs" / "20261120T120000Z-20261120T130000Z")
    (folder / "runs" / "20261120T120000Z-20261120T130000Z" / "run.json").unlink()
    assert [run.finished for run in read_results(str(folder)).runs] == [True, False]
    (span / "run.json").unlink()
    with pytest.raises(UserError, match="none of its runs has finished"):
        read_results(str(folder))


def test_what_is_no_output_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, said in {
        "none": "there is no such folder",
        "empty": "it is a file, or an empty folder",
        "other": "it has no run.json; name the --output of ldpbeam estimate",
        "file": "it is a file, or an empty folder",
    }.items():
        with pytest.raises(UserError, match=f"{tmp_path / name}: {said}"):
            read_results(str(tmp_path / name))
    with pytest.raises(UserError, match="there is no such folder"):
        read_results("")


@pytest.mark.parametrize("name", ["estimates", "runs"])
def test_a_folder_that_may_not_be_read_is_not_read_as_an_empty_one(
    name: str, copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied("scheduled")
    close_folder(name, monkeypatch)
    with pytest.raises(UserError, match=f"{folder}: the folder {folder}/{name} may not be read"):
        read_results(str(folder))


MARK = {"study": "s", "study_fingerprint": "0", "run": "r", "complete": True}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"complete": False}, "has not finished"),
        ({"format": 2}, "a newer version of ldpbeam wrote it .format 2, known up to 1.: update ldpbeam"),
        ({"kind": "hourly"}, "run.json: kind: .*'scheduled' or 'stream', found .hourly"),
        ({"study": None}, "run.json: study: .*found null"),
        ({"input": "in.avro"}, "run.json: input: "),
    ],
)
def test_a_mark_of_another_kind(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({**MARK, **fields}))
    (tmp_path / "estimates.jsonl").write_text("")
    with pytest.raises(UserError, match=said):
        read_results(str(tmp_path))


@pytest.mark.parametrize(
    "name", ["run.json", "accounting.json", "ledger.json", "fit.json", "estimates.jsonl"]
)
@pytest.mark.parametrize("text", [b"{", b"\xff", b"7\n"])
def test_files_that_somebody_spoilt(name: str, text: bytes, copied: Callable[[str], Path]) -> None:
    folder = copied("batch")
    (folder / name).write_bytes(text)
    with pytest.raises(UserError, match=f"{folder / name}: "):
        read_results(str(folder))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("reports", -1, "reports: .*found -1"),
        ("mean", "12", 'mean: .*found "12"'),
        ("window_start", "2026-11-20T10:00:00", "window_start: a time is RFC 3339 text with a zone"),
        ("quantiles", {"5": 1.0}, "the level of a quantile lies between 0 and 1"),
    ],
)
def test_a_line_that_somebody_edited(
    field: str, value: object, said: str, copied: Callable[[str], Path]
) -> None:
    path = copied("batch") / "estimates.jsonl"
    lines = path.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), field: value})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=f"estimates.jsonl: line 1: .*{said}"):
        read_results(str(path.parent))


def test_a_field_of_a_later_version_is_left_out(copied: Callable[[str], Path]) -> None:
    path = copied("batch") / "estimates.jsonl"
    before = read_results(str(path.parent)).estimates
    lines = [json.dumps({**json.loads(line), "later": [1]}) for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    assert read_results(str(path.parent)).estimates == before


def test_a_file_that_is_missing_or_no_file(copied: Callable[[str], Path]) -> None:
    path = copied("batch") / "estimates.jsonl"
    path.unlink()
    with pytest.raises(UserError, match=f"{path}: "):
        read_results(str(path.parent))
    os.mkfifo(path)
    with pytest.raises(UserError, match=f"{path}: "):
        read_results(str(path.parent))

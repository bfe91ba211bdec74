"""Which run goes on in a folder, which begins, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.output_folders import contents

from ldpbeam.errors import UserError
from ldpbeam.pipelines.runs.ownership import STREAMS
from ldpbeam.pipelines.spool.manifest import Manifest, write_manifest
from ldpbeam.pipelines.spool.place import Placed, StreamOutput, owned_by_stream, placed
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.storage import write_json

TEXT = (
    "study: s\nwindows: {size: 1h}\nattributes:\n"
    "  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: grr, epsilon: 1}}}\n"
)
STUDY = parse_study(TEXT)
NOW = datetime(2026, 11, 29, 8, tzinfo=UTC)
FIRST, SECOND = "20261129T070000Z-aaaaaaaa", "20261129T073000Z-bbbbbbbb"
KEPT = Manifest(STUDY.fingerprint, number=3, position={"next": 5}, incomplete_before=7)
ENDED = replace(KEPT, ended=11)


def folder_of(output: Path, runs: dict[str, Manifest | None], spool_root: str = "") -> StreamOutput:
    """A folder in which some runs have committed something, or nothing yet."""
    for name, manifest in runs.items():
        run = StreamOutput(STUDY, str(output), name, spool_root)
        write_json(run.of_run("run.json"), {"spool": spool_root})
        if manifest is not None:
            write_manifest(run.spool, manifest)
    if runs:
        job = StreamOutput(STUDY, str(output), FIRST)
        write_json(job.path("run.json"), STREAMS.mark_of(job))
    return StreamOutput(STUDY, str(output), "", spool_root)


def test_in_an_empty_folder_a_run_begins_and_nothing_is_written(tmp_path: Path) -> None:
    place = placed(StreamOutput(STUDY, str(tmp_path), ""), NOW)
    assert place.output.run.startswith("20261129T080000Z-")
    assert (place.manifest, place.earlier) == (Manifest(STUDY.fingerprint), ())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spool", [False, True])
def test_a_run_that_has_not_ended_goes_on(spool: bool, tmp_path: Path) -> None:
    root = str(tmp_path / "spool") if spool else ""
    output = folder_of(tmp_path / "out", {FIRST: ENDED, SECOND: KEPT}, root)
    place = placed(output, NOW)
    assert (place.output.run, place.output.earlier_runs) == (SECOND, (FIRST,))
    assert (place.manifest, place.earlier) == (KEPT, ({"next": 5},))


def test_a_run_that_was_killed_before_its_first_commit_begins_once_more(tmp_path: Path) -> None:
    place = placed(folder_of(tmp_path, {FIRST: ENDED, SECOND: None}), NOW)
    # What the run before it has of its last windows is still missing.
    assert place.output.run == SECOND
    assert place.manifest == Manifest(STUDY.fingerprint, incomplete_before=7)


def test_after_a_run_that_has_ended_another_begins_where_it_ended(tmp_path: Path) -> None:
    place = placed(folder_of(tmp_path, {FIRST: ENDED}), NOW)
    assert place.output.run.startswith("20261129T080000Z-")
    assert place.output.earlier_runs == (FIRST,)
    assert place.manifest == Manifest(STUDY.fingerprint, incomplete_before=7)
    assert place.earlier == ({"next": 5},)


def test_reports_that_are_kept_elsewhere_are_named(tmp_path: Path) -> None:
    folder_of(tmp_path / "out", {FIRST: KEPT}, str(tmp_path / "spool"))
    with pytest.raises(UserError, match=f"run {FIRST} keeps .* in --spool {tmp_path}/spool: name it"):
        placed(StreamOutput(STUDY, str(tmp_path / "out"), ""), NOW)
    with pytest.raises(UserError, match="name a local folder, as in --spool"):
        placed(StreamOutput(STUDY, "gs://bucket/out", ""), NOW)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilon: 1", "epsilon: 2", "(attributes 'x')"),
        (
            "  x:",
            "  y: {domain: {categories: 2}, services: {a: {mechanism: grr, epsilon: 1}}}\n  x:",
            "s 'y')",
        ),
        ("size: 1h", "size: 2h", "(settings outside attributes)"),
    ],
)
@pytest.mark.parametrize("manifest", [KEPT, None])
def test_a_study_that_has_changed_is_refused_and_what_changed_is_named(
    old: str, new: str, said: str, manifest: Manifest | None, tmp_path: Path
) -> None:
    folder_of(tmp_path, {FIRST: manifest})
    (tmp_path / "study.json").write_text(STUDY.text)
    before = contents(tmp_path)
    changed = StreamOutput(parse_study(TEXT.replace(old, new)), str(tmp_path), "")
    with pytest.raises(UserError, match="the study has changed since its runs began") as found:
        placed(changed, NOW)
    assert said in str(found.value) and f"use {tmp_path}/study.json" in str(found.value)
    assert contents(tmp_path) == before


def test_the_file_of_a_run_says_what_it_reads(tmp_path: Path) -> None:
    run = StreamOutput(STUDY, str(tmp_path), FIRST, str(tmp_path / "spool"))
    about = {"reads": "reports at localhost:1", "topic_identity": "id"}
    with owned_by_stream(Placed(run, Manifest(STUDY.fingerprint)), about):
        pass
    found = json.loads((tmp_path / "runs" / FIRST / "run.json").read_text())
    assert found == found | about | {"run": FIRST, "spool": str(tmp_path / "spool"), "study": "s"}


@pytest.mark.parametrize("runs", [{}, {FIRST: KEPT}, {FIRST: ENDED}, {FIRST: None}])
def test_of_two_streams_that_begin_at_once_one_is_refused(
    runs: dict[str, Manifest | None], tmp_path: Path
) -> None:
    output = folder_of(tmp_path, runs)
    one, other = placed(output, NOW), placed(output, NOW)
    with owned_by_stream(one, {}):
        running = pytest.raises(UserError, match="another run is writing there now")
        with running, owned_by_stream(other, {}):
            pass
        write_manifest(one.output.spool, replace(one.manifest, number=one.manifest.number + 1, ended=12))
    # The other one would read again what the first has read.
    before = sorted((tmp_path / "runs").iterdir())
    with pytest.raises(UserError, match="another run has just written there"), owned_by_stream(other, {}):
        pass
    assert sorted((tmp_path / "runs").iterdir()) == before

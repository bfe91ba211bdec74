"""Runs of a stream in one output folder: whose it is, and the windows that earlier runs left open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.output_folders import contents

from ldpbeam import tally
from ldpbeam.errors import UserError
from ldpbeam.folders.written import sweep
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs.stream_runs import (
    incomplete_windows,
    owned_by_stream,
    read_run_accounting,
    resume,
)
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.snapshots import write_window
from ldpbeam.transforms.sources.folder import FolderFeed
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.reading import ReadingOptions
from ldpbeam.transforms.state.journal import Journal, ask_to_stop, asked_to_stop
from ldpbeam.transforms.state.records import Incomplete, OpenWindow

HOUR = 3_600_000
TEXT = """\
study: commute
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 8
    services: {maps: {mechanism: piecewise, epsilon: 2.0}}
    estimates: {mean: {estimator: ivw}}
  y:
    domain: {coordinates: [north, up], values: [0, 10]}
    buckets: 8
    services: {maps: {mechanism: piecewise, epsilon: 2.0}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
"""
STUDY = parse_study(TEXT)


def job(output: Path | str, run: str = "run-1", study: Study = STUDY, **others: Any) -> StreamJob:
    feed = FolderFeed(("in/*",), Columns(), "", ())
    return StreamJob(
        study=study, output=str(output), run=run, feed=feed, reading=ReadingOptions(0), shards=1, **others
    )


def claim_for_stream(own: StreamJob) -> None:
    with owned_by_stream(own):
        pass


def window(hour: int, attribute: str = "x") -> OpenWindow:
    return OpenWindow(attribute, hour * HOUR, (hour + 1) * HOUR)


# Whose the folder is.


@pytest.mark.parametrize("there", [False, True])
def test_an_empty_folder_becomes_the_streams(there: bool, tmp_path: Path) -> None:
    output = tmp_path / "out"
    if there:
        output.mkdir()
    claim_for_stream(job(output))
    found = {name: json.loads(data) for name, data in contents(output).items()}
    about = {"kind": "stream", "study": "commute", "study_fingerprint": STUDY.fingerprint, "format": 1}
    assert found.pop("study.json") == json.loads(STUDY.text)
    assert found == {"run.json": about, "runs/run-1/run.json": {**about, "run": "run-1", "reads": "in/*"}}


def test_a_run_of_kafka_says_its_topic(tmp_path: Path) -> None:
    feed = KafkaFeed(KafkaTopic("h:1", "reports"), "id", Columns(), "", ())
    claim_for_stream(replace(job(tmp_path), feed=feed))
    about = json.loads((tmp_path / "runs" / "run-1" / "run.json").read_text())
    assert (about["reads"], about["topic"], about["topic_identity"]) == ("reports at h:1", "reports", "id")


def test_further_runs_of_the_study_share_it(tmp_path: Path) -> None:
    claim_for_stream(job(tmp_path))
    before = contents(tmp_path)
    (tmp_path / "estimates").mkdir()
    (tmp_path / "estimates" / "of run-1.jsonl").write_text("{}")
    claim_for_stream(job(tmp_path, "run-2"))
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"estimates/of run-1.jsonl", "runs/run-2/run.json"}


def test_what_earlier_runs_left_open_stands_in_the_runs_folder(tmp_path: Path) -> None:
    left = frozenset([window(2, "y"), window(1)])
    claim_for_stream(job(tmp_path, incomplete=Incomplete(left, HOUR)))
    assert json.loads((tmp_path / "runs" / "run-1" / "incomplete.json").read_text()) == {
        "windows": [
            {"attribute": "x", "start": HOUR, "end": 2 * HOUR},
            {"attribute": "y", "start": 2 * HOUR, "end": 3 * HOUR},
        ],
        "before": HOUR,
        "lost": False,
    }


def test_the_accounting_of_a_run_is_all_zeros_where_nothing_came(tmp_path: Path) -> None:
    own = job(tmp_path)
    claim_for_stream(own)
    names = ("in", "used", "duplicates", "late", "out_of_range", "dead_letters", "damaged_files")
    assert read_run_accounting(own) == {**dict.fromkeys(names, 0), "dead_letters_by_reason": {}}
    (tmp_path / "runs" / "run-1" / "accounting.json").write_text('{"in": 5}')
    assert read_run_accounting(own) == {"in": 5}
    assert read_run_accounting(job(tmp_path, "run-2"))["in"] == 0


# What earlier runs left open.

Leave = Callable[..., None]


@pytest.fixture
def leave(tmp_path: Path) -> Leave:
    """What a run leaves: the windows it named, and its panes' attributes, windows and timings."""

    def write(
        run: str, named: Iterable[OpenWindow], panes: Iterable[tuple[str, OpenWindow, str]] = ()
    ) -> None:
        Journal(str(tmp_path), run, 0, HOUR).name(named, None)
        for attribute, own, timing in panes:
            compiled, rng = STUDY.attribute(attribute), np.random.default_rng(0)
            reports = compiled.versions[0].mechanism.perturb(np.array([1.0, 2.0]), rng)
            statistic = tally(compiled, 2, [Answers(0, np.arange(2), reports)])
            bounds = own.start, own.end
            snapshot = Snapshot(attribute, bounds, None, 0, statistic, pane_timing=timing)
            folder = str(tmp_path / "statistics")
            write_window(STUDY, folder, run, [snapshot], named_by_run=True)

    return write


@pytest.mark.parametrize("output", ["", "none", "empty"])
def test_without_earlier_runs_nothing_is_open(output: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert incomplete_windows(STUDY, output and str(tmp_path / output)) == frozenset()


def test_windows_that_a_run_named_and_said_nothing_of_are_open(leave: Leave, tmp_path: Path) -> None:
    leave("run-1", [window(1), window(2), window(1, "y")])
    assert incomplete_windows(STUDY, str(tmp_path)) == {window(1), window(2), window(1, "y")}


def test_windows_that_had_not_begun_when_their_run_ended_are_not_open(leave: Leave, tmp_path: Path) -> None:
    leave("run-1", [window(1), window(2), window(3)])
    Journal(str(tmp_path), "run-1", 0, 0).end(window(2).start)
    assert incomplete_windows(STUDY, str(tmp_path)) == {window(1), window(2)}


def test_a_run_is_gone_on_with_though_it_was_asked_to_stop(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--output {tmp_path}: there is no run run-1 to resume"):
        resume(str(tmp_path), "run-1")
    claim_for_stream(job(tmp_path))
    ask_to_stop(str(tmp_path), "run-1")
    resume(str(tmp_path), "run-1")
    assert not asked_to_stop(str(tmp_path), "run-1")
    resume(str(tmp_path), "run-1")


def test_a_run_that_goes_on_holds_its_own(leave: Leave, tmp_path: Path) -> None:
    leave("run-1", [window(1)])
    leave("run-2", [window(2)])
    assert incomplete_windows(STUDY, str(tmp_path), "run-2") == {window(1)}


@pytest.mark.parametrize(("timing", "closed"), [("early", False), ("on_time", True), ("late", True)])
def test_a_pane_closes_its_window_unless_it_is_early(
    timing: str, closed: bool, leave: Leave, tmp_path: Path
) -> None:
    leave("run-1", [window(1), window(2)], [("x", window(1), timing)])
    assert incomplete_windows(STUDY, str(tmp_path)) == {window(2)} | (set() if closed else {window(1)})


def test_a_window_is_closed_for_the_run_that_closed_it_alone(leave: Leave, tmp_path: Path) -> None:
    leave("run-1", [window(1), window(2)], [("x", window(2), "on_time")])
    leave("run-2", [window(1), window(3)], [("x", window(1), "on_time"), ("x", window(3), "on_time")])
    # Of window 1 run 2 said what it had; what run 1 had of it is lost.
    assert incomplete_windows(STUDY, str(tmp_path)) == {window(1)}
    leave("run-3", [window(2)])
    assert incomplete_windows(STUDY, str(tmp_path)) == {window(1), window(2)}


def test_a_pane_of_another_attribute_does_not_close_a_window(leave: Leave, tmp_path: Path) -> None:
    leave("run-1", [window(1), window(1, "y")], [("x", window(1), "on_time")])
    assert incomplete_windows(STUDY, str(tmp_path)) == {window(1, "y")}


def test_the_coordinates_of_a_vector_close_the_windows_of_its_attribute(leave: Leave, tmp_path: Path) -> None:
    panes = [(name, window(1), "on_time") for name in ("y.north", "y.up")]
    leave("run-1", [window(1, "y"), window(2, "y")], [*panes, ("y.up", window(2), "early")])
    assert incomplete_windows(STUDY, str(tmp_path)) == {window(2, "y")}


def test_what_killed_workers_left_half_written_goes_and_nothing_else(tmp_path: Path) -> None:
    left = ".panes-x.run-1.avro.0123456789abcdef0123456789abcdef"
    others = [left.replace("run-1", "run-2"), ".hidden", left[1:], "panes-x.run-1.avro", ".lock"]
    for name in (left, *others):
        (tmp_path / name).touch()
    sweep([str(tmp_path), str(tmp_path / "none")], "run-1")
    assert {path.name for path in tmp_path.iterdir()} == set(others)
    sweep([str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == set(others[1:])

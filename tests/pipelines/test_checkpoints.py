"""Which checkpoint of a job on Flink that was lost the next command goes on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.errors import UserError
from ldpbeam.pipelines.runs import checkpoints
from ldpbeam.runners import engines
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.transforms.state.journal import Journal

EARLIER, LAST = "20260101T000000Z-1", "20260102T000000Z-2"


class Cluster:
    """A cluster that knows no job, or one in a state."""

    state: str | None = None

    def __init__(self, master: str) -> None:
        assert master == "host:1"

    def job(self, job: str) -> dict[str, Any]:
        assert job == "job"
        if self.state is None:
            raise FlinkError("not found")
        return {"state": self.state}


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, of which the last one has left checkpoints 9 and 10, and began an eleventh."""
    monkeypatch.setattr(engines, "Rest", Cluster)
    monkeypatch.setattr(Cluster, "state", None)
    for run in (EARLIER, LAST):
        (tmp_path / "out" / "runs" / run).mkdir(parents=True)
        (tmp_path / "out" / "runs" / run / "run.json").write_text("{}")
    for number in (9, 10, 11):
        (tmp_path / "job" / f"chk-{number}").mkdir(parents=True)
        if number < 11:
            (tmp_path / "job" / f"chk-{number}" / "_metadata").touch()
    place = tmp_path / "out" / "runs" / LAST / "checkpoints.json"
    place.write_text(json.dumps({"folder": f"file:{tmp_path}/job"}))
    return tmp_path / "out"


def test_it_is_the_latest_that_is_whole(output: Path) -> None:
    found = checkpoints.lost_run(str(output), "host:1")
    assert found == (LAST, f"file:{output.parent}/job/chk-10")


def test_a_run_that_has_ended_or_whose_checkpoints_are_gone_is_not_lost(output: Path) -> None:
    journal = Journal(str(output), LAST, 0, 1)
    journal.end(7)
    assert checkpoints.lost_run(str(output), "host:1") is None
    (output / "runs" / LAST / "journal-0.json").unlink()
    for path in output.parent.glob("job/*/_metadata"):
        path.unlink()
    assert checkpoints.lost_run(str(output), "host:1") is None
    (output / "runs" / LAST / "checkpoints.json").unlink()
    assert checkpoints.lost_run(str(output), "host:1") is None


@pytest.mark.parametrize(("state", "runs"), [("RUNNING", True), ("RESTARTING", True), ("FAILED", False)])
def test_a_job_that_still_runs_is_not_started_twice(
    state: str, runs: bool, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "state", state)
    if not runs:
        assert checkpoints.lost_run(str(output), "host:1") is not None
        return
    with pytest.raises(
        UserError, match=f"run {LAST} goes on there as job job on host:1: end it with a savepoint"
    ):
        checkpoints.lost_run(str(output), "host:1")

"""When the job of a stream on Flink is done; no cluster needed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.runners.runner import PipelineState

from ldpbeam.runners.flink import jobs
from ldpbeam.runners.flink.parts import FlinkError


class FakeRest:
    """A job whose watermarks and checkpoints follow a script; a look a step. The first cancel is lost."""

    def __init__(self, steps: list[tuple[int, int]]) -> None:
        self.steps = iter(steps)
        self.asked = 0
        self.cancelled = threading.Event()

    def jobs(self) -> list[dict[str, Any]]:
        return [
            {"jid": "x", "name": "other", "state": "RUNNING"},
            {"jid": "j", "name": "n", "state": "RUNNING", "tasks": {"running": 1}},
        ]

    def watermarks(self, job: str) -> dict[str, list[int]]:
        assert job == "j"
        self.watermark, self.completed = next(self.steps)
        if self.watermark < -1:
            raise FlinkError("away")
        return {"source": [], "sink": [jobs.PAST_ALL_WINDOWS + 1, self.watermark]}

    def checkpoints(self, _: str) -> dict[str, Any]:
        latest = {"id": self.completed} if self.completed else None
        # The fourth was begun. Five more failed before they had an id, while no task ran.
        history = [{"id": max(4, self.completed)}, {"id": 2}]
        return {"counts": {"total": 99}, "history": history, "latest": {"completed": latest}}

    def cancel(self, job: str) -> None:
        assert next(self.steps, None) is None
        self.asked += 1
        if self.asked == 1:
            raise FlinkError("away")
        self.cancelled.set()


class FakeResult:
    """Beam's result, which raises as Beam does when the job is cancelled."""

    def __init__(self, cancelled: threading.Event) -> None:
        self.cancelled = cancelled
        self.state = PipelineState.CANCELLED

    def wait_until_finish(self, _: int | None) -> None:
        assert self.cancelled.wait(20)
        raise RuntimeError("JobCancellationException")

    def metrics(self) -> str:
        return "metrics"


def test_a_stream_is_done_when_a_checkpoint_has_begun_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LOOKING_SECONDS", 0.01)
    end = jobs.PAST_ALL_WINDOWS + 1
    # Not at the end, away, at the end; then the checkpoints of before, then the one that counts.
    rest = FakeRest([(0, 4), (-9, 4), (end, 0), (end, 0), (end, 4), (end, 5)])
    stopped: list[str] = []
    server: Any = SimpleNamespace(stop=lambda: stopped.append("stopped"))
    result = jobs.StreamResult(FakeResult(rest.cancelled), server, rest, "n")  # type: ignore[arg-type]
    assert result.wait_until_finish() == PipelineState.DONE
    assert result.state == PipelineState.DONE
    assert stopped == ["stopped"]
    assert result.metrics() == "metrics"


def test_a_stream_whose_watermarks_are_not_told_is_done_when_many_checkpoints_wrote_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "LOOKING_SECONDS", 0.01)
    # A reader still reads, all have ended, and one more window is written at the seventh checkpoint.
    written = iter([None, {"a"}])
    rest = FakeRest([(0, last) for last in range(5, 7 + jobs.SILENT_CHECKPOINTS + 1)])
    result = jobs.StreamResult(FakeResult(rest.cancelled), None, rest, "n")  # type: ignore[arg-type]
    result.written = lambda: next(written, {"a", "b"})
    assert result.wait_until_finish() == PipelineState.DONE


@pytest.mark.parametrize(
    ("state", "saved", "found"),
    [("CANCELED", 6, "file:/s/6"), ("FINISHED", 6, "file:/s/6"), ("CANCELED", 4, None), ("FAILED", 6, None)],
)
def test_a_job_that_ends_with_a_savepoint_says_which(
    state: str, saved: int, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ENDED_SECONDS", 0.5)
    latest = {
        "savepoint": {"id": saved, "external_path": f"file:/s/{saved}"},
        "completed": {"id": 5, "external_path": "file:/c/j/chk-5"},
    }
    states = iter(["CANCELLING"])
    rest: Any = SimpleNamespace(
        job=lambda _: {"state": next(states, state)},
        checkpoints=lambda _: {"latest": latest},
    )
    result = jobs.StreamResult(FakeResult(threading.Event()), None, rest, "n")  # type: ignore[arg-type]
    folders: list[str] = []
    result.on_checkpoint = folders.append
    result._look({"jid": "j", "name": "n", "state": "CANCELLING", "tasks": {"running": 1}})
    assert folders == ["file:/c/j"]
    assert result.savepoint() == found


def test_a_stream_that_somebody_else_cancelled_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LOOKING_SECONDS", 0.01)
    rest = FakeRest([(0, 4)] * 10_000)
    rest.cancelled.set()
    result = jobs.StreamResult(FakeResult(rest.cancelled), None, rest, "n")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Cancellation"):
        result.wait_until_finish()
    assert result.state == PipelineState.CANCELLED

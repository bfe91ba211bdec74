"""Ctrl-C while a stream runs in a terminal: it stops as on SIGTERM."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stream_messages import MINUTE, WEEK_AGO, evenly, one_by_one, publish, reports_of, rides
from stream_runs import MARK, Left, closes, processes_of
from terminal import CTRL_C, Terminal, ldpbeam, paused, terminal

if TYPE_CHECKING:
    from pubsub_server import PubSubServer

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")


@pytest.fixture
def mark() -> Iterator[str]:
    """Marks the processes of a run, of which none is left in the end."""
    own = f"ctrl-c-{os.getpid()}"
    yield own
    assert processes_of(own) == []


@pytest.fixture
def arguments(
    own_pubsub: PubSubServer, topic_and_subscription: Any, tmp_path: Path
) -> tuple[list[object], Callable[[], Any]]:
    """Of a stream with a closed and an open window; and what its server counts."""
    names = topic_and_subscription(own_pubsub.address, ack_deadline_seconds=600)
    study, output = tmp_path / "study.yaml", tmp_path / "output"
    study.write_text(STUDY)
    sent = reports_of(STUDY, "first", evenly(WEEK_AGO, SIZE + SIZE // 2, 1_000), seed=1)
    publish(names.topic, one_by_one(sent))
    command = ["stream", "--study", study, "--output", output, "--subscription", names.subscription]
    command += ["--max-disorder", "10s"]
    return command, lambda: own_pubsub.counts(names.subscription)


def left_by(run: Terminal, output: Path) -> Left:
    (name,) = {path.name for path in (output / "runs").iterdir()}
    return Left(output, name)


def test_one_ctrl_c_stops_the_stream_which_keeps_what_is_open(
    arguments: Any, mark: str, tmp_path: Path
) -> None:
    command, counts = arguments
    with terminal(ldpbeam(*command), {MARK: mark}) as run:
        run.wait_until(lambda: counts().unacked == 0 and " on time: " in run.said)
        # As `timeout -s INT`, which signals the process and then its group.
        run.press(CTRL_C)
        run.press(CTRL_C)
        assert run.wait() == 0, run.said
        left = left_by(run, tmp_path / "output")
    assert "Traceback" not in run.said
    assert closes(left.accounting)
    assert (left.accounting["in"], left.accounting["in_open_windows"] > 0) == (2_000, True)
    assert {snapshot.pane_timing for snapshot in left.snapshots.values()} == {"on_time"}


def test_ctrl_c_before_it_reads_stops_it_too(arguments: Any, mark: str, tmp_path: Path) -> None:
    command, counts = arguments
    started = paused("ldpbeam.pipelines.spool.run:Run.turn", tmp_path, *command)
    with terminal(started, {MARK: mark}) as run:
        run.wait_until((tmp_path / "reached").exists)
        run.press(CTRL_C)
        run.wait_until(lambda: "^C" in run.said)
        (tmp_path / "go").touch()
        assert run.wait() == 0, run.said
    assert "Traceback" not in run.said
    left = left_by(run, tmp_path / "output")
    read = left.accounting.get("in", 0)
    assert closes(left.accounting)
    assert (counts().unacked, counts().outstanding) == (2_000 - read, 0)

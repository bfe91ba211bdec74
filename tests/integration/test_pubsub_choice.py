"""Which Pub/Sub server ``examples/stream/pubsub.py`` finds or starts, and that nothing of it stays behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")

from ports import NoServerError
from support.waiting import wait_until


def put_gcloud(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """A ``gcloud`` that does what the script says, and the only one on PATH."""
    gcloud = folder / "gcloud"
    gcloud.write_text("#!/bin/sh\n" + script)
    gcloud.chmod(0o755)
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


def test_the_emulator_ends_with_all_that_gcloud_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pubsub_servers: Any
) -> None:
    child = tmp_path / "child"
    put_gcloud(
        monkeypatch, tmp_path, f"sleep 600 & echo $! > {child}; echo 'Server started, listening on 1'; wait\n"
    )
    with pubsub_servers.running_server() as server:
        assert server.name == "Google's emulator"
        process = int(child.read_text())
        os.kill(process, 0)
    wait_until(lambda: not runs(process))


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        # One that has ended may still wait for its parent to notice.
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_server_that_is_named_and_does_not_answer_is_an_error(
    monkeypatch: pytest.MonkeyPatch, pubsub_servers: Any
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:1")
    with (
        pytest.raises(NoServerError, match="'localhost:1', where nothing answers"),
        pubsub_servers.running_server(),
    ):
        pass

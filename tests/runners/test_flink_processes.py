"""A cluster's processes and workers: which are ended, and when they end by themselves."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support import flink_cluster as cluster
from support.waiting import PATIENCE, wait_until

from ldpbeam.runners.flink import parts, processes
from ldpbeam.runners.flink.parts import FlinkError

pytestmark = pytest.mark.usefixtures("own_cache")


def test_only_what_was_started_is_ended(tmp_path: Path, spawn: Any) -> None:
    own = spawn(processes.mark(tmp_path, "jobmanager"))
    stranger = spawn(processes.mark(tmp_path / "other", "jobmanager"))
    wait_until(lambda: "jobmanager" in processes._command_line(own.pid))
    for pid, name in ((own.pid, "jobmanager"), (stranger.pid, "taskmanager-0")):
        processes.remember(tmp_path, processes.Process(pid, name))
    assert [process.pid for process in processes.running(tmp_path)] == [own.pid]
    # Python leaves children as zombies until it is asked for them; those have no command line.
    assert processes.end(tmp_path) == 1
    assert own.wait(20) == -signal.SIGTERM
    assert stranger.poll() is None
    assert processes.running(tmp_path) == []
    assert processes.end(tmp_path) == 0


def test_what_does_not_end_is_killed(tmp_path: Path, spawn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "ENDING_SECONDS", 0.5)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    own = spawn(processes.mark(tmp_path, "jobmanager"), program=deaf)
    own.stdout.readline()
    processes.remember(tmp_path, processes.Process(own.pid, "jobmanager"))
    assert processes.end(tmp_path) == 1
    assert own.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize("text", ["", "{", "[]", '{"processes": 3}', '{"processes": [{"pid": "x"}]}'])
def test_a_state_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / processes.STATE).write_text(text)
    assert processes.running(tmp_path) == []
    assert processes.end(tmp_path) == 0


def test_a_cluster_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FlinkError, match="no java on PATH: install Java"):
        cluster.Cluster(tmp_path, parts.Parts(tmp_path)).start()


def test_a_cluster_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'Error: Could not find or load main class'\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(java.parent))
    with pytest.raises(FlinkError, match="jobmanager ended: Error: Could not find or load main class"):
        cluster.Cluster(tmp_path / "cluster", parts.Parts(tmp_path)).start()
    assert not (tmp_path / "cluster" / processes.STATE).exists()


def test_a_cluster_is_complete_when_its_task_managers_have_their_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\nwhile :; do sleep 1; done\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}:{os.environ['PATH']}")
    # A task manager is registered first, and reports its slots then.
    answers = [{}, {"taskmanager-0": 0}, {"taskmanager-0": 2}]
    started = cluster.Cluster(tmp_path / "cluster", parts.Parts(tmp_path), task_managers=1, slots=2)
    monkeypatch.setattr(cluster.Rest, "task_managers", lambda _: answers.pop(0))
    with started:
        assert answers == []


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
print(child.stdout.readline().decode(), end="", flush=True)
time.sleep(120)
"""


# By itself it ends only after the test has given up waiting for its end.
CHILD = f"""
import os, time
from ldpbeam.processes import end_with
end_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep({2 * PATIENCE})
"""


def test_a_worker_ends_when_its_parent_was_killed(spawn: Any) -> None:
    parent = spawn(CHILD, program=PARENT)
    child = int(parent.stdout.readline())
    time.sleep(1.5)
    os.kill(child, 0)
    parent.kill()
    wait_until(lambda: not processes._command_line(child))


def test_a_worker_watches_before_it_imports_beam(spawn: Any) -> None:
    program = (
        "import sys; from ldpbeam.runners.flink import boot; print('apache_beam' in sys.modules, flush=True)"
    )
    assert spawn(program=program).stdout.readline() == b"False\n"


def test_a_worker_asks_for_what_it_needs() -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2 as messages
    from apache_beam.portability.api import beam_provision_api_pb2_grpc as services

    from ldpbeam.runners.flink import boot

    asked = []

    class Service(services.ProvisionServiceServicer):
        def GetProvisionInfo(self, request: Any, context: Any) -> Any:  # noqa: N802 (Beam's name)
            asked.append(dict(context.invocation_metadata())["worker_id"])
            info = messages.ProvisionInfo(runner_capabilities=["a", "b"])
            info.logging_endpoint.url = "localhost:1"
            info.control_endpoint.url = "localhost:2"
            info.pipeline_options.update({"beam:option:job_name:v1": "j"})
            return messages.GetProvisionInfoResponse(info=info)

    server = grpc.server(ThreadPoolExecutor(1))
    services.add_ProvisionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        found = boot._environment("7-1", f"localhost:{port}")
    finally:
        server.stop(None)
    assert asked == ["7-1"]
    assert found["WORKER_ID"] == "7-1"
    assert json.loads(found["PIPELINE_OPTIONS"]) == {"beam:option:job_name:v1": "j"}
    assert found["CONTROL_API_SERVICE_DESCRIPTOR"].strip() == 'url: "localhost:2"'
    assert found["LOGGING_API_SERVICE_DESCRIPTOR"].strip() == 'url: "localhost:1"'
    assert found["RUNNER_CAPABILITIES"] == "a b"
    assert "STATUS_API_SERVICE_DESCRIPTOR" not in found

"""The worker that a task manager starts: what it asks for, and when it ends by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts Python with a program and words on its command line."""
    children = []

    def start(program: str, *words: str) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


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
    parent = spawn(PARENT, CHILD)
    child = int(parent.stdout.readline())
    time.sleep(1.5)
    os.kill(child, 0)
    parent.kill()
    wait_until(lambda: not command_line(child))


def command_line(pid: int) -> bytes:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_worker_watches_before_it_imports_beam(spawn: Any) -> None:
    program = (
        "import sys; from ldpbeam.runners.flink import boot; print('apache_beam' in sys.modules, flush=True)"
    )
    assert spawn(program).stdout.readline() == b"False\n"


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

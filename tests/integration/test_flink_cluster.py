"""A Flink cluster on this machine: what it starts ends with it, nothing else does, and a loss is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apache_beam as beam
import flink as jobs
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from support.flink_cluster import Cluster, main

from ldpbeam.runners import flink as engine
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.rest import Rest

pytestmark = pytest.mark.slow


def test_the_command_starts_a_cluster_once_and_ends_it(
    flink: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--folder", str(tmp_path / "cluster")]
    taken = flink.address.rpartition(":")[2]
    assert main(["up", *own, "--port", taken]) == 2
    assert "listens there" in capsys.readouterr().err
    assert main(["up", *own, "--task-managers", "1"]) == 0
    address = capsys.readouterr().out.split("--flink_master=")[1].split(";")[0]
    try:
        assert Rest(address).slots() == [1]
        assert main(["up", *own]) == 2
        assert "running there already" in capsys.readouterr().err
    finally:
        assert main(["down", *own]) == 0
    assert "ended 2 processes" in capsys.readouterr().out
    with pytest.raises(FlinkError, match="no Flink cluster answers"):
        Rest(address).slots()
    assert main(["down", *own]) == 0
    assert "no cluster is running" in capsys.readouterr().out
    assert len(flink.rest.slots()) == len(flink.task_managers)


#: Submits a job that lasts, and waits for it.
SUBMITTING = """
import apache_beam as beam, sys, time
from apache_beam.options.pipeline_options import PipelineOptions
from ldpbeam.runners import flink as engine
pipeline = beam.Pipeline(runner=engine.runner(), options=PipelineOptions(engine.options(sys.argv[1])))
pipeline | beam.Create([600.0]) | beam.Map(time.sleep)
pipeline.run().wait_until_finish()
"""


@pytest.fixture
def submitting() -> Any:
    """A process that has submitted a job to a cluster of its job server's own, and its job server."""
    command = [sys.executable, "-c", SUBMITTING, engine.LOCAL]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # Tests that run in the background of a script ignore it, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:

        def java() -> int | None:
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            return next((pid for pid in jobs.family(process.pid) if is_job_server(pid)), None)

        yield process, jobs.wait_for(java, "the job server")
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def is_job_server(pid: int) -> bool:
    try:
        return b"--artifacts-dir" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_job_server_ends_when_its_process_was_killed(submitting: Any) -> None:
    process, server = submitting
    process.kill()
    jobs.wait_for(lambda: not is_job_server(server), "the job server to end", 60)


def test_ctrl_c_ends_the_job_and_then_its_job_server(submitting: Any) -> None:
    process, server = submitting
    # In a terminal the signal goes to the whole session's foreground group; the job server is in another.
    assert os.getsid(server) not in (os.getsid(process.pid), os.getsid(0))
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(jobs.PATIENCE) != 0
    jobs.wait_for(lambda: not is_job_server(server), "the job server to end", 60)


def test_a_lost_task_manager_is_told_of_and_its_workers_and_all_else_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldpbeam.runners.flink.jobs.STALLED_SECONDS", 1.0, raising=False)
    with jobs.start_cluster(tmp_path / "cluster", task_managers=1) as cluster:
        options = PipelineOptions(engine.options(cluster.address))
        pipeline = beam.Pipeline(runner=engine.runner(), options=options)
        _ = pipeline | beam.Create([600.0]) | beam.Map(jobs.pause)
        result = pipeline.run()
        worker = jobs.wait_for(lambda: jobs.workers(cluster), "a worker").pop()
        waiting = threading.Thread(target=quietly, args=(result.wait_until_finish,), daemon=True)
        waiting.start()
        # A worker that cannot hear anybody, as when Python is busy.
        os.kill(worker, signal.SIGSTOP)
        # Nobody here ends it: the cluster does not know.
        os.kill(cluster.task_managers[0].pid, signal.SIGKILL)
        os.kill(worker, signal.SIGCONT)
        jobs.wait_for(lambda: not jobs.workers(cluster), "the worker to end")
        said: list[str] = []

        def told() -> bool:
            said.append(capsys.readouterr().err)
            return "taskmanager-0 ended: make flink-down, then make flink-up" in "".join(said)

        jobs.wait_for(told, "the sentence", 120)
        assert "the job waits for slots: the cluster has 0 in 0 task managers" in "".join(said)
        with pytest.raises(FlinkError, match="taskmanager-0 of the cluster ended"):
            engine.options(cluster.address)
        assert main(["up", "--folder", str(cluster.folder)]) == 2
        assert "its taskmanager-0 ended" in capsys.readouterr().err
        result.cancel()
        waiting.join(60)
        assert not waiting.is_alive()
        assert cluster.rest.jobs()[0]["state"] in ("CANCELED", "CANCELLING")
    jobs.wait_for(lambda: not jobs.processes(cluster), "the workers to end with their task managers", 60)
    assert not (tmp_path / "cluster" / "tmp").exists()


def quietly(wait: Any) -> None:
    """Wait for a job that will be cancelled."""
    try:
        wait()
    except Exception as error:  # Beam raises for each end but the good one
        print(error)

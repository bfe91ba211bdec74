"""A Flink cluster on this machine: what it starts ends with it, and nothing else does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import apache_beam as beam
import flink as jobs
import pytest

from ldpbeam.runners.flink.cluster import Cluster, main
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.rest import Rest

pytestmark = pytest.mark.slow


def test_workers_end_with_their_task_manager_and_nothing_stays(tmp_path: Path) -> None:
    with jobs.start_cluster(tmp_path / "cluster", task_managers=1) as cluster:
        jobs.submit(cluster, lambda pipeline: pipeline | beam.Create([60.0]) | beam.Map(jobs.pause))
        worker = jobs.wait_for(lambda: jobs.workers(cluster), "a worker").pop()
        # One that cannot hear anybody, as when Python is busy.
        os.kill(worker, signal.SIGSTOP)
        cluster.kill_task_manager(cluster.task_managers[0])
        os.kill(worker, signal.SIGCONT)
        jobs.wait_for(lambda: not jobs.workers(cluster), "the worker to end")
        assert len(jobs.processes(cluster)) == 1
    assert not jobs.processes(cluster)
    assert not (tmp_path / "cluster" / "tmp").exists()


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

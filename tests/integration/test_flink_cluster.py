"""Pipelines on a real Flink cluster: batch and stream, with a task manager lost on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import apache_beam as beam
import flink as jobs
import pytest
from apache_beam.io.unbounded_source import ReadFromUnboundedSource
from apache_beam.runners.runner import PipelineState
from flink import flink_cluster  # noqa: F401 (a fixture)

from ldpbeam.runners.flink.cluster import Cluster, main
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.rest import Rest

pytestmark = pytest.mark.slow

NUMBERS = 20
#: The sum of the numbers below 100 * NUMBERS with each last digit.
SUMS = {f"{digit}-all": [sum(range(digit, 100 * NUMBERS, 10))] for digit in range(10)}


def folders(path: Path) -> tuple[Path, Path]:
    """Where results go, and what is told on the way."""
    output, told = path / "output", path / "told"
    output.mkdir()
    told.mkdir()
    return output, told


def batch(pipeline: beam.Pipeline, output: Path, told: Path, pause: float) -> None:
    _ = (
        pipeline
        | beam.Create(range(NUMBERS))
        | beam.FlatMap(jobs.spread)
        | "Spread" >> beam.Reshuffle()
        | "Key" >> beam.Map(jobs.keyed, pause, str(told))
        | beam.CombinePerKey(sum)
        | beam.Map(jobs.write, str(output))
    )


def stream(pipeline: beam.Pipeline, source: jobs.Counted, output: Path) -> None:
    _ = (
        pipeline
        | ReadFromUnboundedSource(source, poll_interval=0.1, max_read_time_seconds=0.5)
        | beam.Map(jobs.one)
        | beam.WindowInto(beam.window.FixedWindows(5))
        | beam.CombinePerKey(sum)
        | beam.Map(jobs.write, str(output))
    )


def counts(numbers: int) -> dict[str, list[int]]:
    """Of windows of five seconds over so many numbers: each once, each full."""
    full = 5 * jobs.A_SECOND
    return {f"count-{jobs.START + 5 * place}": [full] for place in range(numbers // full)}


def test_a_batch_is_exact_and_spreads(flink: Cluster, tmp_path: Path) -> None:
    output, told = folders(tmp_path)
    job, result = jobs.submit(flink, lambda pipeline: batch(pipeline, output, told, 0))
    assert result.wait_until_finish() == PipelineState.DONE
    assert jobs.written(output) == SUMS
    assert flink.rest.job(job)["state"] == "FINISHED"
    [mapped] = [own for name, own in flink.rest.records(job).items() if "{Key" in name]
    assert len(mapped) == 2
    assert all(subtask.read > 0 for subtask in mapped)


def test_a_batch_is_exact_when_a_task_manager_is_killed(flink: Cluster, tmp_path: Path) -> None:
    output, told = folders(tmp_path)
    job, result = jobs.submit(flink, lambda pipeline: batch(pipeline, output, told, 0.02))
    jobs.wait_for(lambda: len(list(told.iterdir())) > 50, "the map to be at work")
    before = jobs.workers(flink)
    flink.kill_task_manager(flink.task_managers[0])
    jobs.wait_for(lambda: jobs.workers(flink) < before, "the workers of the one that was killed to end")
    assert not list(output.iterdir())
    flink.start_task_manager()
    flink.wait()
    assert result.wait_until_finish() == PipelineState.DONE, jobs.said(flink, job)
    assert flink.rest.problems(job)
    assert jobs.written(output) == SUMS


def test_a_stream_ends_with_its_source_and_its_checkpoints_are_finalised(
    flink: Cluster, tmp_path: Path
) -> None:
    output, told = folders(tmp_path)
    source = jobs.Counted(3000, 500, str(told))
    job, result = jobs.submit(flink, lambda pipeline: stream(pipeline, source, output), streaming=True)
    assert result.wait_until_finish() == PipelineState.DONE, jobs.said(flink, job)
    assert jobs.written(output) == counts(3000)
    assert jobs.finalised(told) == 3000
    assert flink.rest.checkpoints(job)["counts"]["completed"] > 0
    jobs.wait_for(lambda: not jobs.workers(flink), "the workers of a stream to end with it")


def test_a_stream_is_exact_when_a_task_manager_is_killed(flink: Cluster, tmp_path: Path) -> None:
    output, told = folders(tmp_path)
    source = jobs.Counted(8000, 100, str(told))
    job, result = jobs.submit(flink, lambda pipeline: stream(pipeline, source, output), streaming=True)
    jobs.wait_for(lambda: jobs.finalised(told) > 500 and list(output.iterdir()), "the first windows")
    flink.kill_task_manager(flink.task_managers[0])
    flink.start_task_manager()
    flink.wait()
    assert jobs.finalised(told) < 8000
    assert result.wait_until_finish() == PipelineState.DONE, jobs.said(flink, job)
    assert flink.rest.checkpoints(job)["counts"]["restored"] > 0
    found = jobs.written(output)
    # A window that was written after the last checkpoint is written again, with the same count.
    assert {window: set(own) for window, own in found.items()} == {
        window: set(own) for window, own in counts(8000).items()
    }
    assert jobs.finalised(told) == 8000


def test_a_stream_is_cancelled(flink: Cluster, tmp_path: Path) -> None:
    output, told = folders(tmp_path)
    source = jobs.Counted(10**6, 100, str(told))
    job, result = jobs.submit(flink, lambda pipeline: stream(pipeline, source, output), streaming=True)
    jobs.wait_for(lambda: jobs.finalised(told), "a checkpoint")
    flink.rest.cancel(job)
    with pytest.raises(RuntimeError, match="cancelled"):
        result.wait_until_finish()
    assert flink.rest.job(job)["state"] == "CANCELED"
    jobs.wait_for(lambda: not jobs.workers(flink), "the workers to end")


def test_workers_end_with_their_task_manager_and_nothing_stays(tmp_path: Path) -> None:
    output, told = folders(tmp_path)
    with jobs.start_cluster(tmp_path / "cluster", task_managers=1) as cluster:
        jobs.submit(cluster, lambda pipeline: batch(pipeline, output, told, 5.0))
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

"""A study of two joined services, from Avro files, on a real Flink cluster and on the local engines."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import flink as jobs
import pytest
from stream_messages import HOUR, WEEK_AGO, evenly, reports_of, rides
from support.flink_cluster import Cluster
from support.output_folders import contents

pytestmark = pytest.mark.slow

STUDY = rides("size: 6h", intervals=True)
FILES, PEOPLE = 24, 10_000  # people a file, who each send two reports
MIDNIGHT = WEEK_AGO // (24 * HOUR) * 24 * HOUR


class Started(NamedTuple):
    """A run that has begun: its process and what it says, where it writes, and its job on Flink."""

    process: subprocess.Popen[bytes]
    log: Path
    output: Path
    job: str


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, write_reports: Any) -> list[Path]:
    """What people of a day sent, in files that each have an hour."""
    folder = tmp_path_factory.mktemp("reports")
    return [
        path
        for hour in range(FILES)
        for path in write_reports(
            folder / str(hour),
            reports_of(STUDY, f"hour {hour}", evenly(MIDNIGHT + hour * HOUR, HOUR, PEOPLE), seed=hour),
        )
    ]


@pytest.fixture(scope="module")
def local(files: list[Path], run_estimate: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run on the local engine leaves."""
    run = run_estimate(tmp_path_factory.mktemp("local"), STUDY, files)
    assert run.code == 0, run.err
    assert run.accounting["used"] == 2 * FILES * PEOPLE
    assert len(run.estimates) == 4 * 2
    return contents(run.path)


@contextmanager
def started(folder: Path, files: Sequence[Path], cluster: Cluster) -> Iterator[Started]:
    """``ldpbeam estimate`` on a cluster in a process of its own, and its job, once that reads."""
    study, output, log = folder / "study.yaml", folder / "output", folder / "said"
    study.write_text(STUDY)
    before = {job["jid"] for job in cluster.rest.jobs()}
    command = [sys.executable, "-m", "ldpbeam.command_line.main", "estimate", "--study", study]
    command += ["--output", output, "--input", *files, *on(cluster)]
    with log.open("wb") as said:
        process = subprocess.Popen(list(map(str, command)), stdout=said, stderr=subprocess.STDOUT)
    try:

        def reading() -> Any:
            assert process.poll() is None, log.read_text()
            new = [job for job in cluster.rest.jobs() if job["jid"] not in before]
            return new and new[0]["jid"]

        job = jobs.wait_for(reading, "the job")
        yield Started(process, log, output, job)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def stopped_while_it_reads(cluster: Cluster, files: Sequence[Path]) -> int:
    """A worker that has a file open, and is stopped, so that the job cannot end before it goes on."""
    paths = set(map(str, files))

    def reads(worker: int) -> bool:
        # Files come and go, and workers too.
        with contextlib.suppress(OSError):
            return any(str(opened.readlink()) in paths for opened in Path(f"/proc/{worker}/fd").iterdir())
        return False

    def stopped() -> int | None:
        # Workers only run in moments that are shorter than reading, however seldom this process may look.
        workers = jobs.workers(cluster)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)
                time.sleep(0.01)
                os.kill(worker, signal.SIGSTOP)
            if reads(worker):
                for other in workers - {worker}:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(other, signal.SIGCONT)
                return worker
        return None

    return int(jobs.wait_for(stopped, "a worker that reads a file", every=0.001))


def test_a_worker_and_a_task_manager_that_are_killed_change_nothing(
    flink: Cluster, files: list[Path], local: dict[str, bytes], tmp_path: Path
) -> None:
    with started(tmp_path, files, flink) as run:
        os.kill(stopped_while_it_reads(flink, files), signal.SIGKILL)
        # As one leaves that is killed while it writes.
        half = run.output / "statistics" / f".rides-minutes.avro.{uuid.uuid4().hex}"
        half.parent.mkdir(exist_ok=True)
        half.touch()
        # Until the job has begun again, workers of before may read, and a loss would be no further one.
        jobs.wait_for(lambda: jobs.has_restarted(flink, run.job), "the job to begin again")
        worker = stopped_while_it_reads(flink, files)
        flink.kill_task_manager()
        os.kill(worker, signal.SIGCONT)
        flink.start_task_manager()
        flink.wait()
        assert run.process.wait(jobs.PATIENCE) == 0, run.log.read_text()
    assert len(jobs.problems(flink, run.job)) >= 2
    assert contents(run.output) == local


def on(cluster: Cluster) -> list[str]:
    """Options of commands."""
    return ["--runner", "flink", *cluster.options]

"""The checkpoints of a stream on Flink, with which the next command goes on if its job was lost."""

from __future__ import annotations

from apache_beam.io.filesystems import FileSystems

from ldpbeam.errors import UserError
from ldpbeam.folders.output import files_in, folder_of, named_in_errors, write_json
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs.stream_runs import runs_in
from ldpbeam.runners.engines import state_of_job
from ldpbeam.transforms.sources.journal import RUNS, ended_at
from ldpbeam.transforms.storage import read_json

#: The file in a run's folder that names the folder of its checkpoints.
CHECKPOINTS = "checkpoints.json"
_CHECKPOINT = "chk-"


def remember(job: StreamJob, folder: str) -> None:
    """Write down where the job of a run has its checkpoints, in Flink's notation."""
    write_json(job.of_run(CHECKPOINTS), {"folder": folder})


def lost_run(output: str, master: str) -> tuple[str, str] | None:
    """The last run into a folder, and the latest checkpoint of its job, if the job was lost and left one.

    Flink deletes the checkpoints of a job that it ends itself.

    Args:
        output: the folder.
        master: the cluster.

    Raises:
        UserError: if the job still runs, or a file is damaged.
    """
    for run in runs_in(output)[-1:]:
        path = FileSystems.join(output, RUNS, run, CHECKPOINTS)
        with named_in_errors(output):
            if not FileSystems.exists(path) or ended_at(output, run) is not None:
                return None
            folder = str(read_json(path)["folder"])
            left = files_in(folder.removeprefix("file:"), f"{_CHECKPOINT}*/_metadata")
        job = folder.rpartition("/")[2]
        if state_of_job(master, job) in ("CREATED", "RUNNING", "FAILING", "RESTARTING"):
            raise UserError(
                f"--output {output}: run {run} goes on there as job {job} on {master}: end it with a "
                "savepoint (docs/flink.md), or cancel it"
            )
        numbers = [int(folder_of(entry).removeprefix(_CHECKPOINT)) for entry in left]
        if numbers:
            return run, f"{folder}/{_CHECKPOINT}{max(numbers)}"
    return None

"""The checkpoints of a stream on Flink, with which the next command goes on if its job was lost."""

from __future__ import annotations

from ldpbeam.errors import UserError
from ldpbeam.folders.output import files_in, folder_of, named_in_errors
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs.stream_runs import runs_in
from ldpbeam.runners.engines import state_of_job
from ldpbeam.transforms.state.files import CHECKPOINTS, run_folder
from ldpbeam.transforms.state.journal import ended_at

_CHECKPOINT = "chk-"


def remember(job: StreamJob, folder: str) -> None:
    """Write down where the job of a run has its checkpoints, in Flink's notation."""
    CHECKPOINTS.write(job.folder, folder)


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
        with named_in_errors(output):
            folder = CHECKPOINTS.read(run_folder(output, run))
            if folder is None or ended_at(output, run) is not None:
                return None
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

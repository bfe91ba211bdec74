"""The output folder of a run: whose it is, what lies in it, and what it may replace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from ldpbeam.pipelines.errors import UserError
from ldpbeam.schemas.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.study_file import fingerprint
from ldpbeam.transforms import files
from ldpbeam.transforms.write import make_folder, opened, write_bytes

ESTIMATES = "estimates"
LEDGER = "ledger.json"
RUN = "run.json"
STATISTICS = "statistics"
DEAD_LETTERS = "dead_letters"
ACCOUNTING = "accounting.json"
WORKER_ESTIMATES = ".estimates.from_workers.jsonl"


@dataclass(frozen=True)
class Output:
    """Where a run writes.

    Attributes:
        study: what is estimated.
        output: the folder of the outputs.
        run: the run's name, in every snapshot and estimate.
    """

    study: Study
    output: str
    run: str

    def path(self, name: str) -> str:
        """A path below the output folder."""
        return str(FileSystems.join(self.output, name))


def files_in(folder: str, pattern: str) -> list[Any]:
    """What a folder holds of a pattern; the folder's own name may look like one."""
    place = FileSystems.join(files.literal(folder), pattern)
    found: list[Any] = FileSystems.match([place])[0].metadata_list
    return found


def check_output(job: Output, overwrite: bool) -> None:
    """See that the output folder can be this run's.

    Raises:
        UserError: if it holds another run's outputs, or files that no run wrote, or cannot be.
    """
    place = f"--output {job.output or repr(job.output)}"
    try:
        entries = files_in(job.output, "*") if job.output else None
        before = _marker(job)
    except (BeamIOError, OSError, ValueError) as error:
        raise UserError(f"{place}: {error}") from None
    if entries is None or ("://" not in job.output and Path(job.output).is_file()):
        raise UserError(f"{place}: a folder is needed")
    if overwrite or (before is not None and before.get("run") == job.run):
        return
    if before is not None:
        raise UserError(
            f"{place}: it holds the outputs of another run (of study {before.get('study')!r}); name another "
            "folder, or replace them with --overwrite"
        )
    if entries:
        raise UserError(
            f"{place}: the folder is not empty, and not written by ldpbeam estimate; name another one, or "
            "write beside what is there with --overwrite"
        )


def _marker(job: Output) -> dict[str, Any] | None:
    """What the last run in the output folder said of itself; None if there was none, or nothing legible."""
    if not FileSystems.exists(job.path(RUN)):
        return None
    with opened(job.path(RUN)) as stream, contextlib.suppress(ValueError):
        found = json.load(stream)
        return found if isinstance(found, dict) else None
    return None


def claim_output(job: Output, inputs: Sequence[str]) -> None:
    """Clear the last run's outputs from the folder, and mark it as this run's.

    Raises:
        UserError: if it cannot be written.
    """
    ours = [job.path(name) for name in (f"{ESTIMATES}.jsonl", f"{ESTIMATES}.avro", ACCOUNTING, LEDGER)]
    about = {"run": job.run, "study": job.study.study, "study_fingerprint": fingerprint(job.study)}
    try:
        ours += [
            entry.path
            for folder in (STATISTICS, DEAD_LETTERS)
            for entry in files_in(job.path(folder), "*.avro")
        ]
        FileSystems.delete([files.literal(path) for path in ours if FileSystems.exists(path)])
        make_folder(job.output)
        write_bytes(job.path(RUN), json.dumps({**about, "input": list(inputs)}, indent=2).encode() + b"\n")
    except (BeamIOError, OSError) as error:
        raise UserError(f"--output {job.output}: {error}") from None


def snapshots_of(job: Output) -> Iterator[Snapshot]:
    """The snapshots the stream wrote."""
    for entry in sorted(files_in(job.path(STATISTICS), "*.avro"), key=lambda entry: str(entry.path)):
        with opened(entry.path) as stream:
            yield from read_snapshots(stream)

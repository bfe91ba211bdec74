"""The output folder of a run: which run owns it, which files it holds, and which files a run may replace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs.locks import GoneError, Held, is_lock, locked
from ldpbeam.schemas.files.avro_headers import read_header
from ldpbeam.schemas.outputs.snapshots import SNAPSHOTS, Snapshot, read_snapshots
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import snapshot_name, window_in
from ldpbeam.transforms.sources.journal import RUNS
from ldpbeam.transforms.storage import half_written, literal, open_raw, read_json, write_bytes

ESTIMATES = "estimates"
LEDGER = "ledger.json"
RUN = "run.json"
STATISTICS = "statistics"
DEAD_LETTERS = "dead_letters"
ACCOUNTING = "accounting.json"
WORKER_ESTIMATES = ".estimates.from_workers.jsonl"
#: The kind of a folder that scheduled runs share.
SCHEDULED = "scheduled"


@dataclass(frozen=True)
class Output:
    """The study, the output folder and the name of a run.

    Attributes:
        study: the study that is estimated.
        output: the folder of the outputs.
        run: the run's name, which every snapshot and estimate carries.
    """

    study: Study
    output: str
    run: str

    def path(self, *names: str) -> str:
        """A path below the output folder."""
        return str(FileSystems.join(self.output, *names))

    @property
    def about(self) -> dict[str, Any]:
        """The fields of ``run.json`` that identify the run and its study."""
        return {"run": self.run, "study": self.study.name, "study_fingerprint": self.study.fingerprint}


@contextlib.contextmanager
def named_in_errors(output: str) -> Iterator[None]:
    """Turn errors of the file system inside the block into messages about ``--output``.

    Raises:
        UserError: for a BeamIOError, OSError or ValueError inside; it names the output folder.
    """
    try:
        yield
    except (BeamIOError, OSError, ValueError) as error:
        raise UserError(f"--output {output or repr(output)}: {error}") from None


def files_in(folder: str, pattern: str) -> list[Any]:
    """Beam's metadata of the files in a folder that match a pattern; the folder's name is taken literally."""
    place = FileSystems.join(literal(folder), pattern)
    found: list[Any] = FileSystems.match([place])[0].metadata_list
    return found


def write_json(path: str, found: object) -> None:
    """Write a value as JSON; the file appears whole or not at all."""
    write_bytes(path, json.dumps(found, indent=2).encode() + b"\n")


def check_output(job: Output, overwrite: bool, scheduled: bool = False) -> str | None:
    """Check that a run may write to its output folder.

    Args:
        job: the run.
        overwrite: whether the run may replace outputs of other runs.
        scheduled: whether the run shares the folder with other scheduled runs of the study.

    Returns:
        The name of the run that owns the folder; scheduled runs of a study share a name. None if no run
        owns it yet, or if the outputs of another run are to be replaced.

    Raises:
        UserError: if the folder holds another run's outputs or files that no run wrote, or cannot be used.
    """
    place = f"--output {job.output or repr(job.output)}"
    with named_in_errors(job.output):
        entries = files_in(job.output, "*") if job.output else None
        before = _mark(job)
    if entries is None or ("://" not in job.output and Path(job.output).is_file()):
        raise UserError(f"{place}: a folder is needed")
    if before is not None and _belongs(before, job, scheduled):
        return str(before["run"])
    if overwrite:
        return None
    if before is not None:
        raise UserError(
            f"{place}: it holds {_holds(before, job, scheduled)}; name another folder, or replace them with "
            "--overwrite"
        )
    # Ignored: locks, and the run.json that a run starting at the same moment is writing.
    if any(not _name(entry).startswith(f".{RUN}.") and not is_lock(_name(entry)) for entry in entries):
        raise UserError(
            f"{place}: the folder is not empty, and not written by ldpbeam estimate; name another one, or "
            "write beside what is there with --overwrite"
        )
    return None


def _belongs(before: Mapping[str, Any], job: Output, scheduled: bool) -> bool:
    same = "study_fingerprint" if scheduled else "run"
    return (before.get("kind") == SCHEDULED) == scheduled and before.get(same) == job.about[same]


def _holds(before: Mapping[str, Any], job: Output, scheduled: bool) -> str:
    study = f"of study {before.get('study')!r}"
    if before.get("kind") != SCHEDULED:
        return f"the outputs of another run ({study})" + (
            ", which was not a scheduled one" if scheduled else ""
        )
    if not scheduled:
        return (
            f"the scheduled runs {study}, and this run is not one of them: it has no windows, --from or --to"
        )
    changed = before.get("study") == job.study.name
    return f"the scheduled runs {study}" + (" as it was before it was changed" if changed else "")


def _mark(job: Output) -> dict[str, Any] | None:
    """The ``run.json`` of the last run in the output folder; None if it is missing or malformed."""
    if not FileSystems.exists(job.path(RUN)):
        return None
    with contextlib.suppress(ValueError):
        found = read_json(job.path(RUN))
        return found if isinstance(found, dict) else None
    return None


@contextlib.contextmanager
def claimed(job: Output, inputs: Sequence[str], overwrite: bool) -> Iterator[Held]:
    """Hold the output folder for one run alone.

    The last run's outputs are deleted first. ``run.json`` identifies the run; its field ``complete`` is false
    until the block ends without an error.

    Raises:
        UserError: if this run may not use the folder, another run writes there, or the folder was deleted
            meanwhile.
    """
    with held(job.output, alone=True) as place:
        check_output(job, overwrite)
        about = {**job.about, "input": list(inputs)}
        with named_in_errors(job.output):
            clear(job)
            # Runs that were killed leave half-written files; no other run writes here now.
            sweep([job.output, *map(job.path, (STATISTICS, DEAD_LETTERS))])
            write_json(job.path(RUN), {**about, "complete": False})
        try:
            yield place
            place.check()
        except BaseException as error:
            # After Ctrl-C, or in a deleted folder, the files left would look like the outputs of a run.
            if isinstance(error, KeyboardInterrupt | GoneError):
                clear(job)
            raise
        write_json(job.path(RUN), {**about, "complete": True})


@contextlib.contextmanager
def held(folder: str, *, alone: bool) -> Iterator[Held]:
    """Hold the lock of the output folder; the folder is created if it does not exist.

    Raises:
        UserError: if another run holds the lock, or the folder cannot be created or written to.
    """
    with contextlib.ExitStack() as stack:
        with named_in_errors(folder):
            if not folder:
                raise ValueError("a folder is needed")
            place = stack.enter_context(locked(folder, alone=alone))
        yield place


def clear(job: Output) -> None:
    """Delete the outputs of earlier runs in the folder, scheduled or not; other files stay."""
    ours = [job.path(name) for name in (f"{ESTIMATES}.jsonl", f"{ESTIMATES}.avro", ACCOUNTING, LEDGER)]
    for folder, pattern in (
        (STATISTICS, "*.avro"),
        (DEAD_LETTERS, "*.avro"),
        (ESTIMATES, "*.jsonl"),
        (RUNS, "*/*.json"),
        (RUNS, f"*/{DEAD_LETTERS}/*.avro"),
    ):
        ours += [entry.path for entry in files_in(job.path(folder), pattern)]
    delete(ours)


def sweep(folders: Sequence[str], own: str = "") -> None:
    """Delete the files that killed workers left half written.

    Args:
        folders: the folders that the run wrote to; its pipeline has finished.
        own: text in the names of the run's files, where other runs write to the same folders now.
    """
    delete(
        [
            entry.path
            for folder in folders
            for entry in files_in(folder, f".*{own}*")
            # In an object store, the name of a run's marker looks like that of a half-written file.
            if half_written(_name(entry)) and not is_lock(_name(entry))
        ]
    )


def delete(paths: Sequence[str]) -> None:
    """Delete those of the files that exist."""
    FileSystems.delete([literal(path) for path in paths if FileSystems.exists(path)])


def names_in(folder: str, pattern: str) -> list[str]:
    """The sorted names, without the folder, of the files in a folder that match a pattern."""
    return sorted(_name(entry) for entry in files_in(folder, pattern))


def _name(entry: Any) -> str:
    return str(FileSystems.split(entry.path)[1])


def snapshots_of(job: Output) -> Iterator[Snapshot]:
    """The snapshots that a run wrote, file by file in the order of their names.

    Raises:
        UserError: if one of the files is damaged.
    """
    for name in names_in(job.path(STATISTICS), "*.avro"):
        yield from snapshots_in(job.path(STATISTICS, name))


def snapshot_counts(job: Output) -> Iterator[tuple[str, int]]:
    """(attribute, number of snapshots) of each file of :func:`snapshots_of`, from its name and header.

    A file that is damaged is left out; :func:`snapshots_of` says what is wrong with it.
    """
    for name in names_in(job.path(STATISTICS), "*.avro"):
        with contextlib.suppress(BeamIOError, OSError, ValueError):
            window = window_in(name)
            attributes = [a for a in job.study.estimated if snapshot_name(job.study.name, a, window) == name]
            with open_raw(job.path(STATISTICS, name)) as stream:
                yield attributes[0], int(read_header(stream).metadata[SNAPSHOTS])


def snapshots_in(path: str) -> Iterator[Snapshot]:
    """The snapshots in a file.

    Raises:
        UserError: if the file cannot be read, is damaged, or holds no snapshots; it names the file.
    """
    try:
        with open_raw(path) as stream:
            yield from read_snapshots(stream)
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, not a file; to name the files in it, add /*.avro") from None
    except (BeamIOError, OSError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None

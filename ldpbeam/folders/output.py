"""The output folder of a run: its files, and reading, replacing and deleting them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from ldpbeam.errors import UserError, naming, without_number
from ldpbeam.schemas.files.avro_headers import read_header
from ldpbeam.schemas.outputs.snapshots import ATTRIBUTE, SNAPSHOTS, Snapshot, read_snapshots
from ldpbeam.schemas.outputs.tables import SCHEMAS
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.accounting import write_accounting
from ldpbeam.transforms.outputs.names import ACCOUNTING as ACCOUNTING
from ldpbeam.transforms.outputs.names import ESTIMATES as ESTIMATES
from ldpbeam.transforms.outputs.names import RUN as RUN
from ldpbeam.transforms.outputs.names import RUNS as RUNS
from ldpbeam.transforms.outputs.names import STATISTICS as STATISTICS
from ldpbeam.transforms.outputs.names import TABLES
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.storage import half_written, literal, open_raw, read_json, write_bytes

#: The version of the layout of output folders, in ``run.json``; a folder that does not say has version 1.
FORMAT = 1
#: The folder of each kind of table, where runs share an output folder.
TABLE_FOLDERS = {kind: (TABLES, kind) for kind in SCHEMAS}
LEDGER = "ledger.json"
#: The folder of files of what users spent, for the ledger over periods; the folder of their parts while a run
#: writes; the sums in the first; and the file of the ledger itself.
LEDGER_FOLDER, LEDGER_PARTS, LEDGER_SUMS = "ledger", ".ledger", "sums.arrow"
LEDGER_PERIODS = "ledger_periods.json"
FIT = "fit.json"
#: In the folder of a stream's run: the tests of fit, a file for each attribute and window.
FIT_FOLDER = "fit"
STUDY = "study.json"
DEAD_LETTERS = "dead_letters"
WORKER_ESTIMATES = ".estimates.from_workers.jsonl"


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
        raise UserError(f"--output {output or repr(output)}: {without_number(str(error))}") from None


def files_in(folder: str, pattern: str) -> list[Any]:
    """Beam's metadata of the files in a folder that match a pattern; the folder's name is taken literally.

    Raises:
        PermissionError: if the folder may not be read.
    """
    return matching(FileSystems.join(literal(folder), pattern))


def write_json(path: str, value: object) -> None:
    """Write a value as JSON; the file appears whole or not at all."""
    write_bytes(path, json.dumps(value, indent=2).encode() + b"\n")


def keep_study(job: Output) -> None:
    """Write the study beside the outputs, so that they can be read without its file."""
    if job.study.text:
        write_bytes(job.path(STUDY), f"{job.study.text}\n".encode())


def clear(job: Output) -> None:
    """Delete the outputs of earlier runs in the folder, scheduled or not; other files stay."""
    whole = [f"{ESTIMATES}.jsonl", *(f"{kind}.parquet" for kind in TABLE_FOLDERS)]
    ours = [job.path(name) for name in (*whole, ACCOUNTING, LEDGER, LEDGER_PERIODS, FIT, STUDY)]
    for folder, pattern in (
        (STATISTICS, "*.avro"),
        (DEAD_LETTERS, "*.avro"),
        (ESTIMATES, "*.jsonl"),
        (RUNS, "*/*.json"),
        (RUNS, f"*/{DEAD_LETTERS}/*.avro"),
        (LEDGER_FOLDER, "*.arrow"),
        (LEDGER_PARTS, "*.arrow"),
        (RUNS, f"*/{LEDGER_FOLDER}/*.arrow"),
    ):
        ours += [entry.path for entry in files_in(job.path(folder), pattern)]
    for kind in TABLE_FOLDERS:
        ours += [entry.path for entry in files_in(job.path(*TABLE_FOLDERS[kind]), "*.parquet")]
    delete(ours)


def sweep(folders: Sequence[str], run: str = "") -> None:
    """Delete the files that killed workers left half written.

    Args:
        folders: the folders that the run wrote to; its pipeline has finished.
        run: text in the names of this run's files, where other runs write to the same folders now.
    """
    delete(
        [
            entry.path
            for folder in folders
            for entry in files_in(folder, f".*{run}*")
            if half_written(_name(entry))
        ]
    )


def delete(paths: Sequence[str]) -> None:
    """Delete those of the files that exist."""
    FileSystems.delete([literal(path) for path in paths if FileSystems.exists(path)])


def names_in(folder: str, pattern: str) -> list[str]:
    """The sorted names, without the folder, of the files in a folder that match a pattern."""
    return sorted(_name(entry) for entry in files_in(folder, pattern))


def folder_of(entry: Any) -> str:
    """The name of the folder that a file lies in."""
    return str(FileSystems.split(FileSystems.split(entry.path)[0])[1])


def _name(entry: Any) -> str:
    return str(FileSystems.split(entry.path)[1])


def snapshots_of(job: Output) -> Iterator[Snapshot]:
    """The snapshots that a run wrote, file by file in the order of their names.

    Raises:
        UserError: if one of the files is damaged.
    """
    for name in names_in(job.path(STATISTICS), "*.avro"):
        yield from snapshots_in(job.path(STATISTICS, name))


def windows_of(job: Output) -> Iterator[list[Snapshot]]:
    """The snapshots of each attribute and window that a run wrote.

    Raises:
        UserError: if one of the files is damaged.
    """
    by_window = itertools.groupby(snapshots_of(job), lambda snapshot: (snapshot.attribute, snapshot.window))
    return (list(snapshots) for _, snapshots in by_window)


def snapshot_counts(job: Output) -> Iterator[tuple[str, int]]:
    """(attribute, number of snapshots) of each file of :func:`snapshots_of`, from its header.

    A file that is damaged is left out; :func:`snapshots_of` says what is wrong with it.
    """
    for name in names_in(job.path(STATISTICS), "*.avro"):
        with contextlib.suppress(BeamIOError, OSError, ValueError):
            with open_raw(job.path(STATISTICS, name)) as stream:
                metadata = read_header(stream).metadata
            yield metadata[ATTRIBUTE], int(metadata[SNAPSHOTS])


def snapshots_in(path: str) -> Iterator[Snapshot]:
    """The snapshots in a file.

    Raises:
        UserError: if the file cannot be read, is damaged, or holds no snapshots; it names the file.
    """
    with naming(path):
        try:
            with open_raw(path) as stream:
                yield from read_snapshots(stream)
        except IsADirectoryError:
            raise UserError(f"{path}: a folder, not a file; to name the files in it, add /*.avro") from None


def run_name(study: Study, inputs: Sequence[str], *options: int | str | None) -> str:
    """The name of a run: a hash of the study, the input, and the options that change results."""
    text = json.dumps([study.fingerprint, sorted(inputs), *options])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_accounting(job: Output) -> dict[str, Any]:
    """The accounting that the pipeline wrote; without input all counts are 0, and it is written here."""
    path = job.path(ACCOUNTING)
    if not FileSystems.exists(path):
        write_accounting(path)
    counts: dict[str, Any] = read_json(path)
    return counts

"""What a run writes into its output folder: its name, the files that it replaces, and its statistics."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from ldpbeam.errors import UserError, naming
from ldpbeam.folders.output import (
    ACCOUNTING,
    DEAD_LETTERS,
    ESTIMATES,
    FIT,
    LEDGER,
    LEDGER_FOLDER,
    LEDGER_PARTS,
    LEDGER_PERIODS,
    RUNS,
    STATISTICS,
    STUDY,
    Output,
    files_in,
    names_in,
)
from ldpbeam.schemas.encodings.avro_headers import read_header
from ldpbeam.schemas.outputs.snapshots import ATTRIBUTE, SNAPSHOTS, Snapshot, read_snapshots
from ldpbeam.schemas.outputs.tables import SCHEMAS
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import TABLES
from ldpbeam.transforms.outputs.snapshots import write_window
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.sources.files import entries_of
from ldpbeam.transforms.storage import (
    delete,
    exists,
    half_written,
    open_raw,
    read_json,
    split,
    write_bytes,
    write_json,
)

#: The folder of each kind of table, if runs share an output folder.
TABLE_FOLDERS = {kind: (TABLES, kind) for kind in SCHEMAS}


def keep_study(job: Output) -> None:
    """Write the study beside the outputs, so that these can be read without the study's file."""
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
        *((f"{TABLES}/{kind}", "*.parquet") for kind in TABLE_FOLDERS),
    ):
        ours += [entry.path for entry in files_in(job.path(folder), pattern)]
    delete(ours)


def sweep(folders: Sequence[str], run: str = "") -> None:
    """Delete the files that killed workers left half written.

    Args:
        folders: the folders that the run wrote to; its pipeline has finished.
        run: text in the names of this run's files, if other runs are writing to the same folders.
    """
    delete(
        [
            entry.path
            for folder in folders
            for entry in files_in(folder, f".*{run}*")
            if half_written(split(entry.path)[1])
        ]
    )


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

    A damaged file is left out; :func:`snapshots_of` raises an error about it.
    """
    for name in names_in(job.path(STATISTICS), "*.avro"):
        with contextlib.suppress(OSError, ValueError):
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


def read_all(patterns: Sequence[str]) -> list[tuple[str, Snapshot]]:
    """(path, snapshot) for every snapshot in the files that the patterns match.

    Raises:
        UserError: if a pattern matches no file, or a file is damaged or holds no snapshots.
    """
    parts = []
    for pattern, entries in zip(patterns, entries_of(patterns), strict=True):
        if not entries:
            raise UserError(f"--statistics {pattern}: there is no such file")
        for path in sorted(entry.path for entry in entries):
            parts += [(path, snapshot) for snapshot in snapshots_in(path)]
    return parts


def write_all(output: Output, snapshots: Sequence[Snapshot]) -> None:
    """Write the snapshots in the order of a roll-up, one file per attribute and window."""
    for _, of_file in itertools.groupby(snapshots, lambda snapshot: (snapshot.attribute, snapshot.window)):
        write_window(output.study, output.path(STATISTICS), output.run, list(of_file))


def run_name(study: Study, inputs: Sequence[str], *options: int | str | None) -> str:
    """The name of a run: a hash of the study, the input, and the options that change results."""
    text = json.dumps([study.fingerprint, sorted(inputs), *options])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_accounting(job: Output) -> dict[str, Any]:
    """The accounting that the pipeline wrote; without input, one with counts of 0, which is written here."""
    path = job.path(ACCOUNTING)
    if not exists(path):
        write_json(path, accounting(()))
    counts: dict[str, Any] = read_json(path)
    return counts

"""Damaged input in a batch run: the run ends without estimates, or marks its estimates as incomplete."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NoReturn

import fastavro

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.runs.inputs import NOT_SHOWN
from ldpbeam.pipelines.runs.output import (
    DEAD_LETTERS,
    STATISTICS,
    WORKER_ESTIMATES,
    delete,
    files_in,
    names_in,
    snapshots_in,
)
from ldpbeam.transforms.outputs.snapshots import write_window
from ldpbeam.transforms.sources.read import DAMAGE
from ldpbeam.transforms.storage import open_raw
from ldpbeam.untrusted import shown

#: The error message names at most this many damaged files, each with the first damage in it.
MOST_NAMED = 10


def stop_for_damage(job: BatchJob, damaged_files: int) -> NoReturn:
    """End a run that found damaged input, and delete its snapshots and its estimates.

    Args:
        job: the run; its pipeline has finished.
        damaged_files: how many files were damaged.

    Raises:
        UserError: always; it names the first damaged files, with the place and the problem in each.
    """
    delete([entry.path for entry in files_in(job.path(STATISTICS), "*.avro")])
    delete([job.path(WORKER_ESTIMATES)])
    sentences = list(itertools.islice(_sentences(job), MOST_NAMED))
    more = damaged_files - len(sentences)
    if more:
        sentences.append(f"... and {more:,} more")
    raise UserError(
        "\n".join(sentences) + "\nDamaged files: how many reports they lost is not known, so nothing was "
        "estimated; replace them, leave them out of --input, or estimate from the rest with "
        "--on-bad-file skip"
    )


def _sentences(job: BatchJob) -> Iterator[str]:
    """One sentence for each damaged file with its first damage, ordered by path."""
    formats = {file.path: file.format for file in job.files}
    first: dict[str, tuple[int, str]] = {}
    for name in names_in(job.path(DEAD_LETTERS), "*.avro"):
        with open_raw(job.path(DEAD_LETTERS, name)) as stream:
            for letter in fastavro.reader(stream):
                if letter["reason"] in DAMAGE:
                    damage = -1 if letter["position"] is None else letter["position"], letter["detail"]
                    first[letter["file"]] = min(damage, first.get(letter["file"], damage))
    for path, (position, detail) in sorted(first.items()):
        unit = "row group" if formats.get(path) == "parquet" else "byte"
        yield f"{shown(path)}{f', {unit} {position:,}' if position >= 0 else ''}: {detail or NOT_SHOWN}"


def mark_incomplete(job: BatchJob) -> None:
    """Mark every snapshot of a run as incomplete, since any window may have lost reports."""
    for name in names_in(job.path(STATISTICS), "*.avro"):
        snapshots = [
            dataclasses.replace(snapshot, complete=False)
            for snapshot in snapshots_in(job.path(STATISTICS, name))
        ]
        write_window(job.study, job.path(STATISTICS), job.run, snapshots)

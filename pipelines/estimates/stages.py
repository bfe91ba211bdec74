"""The steps of ``ldpbeam estimate``: find the input, run the pipeline, solve snapshots, write estimates."""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from ldpbeam.pipelines.errors import UserError, end_of, machine_problem
from ldpbeam.pipelines.estimates.processes import compute_all
from ldpbeam.pipelines.estimates.progress import solving_progress
from ldpbeam.pipelines.estimates.published import Size, chosen, size_of, smallest
from ldpbeam.pipelines.estimates.solve import sort_key
from ldpbeam.pipelines.graphs.batch import BatchJob, build
from ldpbeam.pipelines.graphs.engines import Engine
from ldpbeam.pipelines.runs.output import (
    ACCOUNTING,
    ESTIMATES,
    STATISTICS,
    WORKER_ESTIMATES,
    Output,
    names_in,
    snapshot_counts,
    snapshots_of,
)
from ldpbeam.pipelines.terminal import shown
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.schemas.files.local_files import refuse_special
from ldpbeam.schemas.outputs.estimates import (
    SolvedEstimate,
    estimate_fields,
    solved_estimate,
    write_json_lines,
)
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.reports import stamps
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.accounting import write_accounting
from ldpbeam.transforms.outputs.estimates import write_run_tables
from ldpbeam.transforms.reports import emitted
from ldpbeam.transforms.reports.dead_letters import SHORTEST_KEY, Disclosure
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.storage import literal, read_json, read_json_lines, replacing

#: Replaces the text of a problem, which may repeat what a user-id key hides.
STAMP_NOT_SHOWN = "its stamp differs from the study, and is not shown, because a user-id key hides the input"
NOT_SHOWN = "its problem is not shown, because a user-id key hides what is in the input"


def find_input(
    patterns: Sequence[str], on_bad_file: str, *, hidden: bool = False
) -> tuple[tuple[files.ReportFile, ...], tuple[files.BadFile, ...]]:
    """Find the input files: (files of reports, malformed files).

    Args:
        patterns: names or globs.
        on_bad_file: ``stop`` or ``skip``: what to do about malformed files.
        hidden: whether user ids are hidden; problems, which may repeat text of the input, are then not shown.

    Raises:
        UserError: if a pattern matches no file, a name is not UTF-8, or a file is malformed and not skipped.
    """
    try:
        matched = files.match(patterns)
        for path, _ in matched:
            if not _is_text(path):
                raise UserError(f"{path}: its name is not UTF-8; rename it")
        good, bad = files.sniff_all(matched)
    except FileNotFoundError as error:
        raise UserError(str(error)) from None
    if bad and on_bad_file != "skip":
        problems = "\n".join(f"{entry.path}: {NOT_SHOWN if hidden else entry.problem}" for entry in bad[:10])
        more = f"\n... and {len(bad) - 10} more" if len(bad) > 10 else ""
        raise UserError(
            f"{problems}{more}\nThese are no files of reports; leave them out of --input, or count each "
            "as a dead letter with --on-bad-file skip"
        )
    return tuple(good), tuple(bad)


def check_stamps(
    found: Iterable[files.ReportFile],
    study: Study,
    attribute: str | None,
    service: str | None,
    *,
    hidden: bool = False,
) -> None:
    """Check that the reports of each file were made as the study says, as far as its stamp tells.

    Args:
        found: the files.
        study: the study.
        attribute: the attribute of reports that do not name one.
        service: the service of reports that do not name one.
        hidden: whether user ids are hidden; what stamps say, which may be anything, is then not shown.

    Raises:
        UserError: if a stamp differs from the study.
    """
    problems = [
        f"{file.path}: {STAMP_NOT_SHOWN if hidden else problem}"
        for file in found
        if (problem := stamps.problem(study, dict(file.metadata), attribute, service))
    ]
    if problems:
        more = f"\n... and {len(problems) - 10} more" if len(problems) > 10 else ""
        text = "\n".join(problems[:10])
        raise UserError(
            f"{text}{more}\nName the study that the clients ran, or leave these files out of --input"
        )


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8; Python represents other bytes as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def run_name(study: Study, inputs: Sequence[str], *options: int | str | None) -> str:
    """The name of a run: a hash of the study, the input, and the options that change results."""
    text = json.dumps([study.fingerprint, sorted(inputs), *options])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def assemble(job: BatchJob, engine: Engine, beam_arguments: Sequence[str]) -> beam.Pipeline:
    """Build the pipeline of a run on an engine, ready to run.

    Raises:
        UserError: if Beam refuses an option.
    """
    pipeline = engine.pipeline(beam_arguments)
    build(pipeline, job)
    return pipeline


def run_pipeline(pipeline: beam.Pipeline, console: Console, here: bool) -> None:
    """Run the pipeline to its end.

    Args:
        pipeline: the pipeline that :func:`assemble` built.
        console: where progress is shown.
        here: whether the workers are in this process; then errors of our own code are raised as they are.

    Raises:
        UserError: if an engine elsewhere fails, its job server does not start, or a worker meets an error of
            the machine, such as a full disk.
    """
    try:
        with _reading_progress(console):
            pipeline.run().wait_until_finish()
    except Exception as error:  # each engine has errors of its own
        problem = machine_problem(error)
        if problem is not None:
            raise UserError(problem) from None
        if here and not isinstance(error, FlinkError):
            raise
        raise UserError(f"the engine failed: {end_of(error)}") from None


@contextmanager
def _reading_progress(console: Console) -> Iterator[None]:
    """Show how many reports workers in this process have read so far, if the console is a terminal."""
    if not console.is_terminal:
        yield
        return
    before, done = emitted.read_here, threading.Event()
    with console.status("reading reports") as status:

        def show() -> None:
            while not done.wait(0.5):
                status.update(f"{emitted.read_here - before:,} reports read")

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def read_accounting(job: Output) -> dict[str, Any]:
    """The accounting that the pipeline wrote; without input all counts are 0, and it is written here."""
    path = job.path(ACCOUNTING)
    if not FileSystems.exists(path):
        write_accounting(path)
    found: dict[str, Any] = read_json(path)
    return found


def estimate_all(
    job: Output, console: Console, on: str = "driver", processes: int | None = None
) -> tuple[list[SolvedEstimate], dict[str, int]]:
    """(every estimate of the run, in the order of :func:`sort_key`; counts of what is not estimated).

    Workers have counted what they did not estimate in the accounting.

    Args:
        job: the run; its snapshots are written.
        console: where progress is shown.
        on: ``driver`` to compute them here, ``worker`` to read what the pipeline's workers computed.
        processes: how many processes compute them here; None for as many as there are cores.

    Raises:
        UserError: if a process was killed.
    """
    counts: Counter[str] = Counter()
    found = _from_workers(job) if on == "worker" else _on_driver(job, console, processes, counts)
    return sorted(found, key=lambda solved: sort_key(job.study, solved)), {**+counts}


def write_estimates(job: Output, estimates: Sequence[SolvedEstimate]) -> None:
    """Write the estimates of a run: JSON lines, and two tables in Parquet."""
    records = (estimate_fields(job.study, solved, job.run) for solved in estimates)
    with replacing(job.path(f"{ESTIMATES}.jsonl")) as stream:
        write_json_lines(stream, records)
    write_run_tables(job.study, job.output, job.run, estimates)


def _from_workers(job: Output) -> list[SolvedEstimate]:
    path = job.path(WORKER_ESTIMATES)
    if not FileSystems.exists(path):
        return []
    found = [solved_estimate(record) for record in read_json_lines(path)]
    FileSystems.delete([literal(path)])
    return found


def _on_driver(
    job: Output, console: Console, processes: int | None, counts: Counter[str]
) -> list[SolvedEstimate]:
    study, least = job.study, dict[str, Size]()
    if len(names_in(job.path(STATISTICS), "*.avro")) > study.publish.windows:
        sizes: dict[str, list[Size]] = {}
        for snapshots in _windows(job):
            sizes.setdefault(snapshots[0].attribute, []).append(size_of(snapshots))
        least = smallest(study, sizes)

    @functools.cache
    def total() -> int:
        """At most so many: those that are not estimated are among them."""
        return sum(
            snapshots * len(study.described(attribute).estimates)
            for attribute, snapshots in snapshot_counts(job)
        )

    def estimated() -> Iterator[Snapshot]:
        for snapshots in _windows(job):
            picked = chosen(study, snapshots, least)
            counts.update(picked.counts)
            yield from picked.snapshots

    with solving_progress(console, total) as progress:
        return compute_all(study, estimated(), total, progress, processes)


def _windows(job: Output) -> Iterator[list[Snapshot]]:
    """The snapshots of each attribute and window of a run."""
    for _, own in itertools.groupby(
        snapshots_of(job), lambda snapshot: (snapshot.attribute, snapshot.window)
    ):
        yield list(own)


def disclosure_of(options: argparse.Namespace) -> Disclosure:
    """What outputs may reveal about inputs, from a command's options.

    Raises:
        UserError: if the key cannot be read, or if bad records are kept although user ids are hidden.
    """
    key = read_key(options.user_id_key_file)
    if key is not None and options.keep_bad_records:
        raise UserError(
            "--keep-bad-records: bad records hold user ids as they came, which --user-id-key-file is to "
            "hide; leave one of the two out"
        )
    return Disclosure(options.keep_bad_records, key)


def read_key(path: str | None) -> bytes | None:
    """The HMAC key in a file; None without a path. It warns if every account can read the file.

    Raises:
        UserError: if the file cannot be read, or is shorter than 16 bytes.
    """
    if path is None:
        return None
    try:
        refuse_special(path)
        key = Path(path).read_bytes()
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = f"; openssl rand -out {path} 32 makes a new key, to be kept as long as its outputs"
        raise UserError(f"--user-id-key-file {path}: {error.strerror or error}{hint}") from None
    if Path(path).stat().st_mode & 0o004:
        print(
            f"ldpbeam: warning: --user-id-key-file {shown(path)}: every account of this machine can read "
            "this key, and guess user ids with it: chmod 600",
            file=sys.stderr,
        )
    if len(key) < SHORTEST_KEY:
        raise UserError(
            f"--user-id-key-file {path}: a key has {SHORTEST_KEY} bytes or more, found {len(key)}"
        )
    return key

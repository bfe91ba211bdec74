"""``ldpbeam estimate``: reports in files to estimates, in one bounded run."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner, create_runner
from rich.console import Console

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.solve import Watch, solve, sort_key
from ldpbeam.pipelines.stream import (
    ACCOUNTING,
    DEAD_LETTERS,
    STATISTICS,
    WORKER_ESTIMATES,
    BatchJob,
    build,
)
from ldpbeam.runners import direct
from ldpbeam.schemas.estimates import write_avro, write_json_lines
from ldpbeam.schemas.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.study_file import fingerprint
from ldpbeam.schemas.times import rfc3339
from ldpbeam.transforms import counts, files
from ldpbeam.transforms.counts import accounting
from ldpbeam.transforms.write import make_folder, read_all, replacing, write_bytes

ESTIMATES = "estimates"
LEDGER = "ledger.json"
RUN = "run.json"


def find_input(
    patterns: Sequence[str], on_bad_file: str
) -> tuple[tuple[files.ReportFile, ...], tuple[files.BadFile, ...]]:
    """The files that patterns name.

    Raises:
        UserError: if a pattern names none, or a file is no file of reports and is not to be skipped.
    """
    try:
        good, bad = files.sniff_all(files.match(patterns))
    except FileNotFoundError as error:
        raise UserError(str(error)) from None
    if bad and on_bad_file != "skip":
        shown = "\n".join(f"{entry.path}: {entry.problem}" for entry in bad[:10])
        more = f"\n... and {len(bad) - 10} more" if len(bad) > 10 else ""
        raise UserError(
            f"{shown}{more}\nThese are no files of reports; leave them out of --input, or count each "
            "as a dead letter with --on-bad-file skip"
        )
    return tuple(good), tuple(bad)


def run_name(study: Study, inputs: Sequence[str], *options: int | str | None) -> str:
    """A name that the same study, input and options that change results always give."""
    text = json.dumps([fingerprint(study), sorted(inputs), *options])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def files_in(folder: str, pattern: str) -> list[Any]:
    """What a folder holds of a pattern; the folder's own name may look like one."""
    place = FileSystems.join(files.literal(folder), pattern)
    found: list[Any] = FileSystems.match([place])[0].metadata_list
    return found


def prepare_output(job: BatchJob, inputs: Sequence[str], overwrite: bool) -> None:
    """An output folder that holds nothing but what this run will write.

    Raises:
        UserError: if it holds another run's outputs, or files that no run wrote.
    """
    if Path(job.output).is_file():
        raise UserError(f"--output {job.output}: this is a file, and a folder is needed")
    marker = job.path(RUN)
    entries = files_in(job.output, "*")
    if FileSystems.exists(marker):
        with read_all(marker) as stream:
            before = json.load(stream)
        if before.get("run") != job.run and not overwrite:
            raise UserError(
                f"--output {job.output}: it holds the outputs of another run (of study "
                f"{before.get('study')!r}); name another folder, or replace them with --overwrite"
            )
    elif entries and not overwrite:
        raise UserError(
            f"--output {job.output}: the folder is not empty, and not written by ldpbeam estimate; "
            "name another one, or write beside what is there with --overwrite"
        )
    ours = [job.path(name) for name in (f"{ESTIMATES}.jsonl", f"{ESTIMATES}.avro", ACCOUNTING, LEDGER)]
    ours += [
        entry.path for folder in (STATISTICS, DEAD_LETTERS) for entry in files_in(job.path(folder), "*.avro")
    ]
    FileSystems.delete([files.literal(path) for path in ours if FileSystems.exists(path)])
    make_folder(job.output)
    about = {"run": job.run, "study": job.study.study, "study_fingerprint": fingerprint(job.study)}
    write_bytes(marker, json.dumps({**about, "input": list(inputs)}, indent=2).encode() + b"\n")


def engine(name: str) -> PipelineRunner:
    """The engine of a name.

    Raises:
        UserError: if there is none.
    """
    if name == direct.NAME:
        return direct.runner()
    try:
        return create_runner(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise UserError(f"--runner {name}: {error}") from None


def run_stream(
    job: BatchJob, runner: PipelineRunner, beam_arguments: Sequence[str], console: Console
) -> None:
    """Run the stream to its end."""
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(list(beam_arguments)))
    build(pipeline, job)
    with _reading_progress(console):
        pipeline.run().wait_until_finish()


@contextmanager
def _reading_progress(console: Console) -> Iterator[None]:
    """Reports read so far, where a terminal is attached and the workers are in this process."""
    if not console.is_terminal:
        yield
        return
    before, done = counts.read_here, threading.Event()
    with console.status("reading reports") as status:

        def show() -> None:
            while not done.wait(0.5):
                status.update(f"{counts.read_here - before:,} reports read")

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def read_accounting(job: BatchJob) -> dict[str, Any]:
    """The accounting the stream wrote; all zeros where there was no input."""
    path = job.path(ACCOUNTING)
    if not FileSystems.exists(path):
        write_bytes(path, json.dumps(accounting([]), indent=2).encode() + b"\n")
    with read_all(path) as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def snapshots_of(job: BatchJob) -> Iterator[Snapshot]:
    """The snapshots the stream wrote."""
    for entry in sorted(files_in(job.path(STATISTICS), "*.avro"), key=lambda entry: str(entry.path)):
        with read_all(entry.path) as stream:
            yield from read_snapshots(stream)


def estimate_all(job: BatchJob, console: Console) -> list[dict[str, Any]]:
    """Every estimate of the run, written to ``estimates.jsonl`` and ``estimates.avro``."""
    records = _from_workers(job) if job.estimate_on == "worker" else _on_driver(job, console)
    records.sort(key=lambda record: sort_key(job.study, record))
    for record in records:
        record["run"] = job.run
    with replacing(job.path(f"{ESTIMATES}.jsonl")) as stream:
        write_json_lines(stream, records)
    with replacing(job.path(f"{ESTIMATES}.avro")) as stream:
        write_avro(stream, records, bytes.fromhex(fingerprint(job.study)))
    return records


def _from_workers(job: BatchJob) -> list[dict[str, Any]]:
    path = job.path(WORKER_ESTIMATES)
    if not FileSystems.exists(path):
        return []
    with read_all(path) as stream:
        records = [json.loads(line) for line in stream.read().splitlines()]
    FileSystems.delete([files.literal(path)])
    return records


def _on_driver(job: BatchJob, console: Console) -> list[dict[str, Any]]:
    records = []
    with _solving_progress(console) as watch:
        for snapshot in snapshots_of(job):
            records += solve(job.study, snapshot, watch)
    return records


@contextmanager
def _solving_progress(console: Console) -> Iterator[Watch | None]:
    if not console.is_terminal:
        yield None
        return
    with console.status("estimating") as status:

        def watch(name: str) -> Any:
            def progress(iteration: int, likelihood: float) -> None:
                if iteration % 50 == 0:
                    status.update(f"{name}: iteration {iteration}, log-likelihood {likelihood:,.1f}")

            return progress

        yield watch


def write_ledger(job: BatchJob) -> list[dict[str, Any]]:
    """How much epsilon how many users spent a window, from the statistics alone.

    Reports of one user to several services compose; those of several attributes are not joined, so
    their sum is not known. Users over the study's cap are counted.
    """
    entries = []
    for snapshot in snapshots_of(job):
        if snapshot.statistic.users is None:
            continue
        attribute = job.study.attribute(snapshot.attribute)
        spent: dict[float, int] = {}
        for mask, moments in snapshot.statistic.moments.items():
            budgets = [v.mechanism.epsilon for i, v in enumerate(attribute.versions) if mask >> i & 1]
            total = round(sum(budgets), 9)
            spent[total] = spent.get(total, 0) + moments.users
        cap = job.study.epsilon_cap
        entries.append(
            {
                "attribute": snapshot.attribute,
                "group": snapshot.group,
                "window_start": rfc3339(snapshot.window[0]) if snapshot.window else None,
                "window_end": rfc3339(snapshot.window[1]) if snapshot.window else None,
                "spent": [{"epsilon": e, "users": n} for e, n in sorted(spent.items())],
                "epsilon_cap": cap,
                "users_over_cap": sum(n for e, n in spent.items() if cap is not None and e > cap),
            }
        )
    write_bytes(job.path(LEDGER), json.dumps(entries, indent=1).encode() + b"\n")
    return entries


def read_key(path: str | None) -> bytes | None:
    """The HMAC key in a file, None where there is none.

    Raises:
        UserError: if the file cannot be read, or is shorter than 16 bytes.
    """
    if path is None:
        return None
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"--user-id-key-file: {error}") from None
    if len(key) < 16:
        raise UserError(f"--user-id-key-file {path}: a key has 16 bytes or more, found {len(key)}")
    return key

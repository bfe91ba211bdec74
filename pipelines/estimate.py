"""``ldpbeam estimate``: reports in files to estimates, in one bounded run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
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
from ldpbeam.schemas.compiled import attribute_of
from ldpbeam.schemas.estimates import write_avro, write_json_lines
from ldpbeam.schemas.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.study_file import fingerprint
from ldpbeam.schemas.times import rfc3339
from ldpbeam.transforms import counts, files
from ldpbeam.transforms.counts import accounting
from ldpbeam.transforms.write import make_folder, opened, replacing, write_bytes

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


def check_output(job: BatchJob, overwrite: bool) -> None:
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


def _marker(job: BatchJob) -> dict[str, Any] | None:
    """What the last run in the output folder said of itself; None if there was none, or nothing legible."""
    if not FileSystems.exists(job.path(RUN)):
        return None
    with opened(job.path(RUN)) as stream, contextlib.suppress(ValueError):
        found = json.load(stream)
        return found if isinstance(found, dict) else None
    return None


def claim_output(job: BatchJob, inputs: Sequence[str]) -> None:
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


def assemble(job: BatchJob, runner: str, beam_arguments: Sequence[str]) -> beam.Pipeline:
    """The whole pipeline on an engine, ready to run.

    Raises:
        UserError: if there is no such engine, or it lacks an option.
    """
    try:
        engine = direct.runner() if runner == direct.NAME else create_runner(runner)
        if not isinstance(engine, PipelineRunner):
            raise TypeError("this is no runner")
        pipeline = beam.Pipeline(runner=engine, options=PipelineOptions(list(beam_arguments)))
    except (ValueError, TypeError, ImportError, AttributeError, RuntimeError) as error:
        raise UserError(f"--runner {runner}: {error}") from None
    build(pipeline, job)
    return pipeline


def run_stream(pipeline: beam.Pipeline, console: Console) -> None:
    """Run the stream to its end."""
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
    with opened(path) as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def snapshots_of(job: BatchJob) -> Iterator[Snapshot]:
    """The snapshots the stream wrote."""
    for entry in sorted(files_in(job.path(STATISTICS), "*.avro"), key=lambda entry: str(entry.path)):
        with opened(entry.path) as stream:
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
    with opened(path) as stream:
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

    Reports of one user to several services compose; those of several attributes are not joined, so their sum
    is not known. Neither are those of one user in several groups or on several coordinates of a vector, nor
    reports dropped as duplicates: with any of these, more may have been spent than is said here. Users over
    the study's cap are counted.
    """
    spent: dict[tuple[Any, ...], dict[tuple[float, float], int]] = {}
    for snapshot in snapshots_of(job):
        if snapshot.statistic.users is None:
            continue
        attribute = job.study.attribute(snapshot.attribute)
        # The coordinates of a vector share an entry: each user's report is of one of them.
        key = (attribute_of(snapshot.attribute), snapshot.group, snapshot.window, snapshot.other_groups > 0)
        own = spent.setdefault(key, {})
        for mask, moments in snapshot.statistic.moments.items():
            answered = [v.mechanism for i, v in enumerate(attribute.versions) if mask >> i & 1]
            total = round(sum(m.epsilon for m in answered), 9), sum(m.delta for m in answered)
            own[total] = own.get(total, 0) + moments.users
    cap = job.study.epsilon_cap
    entries = [
        {
            "attribute": name,
            "group": group,
            "window_start": rfc3339(window[0]) if window else None,
            "window_end": rfc3339(window[1]) if window else None,
            "spent": [
                {"epsilon": e, **({"delta": d} if d else {}), "users": n} for (e, d), n in sorted(own.items())
            ],
            "epsilon_cap": cap,
            "users_over_cap": sum(n for (e, _), n in own.items() if cap is not None and e > cap),
        }
        for (name, group, window, _), own in spent.items()
    ]
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

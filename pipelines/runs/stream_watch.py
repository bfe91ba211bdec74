"""Watching a stream while it runs, and stopping it, with workers in this process or elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from grpc import RpcError

from ldpbeam.errors import INTERRUPTED, UserError, end_of, machine_problem
from ldpbeam.folders.output import ESTIMATES, STATISTICS, files_in
from ldpbeam.folders.read import read_estimates
from ldpbeam.interrupts import once_per_request
from ldpbeam.log_lines import JsonHandler, lines
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs.checkpoints import remember
from ldpbeam.pipelines.runs.stream_runs import read_run_accounting
from ldpbeam.printing import fail, note
from ldpbeam.runners.engines import StreamResult
from ldpbeam.schemas.outputs.snapshots import read_snapshots
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.panes import PANES, pane_fields, pane_line
from ldpbeam.transforms.reports import emitted
from ldpbeam.transforms.sources import reader
from ldpbeam.transforms.state.journal import all_ended, ask_to_stop
from ldpbeam.transforms.storage import open_raw
from ldpbeam.transforms.windows.timers import in_words, waiting_windows
from ldpbeam.untrusted import cut_short

#: Seconds between two lines about the rate.
RATE_SECONDS = 10.0
#: What is called when an engine has started: the run, whether its workers are here, and the engine's handle.
Watch = Callable[[StreamJob, bool, Any], None]
_LOST_HERE = (
    "ended before it could stop: reports in open windows that were acknowledged are lost, and the next run "
    "into this folder marks those windows incomplete"
)
_LOST_NOTHING = (
    "ended before it could stop: the next run into this folder goes on with this one, and reads the messages "
    "of open windows again"
)
_LOST_ELSEWHERE = "this command has ended; the job has been asked to stop, and will stop by itself"


def submit(pipeline: beam.Pipeline) -> str | None:
    """Submit a stream to an engine that runs it without this process.

    Returns:
        The engine's name for the job; None if no job was started, as in a dry run and for a template.

    Raises:
        UserError: if the engine refuses the job.
    """
    try:
        result = pipeline.run()
    except Exception as error:  # each engine has errors of its own
        raise UserError(f"the engine refused the job: {end_of(error)}") from None
    return result.job_id() if getattr(result, "has_job", False) else None


def run_until_stopped(
    pipeline: beam.Pipeline, job: StreamJob, here: bool, watch: Watch | None = None
) -> str | None:
    """Run a stream until it ends; print its panes and its rate meanwhile.

    The first request (SIGINT or SIGTERM) asks the stream to stop. The second ends this process.

    Args:
        pipeline: the pipeline that :func:`ldpbeam.pipelines.graphs.stream.build` wired.
        job: the run that the pipeline was built from.
        here: whether the workers are in this process; if not, the output folder shows what they do.
        watch: what is called when the engine has started.

    Returns:
        The savepoint with which somebody ended the job on Flink; None if it ended otherwise.

    Raises:
        UserError: if the engine fails.
    """
    done = threading.Event()
    ask = partial(ask_to_stop, job.output, job.run)
    printer = threading.Thread(
        target=_print_rate_here if here else _print_rate_elsewhere, args=(job, done), daemon=True
    )
    _keep_quiet_after(done)
    with _panes_shown(), _engine_quiet(), _stopped_by(ask, _lost(job, here)):
        result = pipeline.run()
        if isinstance(result, StreamResult):
            result.on_checkpoint = partial(remember, job)
            result.written = partial(_written_at_the_end, job)
        if watch is not None:
            watch(job, here, result)
        printer.start()
        try:
            result.wait_until_finish()
        except (RuntimeError, RpcError) as error:
            if isinstance(result, StreamResult) and (savepoint := result.savepoint()) is not None:
                return savepoint
            raise UserError(
                "the engine failed; reports that were not acknowledged are read again: "
                f"{machine_problem(error) or end_of(error)}"
            ) from None
        finally:
            done.set()
            printer.join()
    return None


def _written_at_the_end(job: StreamJob) -> object:
    """The statistics that a run has written, if all its readers have ended; None while one of them reads."""
    # Files that cannot be read now are read next time.
    with contextlib.suppress(BeamIOError, OSError, ValueError):
        if all_ended(job.output, job.run, job.readers):
            entries = files_in(job.path(STATISTICS), f"*.{job.run}.avro")
            return {(entry.path, entry.last_updated_in_seconds) for entry in entries}
    return None


def _lost(job: StreamJob, here: bool) -> str:
    """What the command prints when the user asks a second time to stop."""
    if not here:
        return _LOST_ELSEWHERE
    return _LOST_HERE if job.replay is None else _LOST_NOTHING


class _Lines(logging.Formatter):
    """Lines of a log, which may repeat what a server or a file system said."""

    def format(self, record: logging.LogRecord) -> str:
        return cut_short(super().format(record))


@contextlib.contextmanager
def _panes_shown() -> Iterator[None]:
    handler: logging.Handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Lines("%(message)s"))
    if lines() is not None:
        handler = JsonHandler()
    logger = logging.getLogger("ldpbeam")
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def _not_of_the_machine(record: logging.LogRecord) -> bool:
    """Whether a record is about another error than one of the machine, which the command puts in words."""
    return machine_problem(RuntimeError(record.getMessage())) is None


@contextlib.contextmanager
def _engine_quiet() -> Iterator[None]:
    """Leave out what engines log of an error that ends the run: it is raised, too."""
    root, prism = logging.getLogger(), logging.getLogger("Prism")
    level = prism.level
    prism.setLevel(logging.CRITICAL)
    root.addFilter(_not_of_the_machine)
    try:
        yield
    finally:
        prism.setLevel(level)
        root.removeFilter(_not_of_the_machine)


@contextlib.contextmanager
def _stopped_by(ask: Callable[[], None], lost: str) -> Iterator[None]:
    """Call ``ask`` at the first SIGTERM or SIGINT; at the second request, print ``lost`` and end."""
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            print(file=sys.stderr)
            fail(lost)
            print(end="", flush=True)
            # Not sys.exit: it would wait for threads of the engine, and those may hang.
            os._exit(INTERRUPTED)
        asked = True
        ask()

    handler = once_per_request(stop)
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _keep_quiet_after(done: threading.Event) -> None:
    """Ignore errors of threads from ``done`` on: the engine ends before the threads that listen to it."""

    def say(failed: threading.ExceptHookArgs) -> None:
        if not done.is_set():
            threading.__excepthook__(failed)

    threading.excepthook = say


def _print_rate_here(job: StreamJob, done: threading.Event) -> None:
    """Print the rate, the lag and the watermark every 10 seconds in which reports were read."""
    last, at = emitted.read_here, time.monotonic()
    while not done.wait(RATE_SECONDS):
        now, reports = time.monotonic(), emitted.read_here
        progress = reader.progress(job.run)
        waiting = waiting_windows(job.run, progress.watermark)
        if reports == last and not waiting:
            continue
        rate, fields = (reports - last) / (now - at), dict[str, object]()
        lag = mark = ""
        if progress.lag is not None:
            seconds = fields["lag_seconds"] = progress.lag.milliseconds / 1000
            lag = f", {seconds:.1f} s behind"
        if progress.watermark is not None:
            reached = rfc3339(progress.watermark // 1000 * 1000)
            mark, fields["watermark"] = f", watermark {reached}", reached
        wait = f", {in_words(waiting)}" if waiting else ""
        fields["waiting_windows"] = waiting
        note(f"{rate:,.0f} reports/s{lag}{mark}{wait}", event="rate", reports_per_second=rate, **fields)
        last, at = reports, now


def _print_rate_elsewhere(job: StreamJob, done: threading.Event) -> None:
    """Print panes and the rate every 10 seconds, from the files in the output folder."""
    last, at = 0, time.monotonic()
    printed: dict[str, float] = {}
    while not done.wait(RATE_SECONDS):
        # Files that cannot be read now are read next time.
        with contextlib.suppress(BeamIOError, OSError, ValueError):
            _print_panes(job, printed)
            now, reports = time.monotonic(), read_run_accounting(job)["in"]
            if reports != last:
                rate = (reports - last) / (now - at)
                note(f"{rate:,.0f} reports/s", event="rate", reports_per_second=rate)
            last, at = reports, now
    with contextlib.suppress(BeamIOError, OSError, ValueError):
        _print_panes(job, printed)


def _print_panes(job: StreamJob, printed: dict[str, float]) -> None:
    """Print one line for each new or changed file of estimates; ``printed`` holds the time of each file."""
    for entry in files_in(job.path(ESTIMATES), f"*.{job.run}.jsonl"):
        written = entry.last_updated_in_seconds or 0.0
        if printed.get(entry.path) != written:
            estimates = list(read_estimates(entry.path))
            name = FileSystems.split(entry.path)[1].removesuffix(".jsonl")
            with open_raw(job.path(STATISTICS, f"{name}.avro")) as stream:
                snapshots = list(read_snapshots(stream))
            PANES.info(pane_line(snapshots, estimates), extra={"fields": pane_fields(snapshots, estimates)})
            printed[entry.path] = written

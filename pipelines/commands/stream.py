"""``ldpbeam stream``: the run, and what it prints."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from ldpbeam.answers import tables
from ldpbeam.answers.misfits import tally
from ldpbeam.answers.published import warnings_of
from ldpbeam.command_line.catalogue import named
from ldpbeam.errors import DONE, WITH_CARE, UserError
from ldpbeam.folders.output import DEAD_LETTERS, ESTIMATES, LEDGER_FOLDER, STATISTICS, named_in_errors
from ldpbeam.folders.read import fit_of_panes
from ldpbeam.folders.written import TABLE_FOLDERS, sweep, windows_without_names
from ldpbeam.pipelines.commands.stream_options import Request, request_of
from ldpbeam.pipelines.estimates.ledger_files import print_periods
from ldpbeam.pipelines.estimates.stream_ledger import add_up_at_end, ledger_kept_current
from ldpbeam.pipelines.graphs.stream import StreamJob, build
from ldpbeam.pipelines.runs.checkpoints import lost_run
from ldpbeam.pipelines.runs.replays import Continued, begin, beginning, continued, forget, lost_to
from ldpbeam.pipelines.runs.stream_runs import (
    earlier_runs,
    incomplete_windows,
    new_run,
    owned_by_stream,
    read_run_accounting,
    resume,
)
from ldpbeam.pipelines.runs.stream_watch import Watch, run_until_stopped, submit
from ldpbeam.pipelines.sources.on_engines.opening import Run
from ldpbeam.printing import document, note, warn
from ldpbeam.runners.engines import Engine, engine_of, is_dry_run, template_of
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.temporary import folder_of_run
from ldpbeam.times import rfc3339
from ldpbeam.transforms.reports.counts import FATES, NEED_CARE, NOT_BEGUN, WITHOUT_NAMES
from ldpbeam.transforms.state.journal import lost_before, positions_before
from ldpbeam.untrusted import shown
from ldpbeam.words import first_ones

#: What keeps the page of ``--report`` current: it looks at the files in the output folder alone.
_PAGE = "ldpbeam.results.page.writing:kept_current"


def stream_command(options: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Run ``ldpbeam stream`` and return its exit code.

    Raises:
        UserError: if the options, the study, the feed or the output folder cannot be used.
    """
    request = request_of(options, beam_arguments)
    with folder_of_run() as staged:
        return _run(request, staged)


def _run(request: Request, staged: Path) -> int:
    """Run the stream until it is stopped; ``staged`` is for files of the engine.

    Raises:
        UserError: if the engine, the port of metrics, the feed or the output folder cannot be used.
    """
    master = request.engine.flink_master
    lost = None if master is None or request.resume else lost_run(request.job.output, master)
    if lost is not None:
        run, checkpoint = lost
        note(f"the job of run {run} was lost: this one goes on with its checkpoint {checkpoint}")
        request = replace(request, resume=run, engine=replace(request.engine, savepoint=checkpoint))
    engine = engine_of(request.engine, staged, streaming=True, given=request.beam_arguments)
    with _watched(request) as watch:
        return _run_on(engine, request, watch)


@contextlib.contextmanager
def _watched(request: Request) -> Iterator[Watch | None]:
    """Serve the port that is asked for, and give what a run calls when its engine has started.

    Raises:
        UserError: if the port is taken, or its packages are not installed.
    """
    if request.metrics is None:
        yield None
        return
    try:
        from ldpbeam.pipelines.operating.server import answering, is_loopback
        from ldpbeam.pipelines.operating.state import Watched
    except ImportError:
        raise UserError(
            "--metrics-port needs prometheus_client and psutil: pip install 'ldpbeam[metrics]'"
        ) from None
    host, _ = request.metrics
    with answering(*request.metrics) as (answers, url):
        note(f"metrics are at {url}/metrics", event="metrics", url=url)
        if not is_loopback(host):
            note(f"--metrics-host {host}: whoever reaches the port can read the numbers of the run")

        def watch(job: StreamJob, here: bool, result: Any) -> None:
            answers.watched = Watched(job, here, result)

        yield watch


def _run_on(engine: Engine, request: Request, watch: Watch | None) -> int:
    """Run the stream on an engine until it is stopped.

    Args:
        engine: the engine.
        request: what is asked for.
        watch: what is called when the engine has started.

    Raises:
        UserError: if the feed or the output folder cannot be used.
    """
    study, output = request.job.study, request.job.output
    left = _left(request, engine)
    continues, _ = left
    name = request.resume or (continues.run if continues is not None else new_run(output, datetime.now(UTC)))
    if request.resume:
        resume(output, request.resume)
    with contextlib.ExitStack() as until_it_ends:
        with named_in_errors(output):
            run = Run(request.columns, output, name, continues)
            opened = until_it_ends.enter_context(request.opening(run))
        if request.resume and opened.new:
            raise UserError(
                f"--resume {name}: its savepoint has offsets of messages that the topic has lost; name "
                "another folder"
            )
        feed, lost = opened.feed, lost_to(continues, study, opened.removed, int(time.time() * 1000))
        goes_on = None if continues is None else continues.without(opened.new)
        job = replace(
            request.job,
            run=name,
            feed=feed,
            readers=min(engine.readers, feed.partitions),
            stays=engine.ended_when_past,
            incomplete=replace(lost, windows=lost.windows | incomplete_windows(study, output, name)),
            earlier_runs=earlier_runs(output, name),
            replay=beginning(goes_on, opened.starts) if _reads_again(request, engine) else None,
        )
        pipeline = engine.pipeline(request.beam_arguments)
        build(pipeline, job)
        if is_dry_run(pipeline):
            submit(pipeline)
            print(
                f"a dry run: the job was made and not submitted; nothing was read, {job.output} is as it was"
            )
            return DONE
        with owned_by_stream(job, at_once=not request.source.has_offsets):
            if job.incomplete.windows:
                note(_about_incomplete(job))
            if _left(request, engine) != left:
                raise UserError(f"--output {job.output}: a run that was there has just ended; start again")
            forget(output, opened.new)
            if job.replay is not None:
                begin(job.folder, job.replay)
            if goes_on is not None:
                resume(output, name)
                note(_about_continued(goes_on))
            if request.engine.detached:
                print(shown(f"run {name}: reads {feed.name}, writes to {job.output}"))
                submitted = submit(pipeline)
                if submitted is None:
                    print(f"the job is the template {template_of(pipeline)}, and was not started")
                else:
                    print(
                        f"job {submitted} continues without this command; `gcloud dataflow jobs drain "
                        f"{submitted} --region={request.engine.region}` ends it"
                    )
                return DONE
            started = {"event": "started", "run": name, "reads": feed.name, "output": job.output}
            where = f" at {opened.server}" if opened.server else ""
            # The page takes seconds. Whoever is told that the run reads may stop it, and it drains.
            with named(_PAGE)(request.report, job.output), ledger_kept_current(job):
                document(started)
                print(shown(f"run {name}: reading {feed.name}{where}; stop with Ctrl-C"), flush=True)
                savepoint = run_until_stopped(pipeline, job, engine.here, watch)
            if savepoint is not None:
                document({"event": "ended", "run": name, "output": job.output, "savepoint": savepoint})
                note(
                    f"the job ended with a savepoint; to go on, give the same command, --resume {name} and "
                    f"--savepoint {savepoint}"
                )
                return DONE
    return _finished(job)


def _reads_again(request: Request, engine: Engine) -> bool:
    """Whether the next process reads the feed again after a kill; on Flink the engine's state survives."""
    return request.source.has_offsets and not engine.ended_when_past


def _left(request: Request, engine: Engine) -> tuple[Continued | None, Mapping[int, int]]:
    """(the run that goes on, if there is one and the feed can be read again; where earlier runs have ended).

    Raises:
        UserError: if a file is damaged.
    """
    if not request.source.has_offsets:
        return None, {}
    study, output = request.job.study, request.job.output
    goes_on = continued(study, output) if _reads_again(request, engine) else None
    with named_in_errors(output):
        return goes_on, positions_before(output)


def _about_continued(run: Continued) -> str:
    again = sum(
        offset - run.positions.get(partition, offset) for partition, offset in run.replay.taken.items()
    )
    windows = f"{len(run.needs):,} windows" if len(run.needs) != 1 else "one window"
    return (
        f"run {run.run} goes on: {windows} had not settled, so {again:,} messages are read again, which "
        "count once"
    )


def _about_incomplete(job: StreamJob) -> str:
    windows = job.incomplete.windows
    first = min(window.start for window in windows)
    last = max(window.end for window in windows)
    return (
        f"earlier runs ended with {len(windows):,} open windows, from {rfc3339(first)} to "
        f"{rfc3339(last)}: this run marks their estimates as incomplete"
    )


def _finished(job: StreamJob) -> int:
    """Print what a finished run wrote and counted, and return its exit code."""
    windows = ((STATISTICS,), (ESTIMATES,), *TABLE_FOLDERS.values())
    sweep([job.path(*folder) for folder in windows], job.run)
    sweep([job.folder, job.of_run(DEAD_LETTERS), job.of_run(LEDGER_FOLDER)])
    periods = add_up_at_end(job)
    counts = read_run_accounting(job)
    if counts.get(WITHOUT_NAMES):
        # Of those that had no names when they closed, some may have been named since.
        nameless = windows_without_names(job)
        counts[WITHOUT_NAMES] = len(nameless)
        if nameless:
            note(f"no names in the study's candidates for {first_ones(nameless)}")
    fit = fit_of_panes(job.folder)
    tests, flags = (len(fit.tests), sum(test.flagged for test in fit.tests)) if fit else (0, 0)
    ended = {"event": "ended", "run": job.run, "output": job.output, "accounting": counts}
    document(
        {
            **ended,
            "fit": {"tests": tests, "flagged": flags},
            "periods": [fields_of(entry) for entry in periods],
        }
    )
    print(tables.accounting_line(counts))
    if tests:
        print(tally(flags, tests))
    print_periods(periods)
    where = f"estimates and statistics are in {job.output}, what became of the reports in {job.of_run('')}"
    print(shown(where))
    if counts.get(NOT_BEGUN):
        note(
            f"{counts[NOT_BEGUN]:,} of the used reports are in windows that had not begun when the run "
            "ended; these windows are not published"
        )
    tables.print_reasons(Console(), counts, job.output)
    for sentence in warnings_of(job.study, counts):
        warn(sentence)
    if job.incomplete.lost or lost_before(job.output, job.run) is not None:
        missing = counts["in"] - sum(counts[name] for name in FATES)
        warn(
            f"the topic has lost messages that this run needed: {missing:,} reports that were read are in "
            "no estimate, and of messages that were never read nobody knows the reports"
        )
        return WITH_CARE
    if counts["damaged_files"]:
        line = tables.damage_line(counts["damaged_files"])
        print(f"ldpbeam: {line}; look at the outputs with care", file=sys.stderr)
        return WITH_CARE
    return WITH_CARE if any(map(counts.get, NEED_CARE)) else DONE

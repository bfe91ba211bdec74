"""``ldpbeam stream``: the run, and what it prints."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from rich.console import Console

from ldpbeam.answers import tables
from ldpbeam.answers.misfits import tally
from ldpbeam.answers.published import warnings_of
from ldpbeam.command_line.catalogue import named
from ldpbeam.errors import DONE, INTERRUPTED, WITH_CARE, UserError
from ldpbeam.folders.output import ACCOUNTING, ESTIMATES, STATISTICS, named_in_errors
from ldpbeam.folders.written import TABLE_FOLDERS, sweep
from ldpbeam.interrupts import once_per_request
from ldpbeam.log_lines import JsonHandler, lines
from ldpbeam.pipelines.commands.stream_options import Request, request_of
from ldpbeam.pipelines.estimates.ledger_files import print_periods
from ldpbeam.pipelines.sources.opening import Opened
from ldpbeam.pipelines.sources.opening import Run as RunOfFeed
from ldpbeam.pipelines.spool.finish import Finished, Finishing
from ldpbeam.pipelines.spool.ledger import add_up_at_end, ledger_kept_current
from ldpbeam.pipelines.spool.place import StreamOutput, owned_by_stream, placed
from ldpbeam.pipelines.spool.run import Run
from ldpbeam.pipelines.spool.solving import Solving
from ldpbeam.printing import document, fail, note, warn
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.panes import PANES
from ldpbeam.transforms.reports.counts import DAMAGED, IN, NEED_CARE, NOT_BEGUN, TOO_FAR
from ldpbeam.transforms.sources.feeds import Clock, now
from ldpbeam.transforms.storage import write_json
from ldpbeam.untrusted import cut_short, shown
from ldpbeam.words import counted, first_ones

#: The function that keeps the page of ``--report`` current; it reads nothing but the output folder.
_PAGE = "ldpbeam.results.page.writing:kept_current"
#: Seconds between two lines about the rate.
RATE_SECONDS = 10.0
#: Seconds to sleep when a feed is empty: short at first, because a backlog comes in pieces, then longer.
SHORTEST_SLEEP_SECONDS, SLEEP_SECONDS = 0.002, 0.05
#: How long a stream that was asked to stop still waits for panes that have fired to be solved.
STOPPING_SECONDS = 5.0
_LOST_NOTHING = (
    "ended before it could stop: the next run into this folder continues from the last commit and loses "
    "nothing"
)


#: Called once, with the output folder and the run, when the run is ready to read.
Watch = Callable[[StreamOutput, Run], None]


def stream_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam stream`` and return its exit code.

    Raises:
        UserError: if the options, the study, the feed or the output folder cannot be used.
    """
    request = request_of(options)
    with _watched(request) as watch:
        return _run(request, watch)


@contextlib.contextmanager
def _watched(request: Request) -> Iterator[Watch | None]:
    """Serve ``--metrics-port``, if it is given. Yields the function that says which run to watch.

    Raises:
        UserError: if the port is taken, or its packages are not installed.
    """
    if request.metrics is None:
        yield None
        return
    try:
        from ldpbeam.pipelines.operating.metrics import Watched
        from ldpbeam.pipelines.operating.server import answering, is_loopback
    except ImportError:
        raise UserError(
            "--metrics-port needs prometheus_client and psutil: pip install 'ldpbeam[metrics]'"
        ) from None
    host, _ = request.metrics
    with answering(*request.metrics) as (answers, url):
        note(f"metrics are at {url}/metrics", event="metrics", url=url)
        if not is_loopback(host):
            note(f"--metrics-host {host}: anyone who can reach the port can read this run's metrics")

        def watch(output: StreamOutput, run: Run) -> None:
            answers.watched = Watched(output, run)

        yield watch


def _run(request: Request, watch: Watch | None) -> int:
    """Run the stream until it ends or is stopped.

    Raises:
        UserError: if the feed or the output folder cannot be used.
    """
    ours = placed(request.output, datetime.now(UTC))
    output, manifest, earlier = ours
    with contextlib.ExitStack() as until_it_ends:
        with named_in_errors(output.output):
            position = manifest.position if manifest.number else None
            reader = RunOfFeed(request.columns, output.output, output.run, position, earlier)
            opened = until_it_ends.enter_context(request.opening(reader))
        until_it_ends.enter_context(owned_by_stream(ours, {"reads": opened.feed.name, **opened.feed.about}))
        if manifest.number:
            waiting = manifest.in_open_windows
            note(f"run {output.run} continues: {counted(waiting, 'report')} in open windows were kept")
        solving = Solving(Finishing(output, output.spending, request.publish))
        until_it_ends.callback(solving.close)
        feed = opened.feed.open_at(opened.position)
        run = Run(
            output, manifest, feed, solving, Clock(), _pane_line,
            disorder=request.disorder, disclosure=request.disclosure,
        )  # fmt: skip
        if opened.removed:
            run.lose()
        if watch is not None:
            watch(output, run)
        with (
            _panes_shown(),
            named(_PAGE)(request.report, output.output),
            ledger_kept_current(output),
            _stopping(run) as stopping,
        ):
            _say_begun(output, opened)
            drained = _loop(run, request, output, stopping)
            feed.close()
            if run.manifest.ended is not None or not run.manifest.number:
                opened.finish()
    return _finished(output, run, opened, drained)


def _say_begun(output: StreamOutput, opened: Opened) -> None:
    name, where = opened.feed.name, f" at {opened.server}" if opened.server else ""
    document({"event": "started", "run": output.run, "reads": name, "output": output.output})
    print(shown(f"run {output.run}: reading {name}{where}; stop with Ctrl-C"), flush=True)


def _loop(run: Run, request: Request, output: StreamOutput, stopping: list[bool]) -> bool:
    """Read until the stream ends or is stopped. Returns whether all windows were closed.

    Raises:
        UserError: if the feed failed for good, or the disk does not take what is written.
    """
    rate, written, pause = _Rate(run), -1, SHORTEST_SLEEP_SECONDS
    with named_in_errors(output.output):
        while not stopping:
            if run.turn():
                pause = SHORTEST_SLEEP_SECONDS
            else:
                time.sleep(pause)
                pause = min(2 * pause, SLEEP_SECONDS)
            rate.say()
            if run.manifest.number != written:
                written = run.manifest.number
                _write_accounting(output, run)
            if request.idle is not None and run.idle >= request.idle:
                break
        ends = not stopping or request.drain
        if ends:
            run.end_windows(drained=bool(stopping))
        if run.changed:
            run.commit()
        until = time.monotonic() + STOPPING_SECONDS
        while run.unsolved and (not stopping or time.monotonic() < until):
            time.sleep(SLEEP_SECONDS)
            run.settle()
        if run.changed or ends:
            run.commit(ended=now() if ends and not run.unsolved else None)
        _write_accounting(output, run)
    return ends


def _write_accounting(output: StreamOutput, run: Run) -> None:
    write_json(output.of_run(ACCOUNTING), run.manifest.accounting)


class _Rate:
    """Prints the rate, the lag and the watermark every ten seconds in which reports were read."""

    def __init__(self, run: Run) -> None:
        self._run, self._at, self._reports = run, time.monotonic(), run.counts[IN]

    def say(self) -> None:
        """Print a line, if it is time."""
        run, now = self._run, time.monotonic()
        if now - self._at < RATE_SECONDS:
            return
        reports, waiting = run.counts[IN], run.unsolved
        if reports != self._reports or waiting:
            rate, fields = (reports - self._reports) / (now - self._at), dict[str, object]()
            text = f"{rate:,.0f} reports/s"
            if (lag := run.lag) is not None:
                seconds = fields["lag_seconds"] = lag.milliseconds / 1000
                text += f", {seconds:.1f} s behind"
            if (watermark := run.manifest.watermark) is not None:
                reached = fields["watermark"] = rfc3339(watermark // 1000 * 1000)
                text += f", watermark {reached}"
            if waiting:
                text += f", {counted(waiting, 'pane waits', 'panes wait')} to be solved"
            note(text, event="rate", reports_per_second=rate, waiting_windows=waiting, **fields)
        self._at, self._reports = now, reports


def _pane_line(finished: Finished) -> None:
    PANES.info(finished.line, extra={"fields": finished.fields})
    for warning in finished.warnings:
        PANES.warning("ldpbeam: warning: %s", shown(warning))


class _Lines(logging.Formatter):
    """Cuts lines short: they may quote what a server or a file system said, at any length."""

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


@contextlib.contextmanager
def _stopping(run: Run) -> Iterator[list[bool]]:
    """Yields a list that is empty until the first SIGTERM or SIGINT; the second one ends the process."""
    asked: list[bool] = []

    def stop() -> None:
        if asked:
            print(file=sys.stderr)
            fail(_LOST_NOTHING)
            print(end="", flush=True)
            # Not sys.exit: it would wait for threads of the feed, and those may hang.
            os._exit(INTERRUPTED)
        asked.append(True)
        run.stopping = True

    handler = once_per_request(stop)
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _finished(output: StreamOutput, run: Run, opened: Opened, ends: bool) -> int:
    """Print what a finished run wrote and counted, and return its exit code."""
    windows = ((STATISTICS,), (ESTIMATES,), *TABLE_FOLDERS.values())
    sweep([output.path(*folder) for folder in windows], output.run)
    sweep([output.of_run(), output.letters])
    periods = add_up_at_end(output)
    counts = run.manifest.accounting
    seen, missing = run.seen, run.manifest.missing
    ended = {"event": "ended", "run": output.run, "output": output.output, "accounting": counts}
    document(
        {
            **ended,
            "fit": {"tests": seen.tests, "flagged": seen.flagged},
            "periods": [fields_of(entry) for entry in periods],
        }
    )
    print(tables.accounting_line(counts))
    if seen.tests:
        print(tally(seen.flagged, seen.tests))
    print_periods(periods)
    where = f"estimates and statistics are in {output.output}, the accounting is in {output.of_run('')}"
    print(shown(where))
    if not ends:
        note("run the same command to continue; with --drain, stopping closes the open windows")
    if counts.get(NOT_BEGUN):
        note(
            f"{counts[NOT_BEGUN]:,} of the used reports are in windows that had not begun when the run "
            "ended; these windows are not published"
        )
    if outside := counts["out_of_range"] - counts.get(TOO_FAR, 0):
        note(
            f"{counted(outside, 'report')} out of range: older than windows.max_age, or dated more than a "
            "day ahead of the clock; for an older backlog, raise max_age, or use ldpbeam estimate"
        )
    tables.print_reasons(Console(), counts, output.output)
    for sentence in warnings_of(output.study, counts):
        warn(sentence)
    if missing:
        warn(f"the solving process died; these estimates are missing: {first_ones(missing)}")
    if run.lost:
        warn(
            "the topic lost messages before they were read; their reports cannot be counted, and windows "
            "that may lack them are marked incomplete"
        )
    if counts["damaged_files"]:
        line = tables.damage_line(counts["damaged_files"])
        damaged = [name.removeprefix(DAMAGED) for name in run.manifest.counts if name.startswith(DAMAGED)]
        warn(f"{line}; look at the outputs with care: {first_ones(sorted(damaged))}")
    care = missing or run.lost or counts["damaged_files"] or any(map(counts.get, NEED_CARE))
    return WITH_CARE if care else DONE

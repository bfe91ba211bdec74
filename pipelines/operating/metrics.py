"""A running stream as probes see it, and its metrics, in the text format that Prometheus reads.

The values of labels are names of the code and of the study; none comes from a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import psutil
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.pipelines.spool.run import Run
from ldpbeam.transforms.reports.counts import FATES, IN, IN_OPEN_WINDOWS, OCCASIONAL
from ldpbeam.transforms.sources.feeds import elapsed
from ldpbeam.words import counted

#: The accounting's object of dead letters by reason.
BY_REASON = "dead_letters_by_reason"
#: A loop that makes no turn for this long, in milliseconds, is taken to be stuck.
STUCK = 10 * 60_000
#: Up to this many panes may wait to be solved before it is reported.
FEW = 16


class Watched(Collector):
    """A run that goes on, and how far it has come. Any thread may ask.

    Args:
        output: where it writes.
        run: the run.
    """

    def __init__(self, output: StreamOutput, run: Run) -> None:
        self.output, self.run = output, run

    def collect(self) -> Iterator[Metric]:
        """The metrics of the run."""
        return metrics_of(self)

    def stuck(self) -> str | None:
        """Why the run does not go on; None if it does."""
        still = elapsed() - self.run.turned_at
        return f"the loop has made no progress for {still // 1000} seconds" if still >= STUCK else None

    def unready(self) -> str | None:
        """Why the run does not read; None if it does."""
        if self.run.stopping:
            return "the run was asked to stop"
        return self.stuck() or self.waiting()

    def waiting(self) -> str | None:
        """How many panes wait to be solved, as a sentence; None for up to FEW, which is usual."""
        panes = self.run.unsolved
        return f"{counted(panes, 'pane waits', 'panes wait')} to be solved" if panes > FEW else None


def memory() -> tuple[int, int]:
    """The resident memory in bytes of this process, and of those it started, such as the one that solves."""
    this = psutil.Process()
    return this.memory_info().rss, sum(map(_resident, this.children(recursive=True)))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended meanwhile
        return 0


def metrics_of(watched: Watched) -> Iterator[Metric]:
    """The metrics of a run; what is not known has no metric.

    Nothing is read from a file, however many windows have closed.
    """
    output, run = watched.output, watched.run
    about = {"run": output.run, "study": output.study.name, "version": version("ldpbeam")}
    yield InfoMetricFamily("ldpbeam_run", "The run, its study and the version of ldpbeam", about)
    yield from _counts(run.manifest.accounting)
    lag, watermark, seen = run.lag, run.reached, run.seen
    gauges = (
        ("lag_seconds", "The lag: everything published longer ago than this has been read",
         None if lag is None else lag.milliseconds / 1000),
        ("lag_messages", "Messages that are published but not read", None if lag is None else lag.messages),
        ("watermark_timestamp_seconds", "The event time up to which windows are closed, as Unix time",
         None if watermark is None else watermark / 1000),
        ("open_windows", "Windows that accept reports", len(run.windows.windows)),
        ("waiting_windows", "Panes that have fired and wait to be solved", run.unsolved),
        ("longest_solve_seconds", "The longest time that the estimates of a pane took", seen.longest),
        ("fit_tests", "Tests of fit", seen.tests),
        ("fit_flagged_tests", "Tests that say that the reports are not what the study claims", seen.flagged),
    )  # fmt: skip
    for name, text, value in gauges:
        if value is not None:
            yield GaugeMetricFamily(f"ldpbeam_{name}", text, value)
    solving = "The time that the estimates of a pane took"
    yield SummaryMetricFamily("ldpbeam_solve_seconds", solving, seen.panes, seen.seconds)
    differing = "Estimates of closed windows that differ from those of the windows before"
    yield CounterMetricFamily("ldpbeam_differing_estimates", differing, seen.differing)
    resident = GaugeMetricFamily(
        "ldpbeam_resident_memory_bytes",
        "Memory of the command, and of the processes that it started",
        labels=["process"],
    )
    for process, size in zip(("command", "engine"), memory(), strict=True):
        resident.add_metric([process], size)
    yield resident


def _counts(accounting: dict[str, Any]) -> Iterator[Metric]:
    """One counter for each field of the accounting."""
    # From zero on: Prometheus does not see the first step of a counter that appears with it.
    counts = {**dict.fromkeys(OCCASIONAL, 0), **accounting}
    yield GaugeMetricFamily(
        "ldpbeam_in_open_windows", "Reports that wait in open windows", counts.pop(IN_OPEN_WINDOWS)
    )
    yield CounterMetricFamily("ldpbeam_reports_read", "Reports and unreadable records", counts.pop(IN))
    fates = CounterMetricFamily("ldpbeam_reports", "Reports by what became of them", labels=["outcome"])
    for fate in FATES:
        fates.add_metric([fate], counts.pop(fate))
    yield fates
    reasons = CounterMetricFamily("ldpbeam_dead_letters", "Dead letters by reason", labels=["reason"])
    for reason, letters in counts.pop(BY_REASON).items():
        reasons.add_metric([reason], letters)
    yield reasons
    for name, number in counts.items():
        yield CounterMetricFamily(f"ldpbeam_{name}", f"The field {name} of accounting.json", number)

"""The metrics of a running stream, in the text format that Prometheus reads.

The values of labels are names of the code and of the study; none comes from a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from ldpbeam.pipelines.operating.state import Watched, memory
from ldpbeam.transforms.reports.counts import FATES, IN, IN_OPEN_WINDOWS, OCCASIONAL

#: The accounting's object of dead letters by reason.
BY_REASON = "dead_letters_by_reason"


class _Of(Collector):
    """Gives the metrics of one run."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        return metrics_of(self._watched)


def exposition(watched: Watched) -> bytes:
    """The metrics of a run, as an answer to a scrape."""
    return generate_latest(_Of(watched))


def metrics_of(watched: Watched) -> Iterator[Metric]:
    """The metrics of a run; what is not known has no metric.

    Nothing is read from a file, however many windows have closed.
    """
    output, run = watched.output, watched.run
    about = {"run": output.run, "study": output.study.name, "version": version("ldpbeam")}
    yield InfoMetricFamily("ldpbeam_run", "The run, its study and the version of ldpbeam", about)
    yield from _counts(run.manifest.accounting)
    if (lag := run.lag) is not None:
        yield GaugeMetricFamily(
            "ldpbeam_lag_seconds",
            "The lag: everything published longer ago than this has been read",
            lag.milliseconds / 1000,
        )
        if lag.messages is not None:
            yield GaugeMetricFamily(
                "ldpbeam_lag_messages", "Messages that are published but not read", lag.messages
            )
    if (watermark := run.reached) is not None:
        yield GaugeMetricFamily(
            "ldpbeam_watermark_timestamp_seconds",
            "The event time up to which windows are closed, as Unix time",
            watermark / 1000,
        )
    yield GaugeMetricFamily("ldpbeam_open_windows", "Windows that accept reports", len(run.windows.windows))
    yield GaugeMetricFamily(
        "ldpbeam_waiting_windows", "Panes that have fired and wait to be solved", run.unsolved
    )
    seen = run.seen
    yield SummaryMetricFamily(
        "ldpbeam_solve_seconds", "The time that the estimates of a pane took", seen.panes, seen.seconds
    )
    yield GaugeMetricFamily(
        "ldpbeam_longest_solve_seconds", "The longest time that the estimates of a pane took", seen.longest
    )
    yield CounterMetricFamily(
        "ldpbeam_differing_estimates",
        "Estimates of closed windows that differ from those of the windows before",
        seen.differing,
    )
    yield GaugeMetricFamily("ldpbeam_fit_tests", "Tests of fit", seen.tests)
    yield GaugeMetricFamily(
        "ldpbeam_fit_flagged_tests",
        "Tests that say that the reports are not what the study claims",
        seen.flagged,
    )
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

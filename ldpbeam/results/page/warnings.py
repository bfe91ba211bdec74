"""What a reader must know before the numbers are used, in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ldpbeam import words
from ldpbeam.answers import misfits as words_of_fit
from ldpbeam.answers.results import Results, WindowResult
from ldpbeam.answers.tables import damage_line
from ldpbeam.charts.subject import Subset
from ldpbeam.schemas.outputs.records import EstimateRecord, FitEntry
from ldpbeam.windows import Bounds

#: This many of a kind are named.
MOST_NAMED = 5
#: Estimators and intervals say this many things; the table of the output has all.
MOST_SAID = 12


def warnings_of(results: Results) -> list[str]:
    """The sentences, the gravest first."""
    return [
        *_of_fit(results),
        *_of_reports(results),
        *_of_windows(results),
        *_of_ledger(results),
        *_of_estimates(results.estimates),
    ]


def _of_fit(results: Results) -> Iterator[str]:
    flagged = [test for run in results.runs if run.fit for test in run.fit.tests if test.flagged]
    for test in flagged[:MOST_NAMED]:
        yield misfit(test)
    if len(flagged) > MOST_NAMED:
        yield f"{words.counted(len(flagged) - MOST_NAMED, 'more test')} of fit are flagged."


def misfit(test: FitEntry) -> str:
    """A flagged test in words."""
    subset = Subset(test.window_start, test.window_end, test.group, 0)
    where = f"{test.attribute}{f' ({subset})' if str(subset) else ''}"
    return f"{where}: {words_of_fit.misfit(test.test, test.services, test.reports)}."


def _of_reports(results: Results) -> Iterator[str]:
    counts = results.counts
    if not counts:
        return
    dead, late, read = counts["dead_letters"], counts["late"], counts["in_"]
    impossible = results.dead_letters_by_reason.get("payload_outside_mechanism", 0)
    if impossible:
        yield f"{words_of_fit.impossible_line(impossible)}."
    if dead and dead != impossible:
        share = f" ({words.percent(dead / read)} of those read)" if read else ""
        yield f"{words.counted(dead, 'report')} could not be used{share}."
    if counts.get("damaged_files"):
        yield f"{damage_line(counts['damaged_files'])}."
    if late:
        yield f"{words.counted(late, 'report')} came too late for {'its' if late == 1 else 'their'} window."
    unfinished = sum(run.finished is False for run in results.runs)
    if unfinished:
        yield f"{words.counted(unfinished, 'run')} had not finished when this page was written."


def _of_windows(results: Results) -> Iterator[str]:
    windows: dict[tuple[str, Bounds], WindowResult] = {}
    shared = set()
    for window in results.windows:
        key = window.attribute, window.window
        before = windows.get(key)
        if before is not None:
            shared.add(key)
        if before is None or before.pane_timing == "early":
            windows[key] = window
    early = [window for window in windows.values() if window.pane_timing == "early"]
    missing = [window for window in windows.values() if not window.complete and window not in early]
    of_all = words.counted(len(windows), "window")
    if early:
        yield (
            f"{len(early):,} of {of_all} had not closed: their estimates are of the reports that had come "
            "until then."
        )
    if missing:
        yield f"{len(missing):,} of {of_all} may lack reports: a run ended before the window closed."
    if shared:
        yield (
            f"{words.counted(len(shared), 'window has', 'windows have')} reports of several runs, each with "
            "estimates of its own: the page shows those of the run that closed the window."
        )
    if not windows and any(not record.complete for record in results.estimates):
        yield "The estimates are incomplete: some reports were lost."


def _of_ledger(results: Results) -> Iterator[str]:
    over = sum(entry.users_over_cap for run in results.runs for entry in run.ledger)
    if over:
        yield f"{words.counted(over, 'user')} spent more epsilon in a window than the study's cap."
    for period in results.periods:
        if period.users_over_cap:
            span = words.window(period.period_start, period.period_end)
            yield (
                f"{words.counted(period.users_over_cap, 'user')} spent more than epsilon {period.cap:g} in "
                f"all in the period {span}."
            )


def _of_estimates(records: Sequence[EstimateRecord]) -> Iterator[str]:
    """What estimators and intervals say of themselves, each sentence once."""
    said: Counter[tuple[str, str]] = Counter()
    for record in records:
        who = f"{record.attribute}, {record.name}"
        if not record.converged:
            said[who, "stopped before it converged"] += 1
        for warning in (*record.warnings, *record.notes):
            said[who, warning] += 1
        if record.intervals is not None:
            parts: dict[str, list[str]] = {}
            for part, flag in record.intervals.flags.items():
                parts.setdefault(flag, []).append(part.replace("_", " "))
            for flag, of in parts.items():
                few = of if len(of) <= MOST_NAMED else [*of[:MOST_NAMED], f"{len(of) - MOST_NAMED:,} more"]
                said[record.attribute, f"intervals of {words.listed(few)}: {flag}"] += 1
    for (who, sentence), times in said.most_common(MOST_SAID):
        often = f" (in {times:,} windows or groups)" if times > 1 else ""
        yield f"{who}: {sentence}{often}."
    if len(said) > MOST_SAID:
        yield f"{len(said) - MOST_SAID:,} more warnings are in the output."

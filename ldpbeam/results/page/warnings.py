"""What a reader must know before the numbers are used, in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ldpbeam import words
from ldpbeam.answers import misfits as words_of_fit
from ldpbeam.answers.ledger_sentences import lacking
from ldpbeam.answers.results import Results, WindowResult
from ldpbeam.answers.tables import damage_line
from ldpbeam.cells import Clock
from ldpbeam.charts.subject import Subset, span_name
from ldpbeam.intervals.flags import PAGE
from ldpbeam.schemas.outputs.records import EstimateRecord, FitEntry
from ldpbeam.transforms.reports.counts import MOST_REFUSED
from ldpbeam.windows import Bounds

#: This many of a kind are named.
MOST_NAMED = 5
#: Estimators and intervals say this many things of an attribute; the table of the output has all.
MOST_SAID = 12
#: From this share of unused reports on, nothing is more important.
MOST_UNUSED = 0.5
#: Sentences that differ in numbers only are one.
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*%?")


class Warned(NamedTuple):
    """A warning.

    Attributes:
        sentence: what is wrong, and what to do.
        attribute: the attribute whose estimates it is about; empty for the whole output.
        where: which windows and groups it is about; empty for all.
        loud: whether nothing is more important.
    """

    sentence: str
    attribute: str = ""
    where: str = ""
    loud: bool = False


def warnings_of(results: Results) -> list[Warned]:
    """The warnings, the gravest first."""
    return [
        *_of_unused(results),
        *_of_alarms(results.estimates),
        *_of_fit(results),
        *map(Warned, _of_reports(results)),
        *map(Warned, _of_windows(results)),
        *map(Warned, _of_ledger(results)),
    ]


def _of_unused(results: Results) -> Iterator[Warned]:
    counts = results.counts
    unused = counts["in_"] - counts["used"] if counts else 0
    if unused and unused >= MOST_UNUSED * counts["in_"]:
        fates = [
            f"{counts[name]:,} {name.replace('_', ' ')}"
            for name in ("duplicates", "late", "out_of_range", "dead_letters")
            if counts[name]
        ]
        yield Warned(
            f"{unused:,} of {counts['in_']:,} reports were not used ({words.listed(fates)}): find out why "
            "before you read on.",
            loud=True,
        )


def _of_alarms(records: Sequence[EstimateRecord]) -> Iterator[Warned]:
    """The windows of each attribute that differ from those before them, the latest first."""
    for attribute in dict.fromkeys(record.attribute for record in records):
        alarms = {
            str(Subset.of(record)): record.alarm
            for record in sorted(records, key=lambda record: record.window_start or "", reverse=True)
            if record.attribute == attribute and record.alarm is not None and record.alarm.differs
        }
        if alarms:
            last = next(iter(alarms.values()))
            expected = (words.percent if last.number.startswith("share") else words.number)(last.expected)
            numbers = words.listed(list(dict.fromkeys(f"the {alarm.number}" for alarm in alarms.values())))
            yield Warned(
                f"{numbers} is unlike the same hours and weekdays of earlier weeks, from which {expected} "
                f"was expected{' in the latest window' if len(alarms) > 1 else ''}.",
                attribute,
                words.first_ones([*alarms], MOST_NAMED),
            )


def _of_fit(results: Results) -> Iterator[Warned]:
    flagged = [test for run in results.runs if run.fit for test in run.fit.tests if test.flagged]
    for test in flagged[:MOST_NAMED]:
        yield misfit(test, results.clock)
    if len(flagged) > MOST_NAMED:
        yield Warned(f"{words.counted(len(flagged) - MOST_NAMED, 'more test')} of fit are flagged.")


def misfit(test: FitEntry, clock: Clock | None = None) -> Warned:
    """A flagged test in words."""
    sentence = f"{words_of_fit.misfit(test.test, test.services, test.reports)}."
    return Warned(sentence, test.attribute, str(Subset.of_test(test, clock)))


def _of_reports(results: Results) -> Iterator[str]:
    counts = results.counts
    if not counts:
        return
    dead, late, read = counts["dead_letters"], counts["late"], counts["in_"]
    impossible = results.dead_letters_by_reason.get("payload_outside_mechanism", 0)
    # Few impossible reports say nothing of the others.
    many = impossible > MOST_REFUSED * read
    if many:
        yield f"{words_of_fit.impossible_line(impossible, read)}."
    if dead and not (many and dead == impossible):
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
    shared = set[tuple[str, Bounds]]()
    for window in results.windows:
        key = window.attribute, window.window
        shared |= windows.keys() & {key}
        if key not in windows or windows[key].pane_timing == "early":
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
        yield from (f"{sentence[0].upper()}{sentence[1:]}." for sentence in lacking(period))
        if period.users_over_cap:
            span = span_name(period.period_start, period.period_end, results.clock)
            yield (
                f"{words.counted(period.users_over_cap, 'user')} spent more than epsilon {period.cap:g} in "
                f"all in the period {span}."
            )


def notes_of(records: Sequence[EstimateRecord]) -> list[str]:
    """What the estimators and the intervals of an attribute say of themselves, the most frequent first."""
    kinds: dict[str, list[str]] = {}
    for record in records:
        flags = record.intervals.flags.values() if record.intervals is not None else ()
        stopped = [] if record.converged else ["stopped before it converged"]
        for text in dict.fromkeys((*record.warnings, *record.notes, *stopped, *flags)):
            plain = text.replace(f" ({PAGE})", "")
            kinds.setdefault(_NUMBERS.sub("", plain), []).append(plain)
    said = sorted(kinds.values(), key=len, reverse=True)
    return [f"{own[0]} ({len(own):,} of {len(records):,} estimates)." for own in said[:MOST_SAID]]


def caution_of(records: Sequence[EstimateRecord], changed: bool = False) -> str:
    """What not to believe of an attribute, for who has not read how it was estimated.

    Args:
        records: its estimates.
        changed: whether windows before and after an event are compared.
    """
    drawn = any(record.distribution for record in records)
    others = "; changes after an event are about the population that those people came from" * changed
    flagged = sum(bool(record.intervals and record.intervals.flags) for record in records)
    said = [
        f"{flagged:,} of {len(records):,} estimates are flagged, as reports look wrong: do not rely on them."
        * bool(flagged),
        "A peak or a gap in the bars is certain only where certain intervals show it." * drawn,
        "A difference that is not called certain may be chance.",
        f"The numbers are about the people who reported, and nobody else{others}.",
    ]
    return " ".join(filter(None, said))

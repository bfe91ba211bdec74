"""What a reader must know before the numbers are used, in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ldpbeam import words
from ldpbeam.answers import misfits as words_of_fit
from ldpbeam.answers.ledger_sentences import lacking
from ldpbeam.answers.results import Results, WindowResult
from ldpbeam.answers.tables import damage_line
from ldpbeam.cells import Clock
from ldpbeam.charts.subject import Subset, span_name
from ldpbeam.intervals.flags import PAGE
from ldpbeam.schemas.outputs.records import EstimateRecord, FitEntry
from ldpbeam.windows import Bounds

#: This many of a kind are named.
MOST_NAMED = 5
#: Estimators and intervals say this many things; the table of the output has all.
MOST_SAID = 12
#: From this share of unused reports on, nothing is more important.
MOST_UNUSED = 0.5
#: What a reader calls the intervals that have flags, by the condition under which they hold.
_INTERVALS = {"certain": "all intervals", "if_smooth": "what holds if people are spread smoothly"}
#: Numbers with their signs; a minus behind a letter or digit is none.
_NUMBERS = re.compile(r"(?:(?<!\w)-)?\d+(?:,\d{3})*(?:\.\d+)?%?")


@dataclass
class Warned:
    """A warning.

    Attributes:
        sentence: what is wrong, and what to do.
        attribute: the attribute whose estimates it is about; empty for the whole output.
        parts: which numbers of these estimates it is about; empty for all.
        subsets: the windows and groups of these estimates, in the order of the page.
        of: how many windows and groups the attribute has.
        loud: whether nothing is more important.
        minor: whether it is what an estimate or an interval says of itself, which the attribute's part of the
            page has folded away.
    """

    sentence: str
    attribute: str = ""
    parts: list[str] = field(default_factory=list)
    subsets: list[Subset] = field(default_factory=list)
    of: int = 0
    loud: bool = False
    minor: bool = False

    @property
    def what(self) -> str:
        """The attribute and its numbers; empty for the whole output."""
        few, more = self.parts[:MOST_NAMED], self.parts[MOST_NAMED:]
        named = words.listed([*few, *([f"{len(more)} more"] if more else [])])
        named = re.sub("(, | and )the (share|mean) of ", r"\1", named)
        return ", ".join(part for part in (self.attribute, named) if part)

    @property
    def where(self) -> str:
        """Which windows and groups it is about, and how many of how many if there are several."""
        named = words.first_ones([subset.short for subset in self.subsets], MOST_NAMED)
        return ": ".join(filter(None, (f"{len(self.subsets):,} of {self.of:,}" * (self.of > 1), named)))


def warnings_of(results: Results) -> list[Warned]:
    """The warnings, the gravest first."""
    return [
        *_of_unused(results),
        *_of_alarms(results.estimates),
        *_of_fit(results),
        *map(Warned, _of_reports(results)),
        *map(Warned, _of_windows(results)),
        *map(Warned, _of_ledger(results)),
        *_of_estimates(results.estimates),
    ]


def _of_unused(results: Results) -> Iterator[Warned]:
    counts = results.counts
    if counts and counts["in_"] and counts["in_"] - counts["used"] >= MOST_UNUSED * counts["in_"]:
        fates = [
            f"{counts[name]:,} {name.replace('_', ' ')}"
            for name in ("duplicates", "late", "out_of_range", "dead_letters")
            if counts[name]
        ]
        unused = counts["in_"] - counts["used"]
        yield Warned(
            f"{unused:,} of {counts['in_']:,} reports were not used ({words.listed(fates)}): find out why "
            "before you read on.",
            loud=True,
        )


def _of_alarms(records: Sequence[EstimateRecord]) -> Iterator[Warned]:
    """The windows of each attribute that differ from those before them, the latest first."""
    for attribute in dict.fromkeys(record.attribute for record in records):
        subsets = {Subset.of(record) for record in records if record.attribute == attribute}
        alarms = {
            Subset.of(record): record.alarm
            for record in sorted(records, key=lambda record: record.window_start or "", reverse=True)
            if record.attribute == attribute and record.alarm is not None and record.alarm.differs
        }
        if alarms:
            last = next(iter(alarms.values()))
            expected = (words.percent if last.number.startswith("share") else words.number)(last.expected)
            yield Warned(
                "unlike the same hours and weekdays of earlier weeks, which let expect "
                f"{expected}{' in the latest' if len(alarms) > 1 else ''}.",
                attribute,
                list(dict.fromkeys(f"the {alarm.number}" for alarm in alarms.values())),
                list(alarms),
                len(subsets),
            )


def _of_fit(results: Results) -> Iterator[Warned]:
    flagged = [test for run in results.runs if run.fit for test in run.fit.tests if test.flagged]
    for test in flagged[:MOST_NAMED]:
        yield misfit(test, results.clock)
    if len(flagged) > MOST_NAMED:
        yield Warned(f"{words.counted(len(flagged) - MOST_NAMED, 'more test')} of fit are flagged.")


def misfit(test: FitEntry, clock: Clock | None = None) -> Warned:
    """A flagged test in words."""
    subset = Subset.of_test(test, clock)
    sentence = f"{words_of_fit.misfit(test.test, test.services, test.reports)}."
    return Warned(sentence, test.attribute, subsets=[subset] if str(subset) else [])


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
        yield from (f"{sentence[0].upper()}{sentence[1:]}." for sentence in lacking(period))
        if period.users_over_cap:
            span = span_name(period.period_start, period.period_end, results.clock)
            yield (
                f"{words.counted(period.users_over_cap, 'user')} spent more than epsilon {period.cap:g} in "
                f"all in the period {span}."
            )


def _of_estimates(records: Sequence[EstimateRecord]) -> Iterator[Warned]:
    """What estimators and intervals say of themselves: a sentence once, with all windows and groups."""
    kinds: dict[tuple[str, str], list[tuple[str, str, Subset]]] = {}
    subsets: dict[str, dict[Subset, None]] = {}
    for record in records:
        subset = Subset.of(record)
        subsets.setdefault(record.attribute, {})[subset] = None
        said = [(record.name, text) for text in (*record.warnings, *record.notes)]
        if not record.converged:
            said.append((record.name, "stopped before it converged"))
        for part, flags in (record.intervals.flags if record.intervals is not None else {}).items():
            said += [(_INTERVALS[part], flag) for flag in re.split(rf" \({PAGE}\)(?:; |$)", flags) if flag]
        for part, text in said:
            kinds.setdefault((record.attribute, _NUMBERS.sub("", text)), []).append((part, text, subset))
    most = sorted(kinds.items(), key=lambda kind: -len({subset for *_, subset in kind[1]}))
    for (attribute, _), own in most[:MOST_SAID]:
        where = {subset for *_, subset in own}
        yield Warned(
            f"{merged([text for _, text, _ in own])}.",
            attribute,
            list(dict.fromkeys(part for part, *_ in own)),
            [
                subset
                for subset in sorted(subsets[attribute], key=lambda own: own.start or "", reverse=True)
                if subset in where
            ],
            len(subsets[attribute]),
            minor=True,
        )
    if len(kinds) > MOST_SAID:
        yield Warned(f"{len(kinds) - MOST_SAID:,} more warnings are in the output.")


def merged(texts: Sequence[str]) -> str:
    """Sentences that differ in numbers only as one, with the least and the greatest of each number."""
    columns = zip(*(_NUMBERS.findall(text) for text in texts), strict=True)
    spans = iter(
        [
            sorted(dict.fromkeys(column), key=lambda number: float(re.sub("[,%]", "", number)))
            for column in columns
        ]
    )

    def span(_: re.Match[str]) -> str:
        own = next(spans)
        return own[0] if len(own) == 1 else f"{own[0]} to {own[-1]}"

    return _NUMBERS.sub(span, texts[0])

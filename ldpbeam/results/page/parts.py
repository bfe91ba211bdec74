"""Where the numbers come from: the accounting, the ledger, the tests of fit, and the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ldpbeam import words
from ldpbeam.answers.misfits import tally
from ldpbeam.answers.results import Results
from ldpbeam.charts.subject import span_name
from ldpbeam.results.page.html import Part, Table, table_of
from ldpbeam.transforms.reports.counts import FATES, IN_OPEN_WINDOWS

#: A table has this many rows, the latest.
MOST_ROWS = 30


def parts_of(results: Results) -> list[Part]:
    """The parts that the output has."""
    return [*_accounting(results), *_fit(results), *_ledger(results), *_periods(results), _runs(results)]


def _accounting(results: Results) -> Iterator[Part]:
    counts = results.counts
    if not counts:
        return
    read = counts["in_"]
    rows = [
        (name.replace("_", " "), f"{counts[name]:,}", words.percent(counts[name] / read) if read else "")
        for name in FATES
    ]
    rows += [
        (f"- {reason.replace('_', ' ')}", f"{count:,}", words.percent(count / read) if read else "")
        for reason, count in results.dead_letters_by_reason.items()
    ]
    waiting = counts.get(IN_OPEN_WINDOWS) or 0
    total = sum(counts[name] for name in FATES) + waiting
    sentence = f"{words.counted(read, 'report was', 'reports were')} read, and every one is accounted for."
    if total != read:
        sentence = f"{read:,} reports were read, but {total:,} are accounted for."
    more = []
    if waiting:
        more = [f"{words.counted(waiting, 'report waits', 'reports wait')} in open windows."]
    if counts.get("used_in_windows"):
        more += [f"Windows slide and share reports: together they used {counts['used_in_windows']:,}."]
    if counts.get("not_estimated"):
        left = words.counted(counts["not_estimated"], "window or group", "windows or groups")
        reports = words.counted(counts["reports_not_estimated"], "report")
        more.append(f"Not estimated: {left}, with {reports} in all.")
    yield Part(
        "What became of the reports",
        [sentence, *more],
        Table(("fate", "reports", "share"), rows, frozenset(("reports", "share"))),
    )


def _fit(results: Results) -> Iterator[Part]:
    fits = [run.fit for run in results.runs if run.fit is not None]
    tests = [test for fit in fits for test in fit.tests]
    if not tests:
        return
    flagged = sum(test.flagged for test in tests)
    sentences = [f"{tally(flagged, len(tests))}; fit.json has them."]
    sentences += [f"Not tested: {sentence}." for fit in fits for sentence in dict.fromkeys(fit.not_tested)]
    yield Part("Do the reports fit?", sentences)


def _ledger(results: Results) -> Iterator[Part]:
    entries = [entry for run in results.runs for entry in run.ledger]
    if not entries:
        return
    users: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        for spent in entry.spent:
            delta = f", delta {spent.delta:g}" if spent.delta else ""
            users[entry.attribute, f"{spent.epsilon:g}{delta}"] += spent.users
    sentences = [
        "The epsilon of each user's kept reports, added up for each attribute, window and group; a user in "
        "several is counted in each.",
    ]
    rows = [(attribute, epsilon, f"{count:,}") for (attribute, epsilon), count in users.items()][:MOST_ROWS]
    names = ("attribute", "epsilon", "users")
    yield Part("What users spent", sentences, Table(names, rows, frozenset(names[1:])))


def _periods(results: Results) -> Iterator[Part]:
    """What users spent over periods: a row per epsilon, and both lines where they differ."""
    if not results.periods:
        return
    rows, several = [], len(results.periods) > 1
    remembered = any(period.about_values != period.changes_included for period in results.periods)
    for period in results.periods:
        span = span_name(period.period_start, period.period_end, results.clock)
        for line, levels in (
            ("about values", period.about_values),
            ("changes included", period.changes_included),
        ):
            if line == "about values" or remembered:
                rows += [
                    {
                        "period": span if several else "",
                        "line": line if remembered else "",
                        "epsilon at most": f"{level.at_most:g}",
                        "users": f"{level.users:,}",
                    }
                    for level in levels
                ]
    sentences = [
        "What each user's reports spent over a period, in all windows, services and attributes: all that "
        "were received, used or not. Periods begin at multiples of their length from 1970 on, so any time "
        "of that length may hold the epsilons of two periods."
    ]
    if not several:
        sentences.append(f"The period is {span}.")
    if remembered:
        sentences.append(
            "Clients remember their noise: about values is what reports reveal of the values a user had, "
            "changes included is what they reveal about anything. The cap is compared with the first."
        )
    period = results.periods[-1]
    if period.cap is not None:
        sentences.append(f"The cap is epsilon {period.cap:g} for a period.")
    if len(rows) > MOST_ROWS:
        sentences.append(
            f"The last {MOST_ROWS} of {len(rows):,} rows are listed; ledger_periods.json has all."
        )
    table = table_of(rows[-MOST_ROWS:], ("epsilon at most", "users"), optional=("period", "line"))
    yield Part("What users spent over periods", sentences, table)


def _runs(results: Results) -> Part:
    rows = []
    for run in results.runs[-MOST_ROWS:]:
        about = run.about
        span = span_name(about.from_, about.to, results.clock) if about.from_ and about.to else ""
        state = {True: "finished", False: "not finished", None: "a stream"}[run.finished]
        given = ", ".join(about.input) or about.reads
        rows.append({"run": about.run, "span": span, "input": given, "state": state})
    study = f"Study {results.about.study}, fingerprint {results.about.study_fingerprint}."
    return Part(
        "Runs" if len(rows) > 1 else "The run", [study], table_of(rows, optional=("run", "span", "input"))
    )

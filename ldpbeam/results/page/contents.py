"""What the page says about one output: its facts, warnings, charts and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ldpbeam import words
from ldpbeam.answers.explain import explain
from ldpbeam.answers.named_numbers import Numbers, by_key, numbers_of
from ldpbeam.answers.people import People
from ldpbeam.answers.results import Results
from ldpbeam.answers.tables import why_none
from ldpbeam.answers.truth import Truth, truth_of
from ldpbeam.cells import Clock
from ldpbeam.certainty import ANY_LOOK, IF_SMOOTH, LARGEST
from ldpbeam.charts.attribute import figures_of
from ldpbeam.charts.names import most_frequent, values_of
from ldpbeam.charts.subject import Subject, Subset, shown_times
from ldpbeam.results.page.answer import answer_of
from ldpbeam.results.page.events import compared_at, parts_of_changes
from ldpbeam.results.page.html import Chapter, Content, Table, table_of
from ldpbeam.results.page.parts import parts_of
from ldpbeam.results.page.warnings import caution_of, notes_of, warnings_of
from ldpbeam.results.totals import ALL, totals_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study, attribute_of
from ldpbeam.windows import Bounds

#: This many attributes have charts, so that the page stays small.
MOST_CHARTED = 20
#: The tables of all attributes have this many estimates, and each at least this many.
MOST_ESTIMATES, LEAST_ESTIMATES = 240, 12
#: The table of an attribute has this many categories or keys, the most frequent ones.
MOST_COLUMNS = 12
_KINDS = {
    "batch": "one run over files",
    "scheduled": "scheduled runs",
    "stream": "a stream",
    "rollup": "a roll-up of statistics",
}


def content_of(
    results: Results, people: Mapping[str, People], events: Mapping[str, int] | None = None
) -> Content:
    """The content of a page about one output.

    Args:
        results: what is in the output folder.
        people: true values to compare with, by attribute; they need the study in the folder.
        events: times, by name, before and after which windows are compared; None to mark those of the study.
    """
    study, records = results.study, [*by_key(results.estimates).values()]
    names = list(dict.fromkeys(record.attribute for record in records))
    marked = events if events is not None else study.events if study is not None else {}
    changes, totals = compared_at(results, events or {}), totals_of(results, records)
    chapters = []
    for index, name in enumerate(names):
        of_name = [record for record in records if record.attribute == name]
        of_all = [total for total in totals if total.attribute == name]
        subject = Subject(name, [*of_name, *of_all], results.clock, marked)
        charted, people_of_name = index < MOST_CHARTED, people.get(attribute_of(name))
        truths = _truths(study, subject, people_of_name) if study and people_of_name else {}
        chapters.append(
            Chapter(
                name,
                figures_of(subject, truths) if charted else (),
                _estimates(subject, max(LEAST_ESTIMATES, MOST_ESTIMATES // len(names))),
                "" if charted else "Its charts are left out, to keep the page small.",
                answer_of(subject, study, changes),
                caution_of(of_name, bool(changes)),
                notes_of(of_name),
            )
        )
    return Content(
        title=results.about.study,
        lead=_lead(results, records),
        warnings=warnings_of(results),
        chapters=chapters,
        sentences=explain(study) if study is not None else (),
        parts=[*parts_of_changes(changes), *parts_of(results)],
    )


def _truths(study: Study, subject: Subject, people: People) -> dict[Subset, Truth]:
    """The truth for each window and group of an attribute that has people in the file."""
    truths = {}
    for subset, records in subject.subsets.items():
        if not subset.other_groups:
            group, those = subset.group, people
            if group == ALL:
                group, those = None, replace(people, groups=None)
            if truth := truth_of(study, subject.name, records[0].window, group, those):
                truths[subset] = truth
    return truths


def _lead(results: Results, records: Sequence[EstimateRecord]) -> list[str]:
    """How many people and reports there are, when and of how many groups, and what each person spent."""
    if not records:
        if results.kind == "stream":
            return ["No window has estimates yet."]
        return [f"There is no estimate: {why_none(results.counts)}."]
    people: dict[Bounds | None, Counter[tuple[str, str]]] = {}
    for record in records:
        if not record.joined and record.users is not None:
            people.setdefault(record.window, Counter())[record.attribute, record.name] += record.users
    users = sorted(max(own.values()) for own in people.values())
    windows = {
        (record.window_start, record.window_end)
        for record in records
        if record.window_start and not record.joined
    }
    groups = {record.group for record in records if record.group is not None}
    others = max((record.other_groups for record in records), default=0)
    used = results.counts.get("used") or sum(
        record.reports for record in records if record.name == records[0].name
    )
    spent = [part.epsilon for run in results.runs for entry in run.ledger for part in entry.spent]
    some, again = "", ""
    if users:
        most_users = words.counted(users[-1], "person", "people")
        some = f"{users[0]:,} to {most_users}" if users[0] < users[-1] else most_users
    if len(windows) > 1:
        some = f"{some} in each of {words.counted(len(windows), 'window')}".strip()
        again = "The same person may be in several windows. " * bool(users)
    parts = [
        some,
        _span(windows, results.clock) if windows else "",
        words.counted(len(groups) + others, "group") if groups else "",
        f"{words.counted(used, 'report')} from {_KINDS[results.kind]}",
    ]
    per_window = " in a window" if windows else ""
    adds = "; what one person spends on several of them adds up"
    most = (
        f"Each person spent at most epsilon {max(spent):g} on an attribute{per_window}{adds}. "
        if spent
        else ""
    )
    return [
        "{}.".format(" \u00b7 ".join(filter(None, parts))),
        f"{again}{most}Noise was added to every answer before it was sent.",
    ]


def _span(windows: Collection[tuple[str | None, str | None]], clock: Clock | None) -> str:
    """The time of all windows, and whose clocks show it."""
    start, end = min(start or "" for start, _ in windows), max(end or "" for _, end in windows)
    zone = "UTC" if clock is None else clock.zone.rpartition("/")[2].replace("_", " ")
    return f"{words.span(*shown_times(Subset(start, end, None, 0), clock))} ({zone})"


def _estimates(subject: Subject, most: int) -> Table:
    """All numbers of an attribute, the latest if there are many."""
    chosen = [record for records in subject.subsets.values() for record in records][-most:]
    frequent = most_frequent([values_of(record, "frequencies") for record in chosen], MOST_COLUMNS)
    rows = []
    for record in chosen:
        subset = Subset.of(record)
        row = {
            "window": subset.window,
            "group": subset.group_name,
            "estimate": record.name if len({own.name for own in subject.records}) > 1 else "",
            "reports": f"{record.reports:,}",
            "users": "" if record.users in (None, record.reports) else f"{record.users:,}",
        }
        for part in numbers_of(record):
            if part.family not in ("variances", "value buckets"):
                row |= {
                    name: _cell(part, place)
                    for place, name in enumerate(part.names)
                    if not record.labels or name.partition(" of ")[2] in frequent
                }
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    filled = [{name: row.get(name, "") for name in names} for row in rows]
    return table_of(filled, {*names} - {"window", "group", "estimate"}, optional=names)


#: How the intervals of a number are told from each other.
_HOW = {"certainly": LARGEST, "if smooth": IF_SMOOTH, "at any look": ANY_LOOK}


def _cell(part: Numbers, place: int) -> str:
    """A number with its intervals: what is certain of it, if people are spread smoothly, and at any look.

    The certain interval of one of the largest shares holds for the largest.
    """
    share = part.family in ("ranges", "shares")
    said = [
        f"{how} {words.rounded_ends(ends, share=share)}"
        for how, condition in _HOW.items()
        if condition in (*part.ends, LARGEST) and (ends := part.interval(condition, place))
    ]
    number = words.rounded(float(part.values[place]), part.interval(IF_SMOOTH, place), share=share)
    return f"{number} ({'; '.join(said)})" if said else number

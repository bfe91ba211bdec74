"""What the page says about one output: its facts, warnings, charts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ldpbeam import words
from ldpbeam.answers.named_numbers import by_key
from ldpbeam.answers.people import People
from ldpbeam.answers.results import Results
from ldpbeam.answers.tables import why_none
from ldpbeam.answers.truth import Truth, truth_of
from ldpbeam.charts.attribute import figures_of
from ldpbeam.charts.figures import Table, table_of
from ldpbeam.charts.subject import Subject, Subset, mean_ends
from ldpbeam.results.page.changes import changes_of
from ldpbeam.results.page.html import Chapter, Content
from ldpbeam.results.page.parts import parts_of
from ldpbeam.results.page.warnings import warnings_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study, attribute_of

_KINDS = {
    "batch": "one run over files",
    "scheduled": "scheduled runs",
    "stream": "a stream",
    "rollup": "a roll-up of statistics",
}


def content_of(
    results: Results,
    sentences: Sequence[str],
    people: Mapping[str, People],
    most_panels: int = 12,
    most_charted: int | None = None,
) -> Content:
    """The content of a page about one output.

    Args:
        results: what is in the output folder.
        sentences: what the study does; if there are none, its estimates are listed.
        people: true values to compare with, by attribute; they need the study in the folder.
        most_panels: a figure has at most this many panels.
        most_charted: this many attributes have charts; None for all.
    """
    study, records = results.study, list(by_key(results.estimates).values())
    names = list(dict.fromkeys(record.attribute for record in records))
    chapters = []
    by_name = {name: [record for record in records if record.attribute == name] for name in names}
    for index, (name, records_of_name) in enumerate(by_name.items()):
        subject = Subject(name, records_of_name, most_panels)
        estimates = _estimates(subject, max(LEAST_ESTIMATES, MOST_ESTIMATES // len(names)))
        if most_charted is not None and index >= most_charted:
            chapters.append(Chapter(name, (), estimates, "Its charts are left out, to keep the page small."))
            continue
        people_of_name = people.get(attribute_of(name))
        truths = _truths(study, subject, people_of_name) if study and people_of_name else {}
        changes = tuple(changes_of(subject, study))
        chapters.append(Chapter(name, figures_of(subject, truths), estimates, changes=changes))
    return Content(
        title=results.about.study,
        lead=_lead(results, records, names),
        facts=list(_facts(results, records)),
        warnings=warnings_of(results),
        chapters=chapters,
        sentences=sentences or list(_listed(records)),
        parts=parts_of(results),
    )


def _truths(study: Study, subject: Subject, people: People) -> dict[Subset, Truth]:
    """The truth for each window and group of an attribute that has people in the file."""
    return {
        subset: truth
        for subset, records in subject.subsets.items()
        if not subset.other_groups
        and (truth := truth_of(study, subject.name, records[0].window, subset.group, people))
    }


def _lead(results: Results, records: Sequence[EstimateRecord], names: Sequence[str]) -> str:
    if not records:
        if results.kind == "stream":
            return "No window has estimates yet."
        return f"There is no estimate: {why_none(results.counts)}."
    what = words.listed(names) if len(names) <= 4 else f"{len(names)} attributes"
    services = list(dict.fromkeys(service for record in records for service in record.services))
    who = words.listed(services) if len(services) <= 6 else f"{len(services)} services"
    starts = sorted(record.window_start for record in records if record.window_start)
    ends = sorted(record.window_end for record in records if record.window_end)
    when = f", {words.window(starts[0], ends[-1])}" if starts else ""
    return (
        f"Estimates of {what} from {_KINDS[results.kind]}{when}. Each report was perturbed under local "
        f"differential privacy before {who} received it."
    )


def _facts(results: Results, records: Sequence[EstimateRecord]) -> Iterator[tuple[str, str]]:
    counts = results.counts
    if counts:
        yield "reports used", f"{counts['used']:,}"
        yield "of reports read", f"{counts['in_']:,}"
    elif records:
        first = [record for record in records if record.name == records[0].name]
        yield "reports", f"{sum(record.reports for record in first):,}"
    windows = len({record.window for record in records if record.window})
    if windows:
        yield "windows", f"{windows:,}"
    groups = len({record.group for record in records if record.group is not None})
    others = max((record.other_groups for record in records), default=0)
    if groups:
        more = f" and {others:,} {'other' if others == 1 else 'others'}" if others else ""
        yield "groups", f"{groups:,}{more}"
    spent = [part for run in results.runs for entry in run.ledger for part in entry.spent]
    if spent:
        yield (
            "most epsilon of a user" + (" per window" if windows else ""),
            f"{max(s.epsilon for s in spent):g}",
        )
    if not windows and not groups and len({record.users for record in records}) == 1 and records[0].users:
        yield "users", f"{records[0].users:,}"


def _listed(records: Sequence[EstimateRecord]) -> Iterator[str]:
    """A sentence for each estimate."""
    seen = set()
    for record in records:
        if (record.attribute, record.name) not in seen:
            seen.add((record.attribute, record.name))
            yield (
                f"Estimate '{record.name}' of '{record.attribute}' is {record.estimator} from "
                f"{words.listed(record.services)}."
            )


#: The tables of all attributes have this many estimates, and each at least this many.
MOST_ESTIMATES, LEAST_ESTIMATES = 600, 12


def _estimates(subject: Subject, most: int) -> Table:
    """All estimates of an attribute: one row each, the latest windows if there are many."""
    rows = []
    for subset, records in subject.subsets.items():
        for record in records:
            quantiles = record.quantiles or {}
            rows.append(
                {
                    "window": subset.window,
                    "group": subset.group_name,
                    "estimate": record.name,
                    "estimator": record.estimator,
                    "reports": f"{record.reports:,}",
                    "users": "" if record.users is None else f"{record.users:,}",
                    "mean": words.number(record.mean),
                    "interval": words.interval(mean_ends(record)),
                    "5%": words.number(quantiles.get("0.05")),
                    "median": words.number(quantiles.get("0.5")),
                    "95%": words.number(quantiles.get("0.95")),
                }
            )
    texts = {"window", "group", "estimate", "estimator"}
    return table_of(rows[-most:], rows[0].keys() - texts, optional=rows[0])

"""What the page says about one output: its facts, warnings, charts and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ldpbeam import words
from ldpbeam.answers.named_numbers import by_key, numbers_of
from ldpbeam.answers.people import People
from ldpbeam.answers.results import Results
from ldpbeam.answers.tables import why_none
from ldpbeam.answers.truth import Truth, truth_of
from ldpbeam.charts.attribute import figures_of
from ldpbeam.charts.figures import Table, table_of
from ldpbeam.charts.names import values_of
from ldpbeam.charts.panels import most_frequent
from ldpbeam.charts.subject import Subject, Subset, span_name
from ldpbeam.results.page.answer import answer_of
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
    most_charted: int | None = None,
) -> Content:
    """The content of a page about one output.

    Args:
        results: what is in the output folder.
        sentences: what the study does; if there are none, its estimates are listed.
        people: true values to compare with, by attribute; they need the study in the folder.
        most_charted: this many attributes have charts; None for all.
    """
    study, records = results.study, list(by_key(results.estimates).values())
    names = list(dict.fromkeys(record.attribute for record in records))
    chapters = []
    by_name = {name: [record for record in records if record.attribute == name] for name in names}
    for index, (name, records_of_name) in enumerate(by_name.items()):
        subject = Subject(name, records_of_name, results.clock)
        estimates, subsets = _estimates(subject, max(LEAST_ESTIMATES, MOST_ESTIMATES // len(names)))
        charted = most_charted is None or index < most_charted
        people_of_name = people.get(attribute_of(name)) if charted else None
        truths = _truths(study, subject, people_of_name) if study and people_of_name else {}
        chapters.append(
            Chapter(
                name,
                figures_of(subject, truths) if charted else (),
                estimates,
                subsets,
                "" if charted else "Its charts are left out, to keep the page small.",
                answer_of(subject, study) if charted else None,
            )
        )
    return Content(
        title=results.about.study,
        lead=_lead(results, records),
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


def _lead(results: Results, records: Sequence[EstimateRecord]) -> str:
    if not records:
        if results.kind == "stream":
            return "No window has estimates yet."
        return f"There is no estimate: {why_none(results.counts)}."
    counts = results.counts
    first = [record for record in records if record.name == records[0].name and not record.joined]
    used = counts["used"] if counts else sum(record.reports for record in first)
    windows = {record.window_start: record.window_end for record in first if record.window_start}
    groups = {record.group for record in records if record.group is not None}
    others = max((record.other_groups for record in records), default=0)
    spent = [part.epsilon for run in results.runs for entry in run.ledger for part in entry.spent]
    parts = [
        f"{words.counted(used, 'report')} from {_KINDS[results.kind]}",
        span_name(min(windows), windows[max(windows)] or "", results.clock) if windows else "",
        words.counted(len(windows), "window") if windows else "",
        words.counted(len(groups) + others, "group") if groups else "",
        f"at most epsilon {max(spent):g} of a user{' per window' if windows else ''}" if spent else "",
    ]
    return f"{' · '.join(part for part in parts if part)}. Noise was added to each before it was sent."


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
#: The table of an attribute has this many categories or keys, the most frequent ones.
MOST_COLUMNS = 12
#: A table of at most this many rows has the intervals of all numbers; a longer one those of means.
MOST_WITH_INTERVALS = 12


def _estimates(subject: Subject, most: int) -> tuple[Table, Sequence[Subset]]:
    """All numbers of an attribute, the latest if there are many; and the window and group of each row."""
    chosen = [record for records in subject.subsets.values() for record in records][-most:]
    frequent = most_frequent([values_of(record, "frequencies") for record in chosen], MOST_COLUMNS)
    rows = []
    for record in chosen:
        subset = Subset.of(record)
        row = {
            "window": subset.window,
            "group": subset.group_name,
            "estimate": record.name if len(subject.labels) > 1 else "",
            "reports": f"{record.reports:,}",
            "users": "" if record.users in (None, record.reports) else f"{record.users:,}",
        }
        for part in numbers_of(record):
            share = part.names[0].startswith("share")
            steps = record.bucket_edges is not None and not part.names[0].startswith("share from")
            if (share and steps) or part.names == ["variance"]:
                continue
            none = np.full((len(part.names), 2), np.nan)
            strict, lasting = (none if ends is None else ends for ends in (part.strict, part.any_look))
            columns = (part.values, part.low, part.high, strict.tolist(), lasting.tolist())
            for name, value, low, high, *further in zip(part.names, *columns, strict=True):
                if not record.labels or name.partition(" of ")[2] in frequent:
                    ends = None if math.isnan(low) else (float(low), float(high))
                    row[name] = words.rounded(float(value), ends, share=share)
                    if ends and (name == "mean" or len(chosen) <= MOST_WITH_INTERVALS):
                        sure = "".join(
                            f"; {how} {words.rounded_ends((lowest, highest), share=share)}"
                            for how, (lowest, highest) in zip(
                                ("certainly", "at any look"), further, strict=True
                            )
                            if not math.isnan(lowest)
                        )
                        row[name] += f" ({words.rounded_ends(ends, share=share)}{sure})"
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = ("window", "group", "estimate")
    filled = [{name: row.get(name, "") for name in names} for row in rows]
    return table_of(filled, {*names} - {*texts}, optional=names), [Subset.of(record) for record in chosen]

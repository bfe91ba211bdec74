"""The ledger over periods: how many users spent at most how much, in all windows, services and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from ldpbeam.schemas.outputs.records import PeriodEntry, SpentAtMost
from ldpbeam.spent import Costs, Line, PeriodSpent, added, costs_of, services_of, spent, values_of
from ldpbeam.study import LedgerPeriod, Study
from ldpbeam.times import format_duration, rfc3339


def added_up(study: Study, users: Iterable[pa.RecordBatch]) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period, from rows of sums."""
    costs, totals = costs_of(study), dict[int, PeriodSpent]()
    for batch in users:
        totals = added(totals, spent_in(batch, costs))
    return totals


def spent_in(users: pa.RecordBatch, costs: Costs) -> dict[int, PeriodSpent]:
    """What the users in some rows of sums spent, by the start of the period."""
    periods, *reports = (column.to_numpy() for column in users.columns[2:])
    return spent(periods, np.stack(reports), costs)


def entries_of(study: Study, totals: Mapping[int, PeriodSpent]) -> list[PeriodEntry]:
    """An entry for each period, of what users spent by the start of the period."""
    assert study.ledger is not None
    return [_entry(study.ledger, start, each) for start, each in sorted(totals.items())]


def _entry(ledger: LedgerPeriod, start: int, spent: PeriodSpent) -> PeriodEntry:
    return PeriodEntry(
        period_start=rfc3339(start),
        period_end=rfc3339(ledger.periods.holding(start)[1]),
        users=int(spent.about_values.users.sum()),
        reports=spent.reports,
        about_values=_levels(spent.about_values),
        changes_included=_levels(spent.changes_included),
        delta=spent.delta,
        cap=ledger.cap,
        users_over_cap=spent.about_values.above(ledger.cap),
    )


def _levels(line: Line) -> tuple[SpentAtMost, ...]:
    return tuple(SpentAtMost(epsilon, users) for epsilon, users in line.levels())


def explain(study: Study) -> Iterator[str]:
    """Sentences on what the ledger over periods counts; without a ledger, on settings that have no effect."""
    if study.ledger is None:
        for name, index in services_of(study):
            version = study.attribute(name).versions[index]
            if version.values_at_most:
                yield (
                    f"values_at_most of service {version.label!r} of {name!r} is for the ledger over "
                    "periods, but the study has none: add ledger: {period: 30d}."
                )
        return
    length = format_duration(study.ledger.period)
    yield (
        f"The ledger adds up what each user spends in periods of {length}, of which one began at "
        f"{rfc3339(study.ledger.periods.start(0))}: all reports that were received, in all windows, services "
        "and attributes, used or not."
    )
    if costs_of(study).remembered:
        yield (
            "For clients that remember their noise it gives two figures: what their reports reveal about "
            "which values a user had, and what they reveal about anything, changes included."
        )
    for name, index in services_of(study):
        version = study.attribute(name).versions[index]
        if version.lifetime is not None:
            said = "as the study says" if version.values_at_most else "the most possible"
            yield (
                f"It assumes that a user of service {version.label!r} of {name!r} has at most "
                f"{values_of(version)} different values in a period: {said}."
            )
    if study.ledger.cap is not None:
        yield (
            f"It counts the users who spent more than epsilon {study.ledger.cap:g} about values in a period. "
            f"Any {length} that lie in two periods may hold twice as much."
        )

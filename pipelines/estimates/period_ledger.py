"""The ledger over periods: how many users spent at most how much, in all windows, services and attributes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from apache_beam.io.filesystems import FileSystems
from rich.console import Console
from rich.table import Table

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs.output import LEDGER_PERIODS
from ldpbeam.pipelines.runs.received import ReceivedFile, files_of, users_in_turn
from ldpbeam.schemas.outputs.records import PeriodEntry, SpentAtMost, fields_of
from ldpbeam.spent import Line, PeriodSpent, added, costs_of, services_of, spent, values_of
from ldpbeam.study import LedgerPeriod, Study
from ldpbeam.times import format_duration, rfc3339
from ldpbeam.transforms.storage import write_bytes


def period_entries(study: Study, files: Sequence[ReceivedFile]) -> list[PeriodEntry]:
    """An entry per period of the study, from the files of its runs.

    Raises:
        UserError: if the files are not of this study and of one key, or one is damaged.
    """
    assert study.ledger is not None
    return [_entry(study.ledger, start, spent) for start, spent in sorted(totals_of(study, files).items())]


def totals_of(study: Study, files: Sequence[ReceivedFile]) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period, with a bounded number of rows in memory.

    Raises:
        UserError: if the files are not of this study and of one key, or one is damaged.
    """
    assert study.ledger is not None
    for file in files:
        if file.about.study != study.fingerprint:
            raise UserError(f"{file.path}: a run of another study wrote this ledger")
        if file.about.key != files[0].about.key:
            raise UserError(
                f"{file.path} and {files[0].path} were written with different keys (--user-id-key-file), so "
                "the users of both cannot be brought together"
            )
    costs, totals = costs_of(study), dict[int, PeriodSpent]()
    for rows in users_in_turn(files):
        totals = added(totals, spent(rows, costs, study.ledger))
    return totals


def _entry(ledger: LedgerPeriod, start: int, spent: PeriodSpent) -> PeriodEntry:
    return PeriodEntry(
        period_start=rfc3339(start),
        period_end=rfc3339(start + ledger.period),
        users=int(spent.about_values.users.sum()),
        reports=spent.reports,
        about_values=_levels(spent.about_values),
        changes_included=_levels(spent.changes_included),
        delta=spent.delta,
        cap=ledger.cap,
        users_over_cap=spent.about_values.above(ledger.cap),
    )


def write_periods(study: Study, folders: Sequence[str]) -> list[PeriodEntry]:
    """Add up the ledgers in output folders, write the entries to the first folder, and return them.

    Raises:
        UserError: if they cannot be brought together, or one is damaged.
    """
    entries = period_entries(study, files_of(folders))
    text = json.dumps([fields_of(entry) for entry in entries], indent=1)
    write_bytes(str(FileSystems.join(folders[0], LEDGER_PERIODS)), f"{text}\n".encode())
    return entries


def _levels(line: Line) -> tuple[SpentAtMost, ...]:
    return tuple(SpentAtMost(epsilon, users) for epsilon, users in line.levels())


def print_periods(console: Console, entries: Sequence[PeriodEntry]) -> None:
    """Print a row per period."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("period from", no_wrap=True)
    columns = ("users", "reports", "half spent", "95%", "all", "with changes", "over cap")
    for column in columns:
        table.add_column(column, justify="right")
    for entry in entries:
        levels = (_spent_by(entry, 0.5), _spent_by(entry, 0.95), entry.about_values[-1].at_most)
        table.add_row(
            entry.period_start,
            f"{entry.users:,}",
            f"{entry.reports:,}",
            *(f"{level:.4g}" for level in (*levels, entry.changes_included[-1].at_most)),
            "-" if entry.cap is None else f"{entry.users_over_cap:,}",
        )
    console.print(table)


def _spent_by(entry: PeriodEntry, share: float) -> float:
    """An epsilon that at least this share of the users did not exceed."""
    return next(level.at_most for level in entry.about_values if level.users >= share * entry.users)


def sentences(entries: Sequence[PeriodEntry]) -> Iterator[str]:
    """What a reader of the page or of the command should know."""
    for entry in entries:
        if entry.users_over_cap:
            yield (
                f"{entry.users_over_cap:,} users spent more than epsilon {entry.cap:g} in the period from "
                f"{entry.period_start} to {entry.period_end}"
            )


def explain(study: Study) -> Iterator[str]:
    """What the ledger over periods counts, in sentences; none if the study has none."""
    if study.ledger is None:
        return
    length = format_duration(study.ledger.period)
    yield (
        f"The ledger adds up what each user spends in periods of {length} from 1970-01-01T00:00:00Z on: all "
        "reports that were received, in all windows, services and attributes, used or not."
    )
    if costs_of(study).remembered:
        yield (
            "Of clients that remember their noise it has two lines: what their reports reveal about which "
            "values a user had, and what they reveal about anything, changes included."
        )
    for name, index in services_of(study):
        version = study.attribute(name).versions[index]
        if version.lifetime is not None:
            said = "as the study says" if version.values_at_most else "the most that there can be"
            yield (
                f"It takes a user of service {version.label!r} of {name!r} to have {values_of(version)} "
                f"different values in a period at most: {said}."
            )
    if study.ledger.cap is not None:
        yield (
            f"It counts the users who spent more than epsilon {study.ledger.cap:g} about values in a period. "
            f"Any {length} that lie in two periods may hold twice as much."
        )

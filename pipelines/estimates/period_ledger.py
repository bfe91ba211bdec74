"""The ledger over periods: how many users spent at most how much, in all windows, services and attributes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from apache_beam.io.filesystems import FileSystems
from rich.console import Console
from rich.table import Table

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.estimates import readers
from ldpbeam.pipelines.estimates.read import read_ledgers
from ldpbeam.pipelines.runs.output import LEDGER_PERIODS, Output
from ldpbeam.pipelines.runs.received import ReceivedFile, bring_streams_together, files_of
from ldpbeam.pipelines.runs.scheduled import Scheduled
from ldpbeam.pipelines.runs.sums import read_sums, user_reports, write_sums
from ldpbeam.schemas.outputs.records import Central, LedgerEntry, PeriodEntry, SpentAtMost, fields_of
from ldpbeam.spent import Line, PeriodSpent, UserReports, added, costs_of, services_of, spent, values_of
from ldpbeam.study import LedgerPeriod, Study
from ldpbeam.times import format_duration, rfc3339
from ldpbeam.transforms.storage import write_bytes


def totals_of(study: Study, files: Sequence[ReceivedFile]) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period, with a bounded number of rows in memory.

    Raises:
        UserError: if the files are not of this study and of one key, or one is damaged.
    """
    for file in files:
        if file.about.study != study.fingerprint:
            raise UserError(f"{file.path}: a run of another study wrote this ledger")
        if file.about.key != files[0].about.key:
            raise UserError(
                f"{file.path} and {files[0].path} were written with different keys (--user-id-key-file), so "
                "the users of both cannot be brought together"
            )
    return added_up(study, user_reports(study, files))


def added_up(study: Study, parts: Iterable[UserReports]) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period; no user is in two parts."""
    costs, totals = costs_of(study), dict[int, PeriodSpent]()
    for rows in parts:
        totals = added(totals, spent(rows, costs))
    return totals


def _entry(ledger: LedgerPeriod, start: int, spent: PeriodSpent, claim: Central | None) -> PeriodEntry:
    reports = float(spent.changes_included.epsilons[-1])
    if claim and reports < claim.epsilon:
        # Readers learn no more than the reports of the user who spent most reveal.
        claim = Central(reports, spent.delta)
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
        readers=claim,
    )


def write_periods(study: Study, folders: Sequence[str]) -> list[PeriodEntry]:
    """Add up the ledgers in output folders, write the entries to the first folder, and return them.

    Small files of streams are brought together first.

    Raises:
        UserError: if they cannot be brought together, or one is damaged.
    """
    for folder in folders:
        bring_streams_together(Output(study, folder, ""))
    runs = [entries for folder in folders for entries in read_ledgers(folder).values()]
    return _write(study, totals_of(study, files_of(folders)), runs, folders[0])


def write_periods_after(
    job: Scheduled, before: Sequence[ReceivedFile], after: Sequence[ReceivedFile]
) -> list[PeriodEntry]:
    """What :func:`write_periods` does, of the folder that scheduled runs share as one of them leaves it.

    Args:
        job: the run, which writes to its hidden folder.
        before: the files of the shared folder.
        after: those that it will have.

    Raises:
        UserError: if a file is damaged.
    """
    totals = added_up(job.study, read_sums(write_sums(job.made, before, after)))
    runs = {**read_ledgers(job.output), job.name: read_ledgers(job.made.output)[""]}
    return _write(job.study, totals, list(runs.values()), job.made.output)


def _write(
    study: Study, totals: Mapping[int, PeriodSpent], runs: Sequence[Sequence[LedgerEntry]], folder: str
) -> list[PeriodEntry]:
    assert study.ledger is not None
    entries = [
        _entry(study.ledger, start, each, readers.of_period(study, runs, start))
        for start, each in sorted(totals.items())
    ]
    text = json.dumps([fields_of(entry) for entry in entries], indent=1)
    write_bytes(str(FileSystems.join(folder, LEDGER_PERIODS)), f"{text}\n".encode())
    return entries


def _levels(line: Line) -> tuple[SpentAtMost, ...]:
    return tuple(SpentAtMost(epsilon, users) for epsilon, users in line.levels())


def print_periods(entries: Sequence[PeriodEntry]) -> None:
    """Print a row per period, and what a reader should know of them."""
    if not entries:
        return
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
    Console().print(table)
    for sentence in sentences(entries):
        print(sentence)


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
        yield readers.sentence(entry.readers, f"from {entry.period_start} to {entry.period_end}")


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

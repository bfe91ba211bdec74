"""The sums of a ledger over periods: how many reports of each user count, in a file beside those of the runs.

Each scheduled run adds what it changes: it reads the sums, and the reports of the runs with which it shares
windows, once without it and once with it. So a run after each hour does not read a month of reports. The file
names what it adds up. If that is not what the folder has, because a run was killed or a file was deleted, the
sums are made anew from all reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ldpbeam.answers.ledger_queries import reports_of_users
from ldpbeam.answers.periods import spent_in
from ldpbeam.folders.output import LEDGER_FOLDER, LEDGER_SUMS, Output, files_in
from ldpbeam.pipelines.runs.ledger_folder import (
    ReceivedFile,
    opened,
    rows_in,
    rows_that_count,
    shares_windows,
)
from ldpbeam.schemas.outputs.ledger_format import About, sums_schema, write_rows
from ldpbeam.spent import PeriodSpent, added, costs_of, services_of
from ldpbeam.study import Study
from ldpbeam.transforms.storage import make_folder, replacing

#: If more than this share of all reports would be read for what a run changes, all of them are read.
MOST_READ = 0.5


def user_reports(study: Study, files: Sequence[ReceivedFile]) -> Iterator[pa.RecordBatch]:
    """How many reports of each user count, from the sums or else from all reports.

    Raises:
        UserError: if a file is damaged.
    """
    folders = {file.folder for file in files}
    known = _sums(study, folders.pop(), files) if len(folders) == 1 else None
    if known is not None:
        return rows_in(known, _schema(study))
    return reports_of_users(study, rows_that_count(files))


def write_sums(
    output: Output, before: Sequence[ReceivedFile], after: Sequence[ReceivedFile]
) -> dict[int, PeriodSpent]:
    """Write the sums of a folder as a run leaves it, and return what users spent in each period.

    Args:
        output: where the run writes.
        before: the files of the shared folder.
        after: those that it will have: with the run's own, and without those that it replaces.

    Raises:
        UserError: if a file is damaged.
    """
    study, costs, totals = output.study, costs_of(output.study), dict[int, PeriodSpent]()
    known = _sums(study, before[0].folder, before) if before else None
    less, more = _changed(before, after), _changed(after, before)
    read, every = (sum(file.about.rows for file in files) for files in ([*less, *more], after))
    if known is None or read > MOST_READ * every:
        known, less, more = None, [], list(after)
    sums = rows_in(known, _schema(study)) if known else ()
    rows = reports_of_users(study, rows_that_count(more), rows_that_count(less), sums)

    def added_to_totals() -> Iterator[pa.RecordBatch]:
        nonlocal totals
        for batch in rows:
            totals = added(totals, spent_in(batch, costs))
            yield batch

    about = About(after[0].about.study, after[0].about.key, files=_names(after))
    path = output.path(LEDGER_FOLDER, LEDGER_SUMS)
    make_folder(output.path(LEDGER_FOLDER), private=True)
    with replacing(path, private=True) as stream:
        write_rows(stream, path, _schema(study), about, added_to_totals())
    return totals


def _schema(study: Study) -> pa.Schema:
    return sums_schema(len(services_of(study)))


def _sums(study: Study, folder: str, files: Sequence[ReceivedFile]) -> ReceivedFile | None:
    """The sums in a folder, if they are those of these files."""
    for entry in files_in(folder, f"{LEDGER_FOLDER}/{LEDGER_SUMS}"):
        sums = opened(folder, entry.path, _schema(study))
        if sums.about.files == _names(files):
            return sums
    return None


def _names(files: Sequence[ReceivedFile]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((file.name, file.about.written) for file in files))


def _changed(files: Sequence[ReceivedFile], others: Sequence[ReceivedFile]) -> list[ReceivedFile]:
    """The files that share windows with one that is not in both lists."""
    known = set(_names(files)) ^ set(_names(others))
    differ = [file for file in (*files, *others) if (file.name, file.about.written) in known]
    return [file for file in files if any(shares_windows(file.about, one.about) for one in differ)]

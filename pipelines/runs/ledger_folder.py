"""The files of what users spent: where the runs of an output folder keep them, and how they are added up.

A run of ``ldpbeam estimate`` has one file, which a later run of the same windows replaces. A stream has a
file for each bundle, and brings small ones together while it runs. The rows of all files are a set.

The sums say how many reports of each user count, in a file beside those of the runs. Each scheduled run adds
what it changes: it reads the sums, and the reports of the runs with which it shares windows, once without it
and once with it. So a run after each hour does not read a month of reports. The file names what it adds up.
If that is not what the folder has, because a run was killed or a file was deleted, the sums are rebuilt
from all reports.
"""

from __future__ import annotations

import secrets
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ldpbeam.answers.ledger_queries import check_duckdb, first_received, reports_of_users
from ldpbeam.answers.periods import spent_in
from ldpbeam.errors import UserError, naming
from ldpbeam.folders.output import LEDGER_FOLDER, LEDGER_SUMS, RUNS, Output, files_in
from ldpbeam.pipelines.runs.ownership import one_at_a_time
from ldpbeam.schemas.outputs.ledger_format import (
    RECEIVED_SCHEMA,
    About,
    read_about,
    read_rows,
    sums_schema,
    write_rows,
)
from ldpbeam.spent import PeriodSpent, added, costs_of, services_of
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.ledger_parts import Keeping
from ldpbeam.transforms.outputs.names import span_name
from ldpbeam.transforms.reports.ledger_rows import key_check, ledger_fingerprint
from ldpbeam.transforms.storage import delete, exists, join, make_folder, open_raw, replacing, split
from ldpbeam.windows import EVERYTHING, FAR, Span


@dataclass(frozen=True)
class ReceivedFile:
    """A file of received reports, its output folder, and its header."""

    folder: str
    path: str
    about: About

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return split(self.path)[1]

    @property
    def run_folder(self) -> str:
        """The folder that the file lies in: the ledger's, or that of the ledger of a stream's run."""
        return split(self.path)[0]


def ledger_key(output: Output, key: bytes | None, *, shared: bool) -> bytes | None:
    """The key of a run's ledger over periods; None if the study has none.

    Without a file of the key, a run that shares its folder with no other draws one, and forgets it.

    Raises:
        UserError: if DuckDB is missing, or runs are to be brought together, and no key is given, or another
            one than before.
    """
    if output.study.ledger is None:
        return None
    check_duckdb()
    if key is None:
        if shared:
            raise UserError(
                "--user-id-key-file is missing: the study's ledger brings the users of several runs "
                "together, by the hashes of their ids with this key"
            )
        return secrets.token_bytes(32)
    if shared:
        with unmoved(output):
            files = files_of([output.output])
        for file in files:
            if file.about.key != key_check(key):
                raise UserError(
                    f"--user-id-key-file: {file.path} was written with another key, so the users of both "
                    "cannot be brought together; give the key of the runs before, or another --output"
                )
    return key


def keeping(output: Output, folder: str, key: bytes | None, span: Span = EVERYTHING) -> Keeping | None:
    """What workers need to write what users spent; None without a key."""
    if key is None:
        return None
    about = About(ledger_fingerprint(output.study), key_check(key), span.start, span.stop)
    return Keeping(folder, about, key)


@contextmanager
def unmoved(output: Output) -> Iterator[None]:
    """Let no scheduled run move its files: that deletes others, and replaces what all add up to."""
    scheduled = exists(output.path(LEDGER_FOLDER, LEDGER_SUMS))
    with one_at_a_time(output) if scheduled else nullcontext():
        yield


def files_of(folders: Sequence[str]) -> list[ReceivedFile]:
    """The files of received reports in output folders.

    Raises:
        UserError: if one of them is damaged.
    """
    received_files = []
    for folder in folders:
        with naming(folder):
            entries = [
                entry
                for pattern in (f"{LEDGER_FOLDER}/received-*.arrow", f"{RUNS}/*/{LEDGER_FOLDER}/*.arrow")
                for entry in files_in(folder, pattern)
            ]
        received_files += [opened(folder, entry.path, RECEIVED_SCHEMA) for entry in entries]
    return received_files


def opened(folder: str, path: str, schema: pa.Schema) -> ReceivedFile:
    """A file of a ledger, of which the header alone is read.

    Raises:
        UserError: if it is damaged.
    """
    with naming(path), open_raw(path) as stream:
        return ReceivedFile(folder, path, read_about(stream, path, schema))


def rows_in(file: ReceivedFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file.

    Raises:
        UserError: if the file is damaged.
    """
    with naming(file.path), open_raw(file.path) as stream:
        yield from read_rows(stream, file.path, schema)


def rows_that_count(files: Sequence[ReceivedFile]) -> list[Iterator[pa.RecordBatch]]:
    """The rows of each file.

    Of two runs of a window, the later one counts: its reports replace those of the earlier one. Reports that
    a run received outside of its windows are in no other run's place, and count too.

    Raises:
        UserError: if a file is damaged.
    """
    return [_outside(rows_in(file, RECEIVED_SCHEMA), _replaced(file, files)) for file in files]


def shares_windows(one: About, other: About) -> bool:
    """Whether what counts of one run may depend on the other: they estimate or received one window."""
    overlap = one.start < other.stop and other.start < one.stop
    return overlap or not set(one.windows).isdisjoint(other.windows)


def _replaced(file: ReceivedFile, files: Sequence[ReceivedFile]) -> list[Span]:
    """Those parts of the span of a file's run that later runs in its folder have estimated again."""
    about = file.about
    return [
        Span(max(about.start, other.about.start), min(about.stop, other.about.stop))
        for other in files
        if other.folder == file.folder and other.about.span.bounded and other.about.written > about.written
    ]


def _outside(rows: Iterator[pa.RecordBatch], spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
    """The rows of windows that lie in none of some spans."""
    for batch in rows:
        windows = batch["window"].to_numpy()
        for_each = [span.outside(windows) for span in spans]
        yield batch.filter(pa.array(np.logical_and.reduce(for_each))) if spans else batch


def bring_together(output: Output, kept: Keeping, before: Sequence[ReceivedFile] = ()) -> list[ReceivedFile]:
    """Make one file of the parts that the workers of a run of ``estimate`` wrote, and delete these.

    A run that received nothing has a file too, which replaces those of earlier runs of its windows.

    Args:
        output: the run.
        kept: where the parts are.
        before: the files of the runs that it shares its folder with: it comes later than all of them.

    Returns:
        The files of the folder when that of the run is in place.
    """
    span = kept.about.span
    parts = [opened(output.output, entry.path, RECEIVED_SCHEMA) for entry in files_in(kept.folder, "*.arrow")]
    written = max(max((file.about.written for file in before), default=0) + 1, time.time_ns() // 1_000_000)
    about = replace(kept.about, written=written)
    others = [file for file in before if not span.holds((file.about.start, file.about.stop))]
    name = span_name(span.start, span.stop) if span.start > -FAR and span.stop < FAR else "all"
    make_folder(output.path(LEDGER_FOLDER), private=True)
    path = output.path(LEDGER_FOLDER, f"received-{name}.arrow")
    received = _write_together(parts, about, path, others)
    clear_parts(kept)
    return [*others, replace(received, folder=before[0].folder if before else output.output)]


def bring_streams_together(output: Output) -> None:
    """Make one file of the small ones that the workers of each stream in a folder wrote, and delete these.

    What is left are few files, each with more rows than all smaller ones together, so that a row is written
    again only when their number has doubled. The rows are a set: a reader who sees old files and the new one
    counts them once.

    Raises:
        UserError: if a file is damaged.
    """
    by_run: dict[str, list[ReceivedFile]] = {}
    if not files_in(output.path(RUNS), f"*/{LEDGER_FOLDER}/*.arrow"):
        return
    with one_at_a_time(output):
        for file in files_of([output.output]):
            if file.run_folder != output.path(LEDGER_FOLDER):
                by_run.setdefault(file.run_folder, []).append(file)
        for folder, files in by_run.items():
            files.sort(key=lambda file: file.about.rows)
            rows = np.array([file.about.rows for file in files])
            small = np.flatnonzero(rows[1:] <= np.cumsum(rows)[:-1])
            if len(small):
                some = files[: small[-1] + 2]
                path = join(folder, f"{uuid.uuid4().hex}.arrow")
                _write_together(some, some[0].about, path)
                delete([file.path for file in some])


def _write_together(
    parts: Sequence[ReceivedFile], about: About, path: str, others: Sequence[ReceivedFile] = ()
) -> ReceivedFile:
    """Write the rows of all parts, without those outside of the run's windows that other runs have."""
    rows = sum(part.about.rows for part in parts)
    windows = sorted({window for part in parts for window in part.about.windows})
    about = replace(about, rows=rows, windows=tuple(windows))
    near = [file for file in others if shares_windows(about, file.about)]
    received = first_received(
        [rows_in(part, RECEIVED_SCHEMA) for part in parts],
        [_outside(each, [about.span]) for each in rows_that_count(near)],
    )
    with replacing(path, private=True) as stream:
        write_rows(stream, path, RECEIVED_SCHEMA, about, received)
    return ReceivedFile("", path, about)


def clear_parts(kept: Keeping) -> None:
    """Delete what workers of this run, or of one that was killed, left in the folder of parts."""
    delete([entry.path for pattern in ("*", ".*") for entry in files_in(kept.folder, pattern)])
    if "://" not in kept.folder:
        shutil.rmtree(kept.folder, ignore_errors=True)


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

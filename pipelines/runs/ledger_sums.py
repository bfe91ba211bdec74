"""The sums of a ledger over periods: how many reports of each user count, in a file beside those of the runs.

Each scheduled run adds what it changes: it reads the sums, and the reports of the runs with which it shares
windows, once without it and once with it. So a run after each hour does not read a month of reports. The file
names what it adds up. If that is not what the folder has, because a run was killed or a file was deleted, the
sums are made anew from all reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ldpbeam.folders.output import LEDGER_FOLDER, LEDGER_SUMS, Output, files_in
from ldpbeam.over_time.received import UserReports, counted, negative, summed
from ldpbeam.pipelines.runs.ledger_folder import (
    ReceivedFile,
    bits_at_once,
    opened,
    rows_in,
    shares_windows,
    users_in_turn,
)
from ldpbeam.schemas.outputs.ledger_format import About, bits_for, write_rows
from ldpbeam.study import Study
from ldpbeam.transforms.storage import make_folder, replacing

#: The hash of a user does not compress, so a file of sums has at most one row for this many bytes.
ROW_BYTES = 16
#: If more than this share of all reports would be read for what a run changes, all of them are read.
MOST_READ = 0.5


def user_reports(study: Study, files: Sequence[ReceivedFile]) -> Iterator[UserReports]:
    """How many reports of each user count, in parts, from the sums or else from all reports.

    Raises:
        UserError: if a file is damaged.
    """
    folders = {file.folder for file in files}
    known = _sums(folders.pop(), files) if len(folders) == 1 else None
    if known is not None:
        yield from read_sums(known)
        return
    assert study.ledger is not None
    for rows in users_in_turn(files):
        yield counted(rows, study.ledger.periods)


def write_sums(output: Output, before: Sequence[ReceivedFile], after: Sequence[ReceivedFile]) -> ReceivedFile:
    """Write the sums of a folder as a run leaves it, and return their file.

    Args:
        output: where the run writes.
        before: the files of the shared folder.
        after: those that it will have: with the run's own, and without those that it replaces.

    Raises:
        UserError: if a file is damaged.
    """
    assert output.study.ledger is not None
    periods = output.study.ledger.periods
    known = _sums(before[0].folder, before) if before else None
    minus, plus = _changed(before, after), _changed(after, before)
    read, every = (sum(file.about.rows for file in files) for files in ([*minus, *plus], after))
    if known is None or read > MOST_READ * every:
        known, minus, plus = None, [], list(after)
    sources = [*minus, *plus, *([known] if known else [])]
    rows, bits = sum(file.about.rows for file in sources if file not in minus), bits_at_once(sources)
    about = About(
        after[0].about.study,
        after[0].about.key,
        rows=rows,
        bits=max(bits, bits_for(rows)),
        files=_names(after),
    )

    def parts() -> Iterator[UserReports]:
        sums = read_sums(known, bits) if known else (UserReports.concatenated([]) for _ in range(1 << bits))
        pairs = zip(users_in_turn(minus, bits), users_in_turn(plus, bits), strict=True)
        for total, (less, more) in zip(sums, pairs, strict=True):
            changes = [total, negative(counted(less, periods)), counted(more, periods)]
            yield summed(UserReports.concatenated(changes))

    path = output.path(LEDGER_FOLDER, LEDGER_SUMS)
    make_folder(output.path(LEDGER_FOLDER), private=True)
    with replacing(path, private=True) as stream:
        write_rows(stream, path, UserReports, about, parts())
    return ReceivedFile(output.output, path, about)


def read_sums(sums: ReceivedFile, bits: int | None = None) -> Iterator[UserReports]:
    """The rows of a file of sums, in 2^bits parts.

    Raises:
        UserError: if it is damaged.
    """
    bits = bits_at_once([sums]) if bits is None else bits
    for batch in range(1 << bits):
        yield rows_in(sums, UserReports, bits, batch)


def _sums(folder: str, files: Sequence[ReceivedFile]) -> ReceivedFile | None:
    """The sums in a folder, if they are those of these files."""
    for entry in files_in(folder, f"{LEDGER_FOLDER}/{LEDGER_SUMS}"):
        sums = opened(folder, entry.path, UserReports)
        if sums.about.files == _names(files):
            rows = min(sums.about.rows, entry.size_in_bytes // ROW_BYTES)
            return replace(sums, about=replace(sums.about, rows=rows))
    return None


def _names(files: Sequence[ReceivedFile]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((file.name, file.about.written) for file in files))


def _changed(files: Sequence[ReceivedFile], others: Sequence[ReceivedFile]) -> list[ReceivedFile]:
    """The files that share windows with one that is not in both lists."""
    known = set(_names(files)) ^ set(_names(others))
    differ = [file for file in (*files, *others) if (file.name, file.about.written) in known]
    return [file for file in files if any(shares_windows(file.about, one.about) for one in differ)]

"""The ledgers in output folders: of the windows of a run, and of periods, added up from the files of runs."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ldpbeam.answers import periods
from ldpbeam.answers.fitting import print_fitting
from ldpbeam.answers.ledger import Ledger
from ldpbeam.answers.ledger_sentences import sentences
from ldpbeam.cells import Cells
from ldpbeam.errors import UserError
from ldpbeam.folders.output import ESTIMATES, LEDGER, LEDGER_PERIODS, Output, names_in
from ldpbeam.pipelines.runs.ledger_folder import (
    ReceivedFile,
    bring_streams_together,
    files_of,
    unmoved,
    user_reports,
    write_sums,
)
from ldpbeam.pipelines.runs.scheduled import Scheduled
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.outputs.ledger_format import About
from ldpbeam.schemas.outputs.records import PeriodEntry
from ldpbeam.spent import PeriodSpent
from ldpbeam.study import Study
from ldpbeam.times import rfc3339, window_fields
from ldpbeam.transforms.outputs.names import window_in
from ldpbeam.transforms.reports.ledger_rows import ledger_fingerprint
from ldpbeam.transforms.storage import join, replacing, write_bytes
from ldpbeam.windows import FAR, Bounds


def write_ledger(job: Output, ledger: Ledger) -> int:
    """Write the ledger of a run, and return how many users are over the study's cap, in all windows."""
    over, before = 0, "["
    with replacing(job.path(LEDGER)) as stream:
        # Of hundreds of thousands of windows in which one user sent the same, one entry is encoded.
        for entry, windows in ledger.alike():
            around = json.dumps(fields_of(entry), indent=1).replace("\n", "\n ").split(_window(None))
            for window in windows:
                stream.write(f"{before}\n {_window(window).join(around)}".encode())
                over, before = over + entry.users_over_cap, ","
        stream.write(b"[]\n" if before == "[" else b"\n]\n")
    return over


def _window(window: Bounds | None) -> str:
    """A window in the text of an entry; quotes in the name of a group are escaped, so it is there once."""
    return ",\n  ".join(
        f"{json.dumps(name)}: {json.dumps(end)}" for name, end in window_fields(window).items()
    )


def totals_of(study: Study, files: Sequence[ReceivedFile]) -> dict[int, PeriodSpent]:
    """What users spent, by the start of the period.

    Raises:
        UserError: if the files are of other services, epsilons, windows or periods than the study's, or of
            several keys, or one is damaged.
    """
    wanted = ledger_fingerprint(study)
    for file in files:
        if file.about.study != wanted:
            raise UserError(
                f"{file.path}: a run of another study wrote this ledger: its services, epsilons, windows or "
                "period differ; estimate the reports of both with one study, into a folder of its own"
            )
        if file.about.key != files[0].about.key:
            raise UserError(
                f"{file.path} and {files[0].path} were written with different keys (--user-id-key-file), so "
                "the users of both cannot be brought together"
            )
    return periods.added_up(study, user_reports(study, files))


def write_periods(study: Study, folders: Sequence[str]) -> list[PeriodEntry]:
    """Add up the ledgers in output folders, write the entries to the first folder, and return them.

    Small files of streams are brought together first.

    Raises:
        UserError: if they cannot be brought together, or one is damaged.
    """
    for folder in folders:
        bring_streams_together(Output(study, folder, ""))
    first = Output(study, folders[0], "")
    with unmoved(first):
        files = files_of(folders)
        entries = periods.entries_of(study, totals_of(study, files))
        for folder in folders:
            entries = _with_missing(entries, study, folder, [file for file in files if file.folder == folder])
        _write(entries, first.path(LEDGER_PERIODS))
    return entries


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
    totals = write_sums(job.made, before, after)
    entries = periods.entries_of(job.study, totals)
    entries = _with_missing(entries, job.study, job.output, after)
    _write(entries, job.made.path(LEDGER_PERIODS))
    return entries


def _with_missing(
    entries: Sequence[PeriodEntry], study: Study, folder: str, files: Sequence[ReceivedFile]
) -> list[PeriodEntry]:
    """The entries, with the spans of a folder that have estimates and no file of received reports."""
    assert study.ledger is not None
    named = map(window_in, names_in(join(folder, ESTIMATES), "*.jsonl"))
    windows = np.array(sorted(set(filter(None, named))), np.int64).reshape(-1, 2)
    missing = _gaps(windows, [file.about for file in files], study.ledger.periods)
    return [
        replace(entry, without_file=(*entry.without_file, *missing[entry.period_start])) for entry in entries
    ]


def _gaps(
    windows: NDArray[np.int64], files: Sequence[About], periods: Cells
) -> defaultdict[str, list[tuple[str, str]]]:
    """The spans of windows that no file is of, by the start of the period.

    A period of which no file is left was forgotten on purpose, and nothing is said of it.
    """
    # A scheduled run has all of its own windows, and need not have all of the others in its file.
    spans = sorted((about.start, about.stop) for about in files if about.span.bounded)
    begin, end = np.array(spans, np.int64).reshape(-1, 2).T
    reach = np.maximum.accumulate(np.append(-FAR, end))[np.searchsorted(begin, windows[:, 0], "right")]
    steps = [about.windows for about in files if not about.span.bounded]
    starts = np.unique(np.array(list(itertools.chain(*steps)), np.int64))
    first, last = np.searchsorted(starts, windows.T)
    period = periods.numbers(windows[:, 1] - 1)
    missing = (reach < windows[:, 1]) & (first == last)
    missing &= np.isin(period, periods.numbers(np.append(starts, end - 1)))
    gaps: dict[int, list[Bounds]] = defaultdict(list)
    for (start, stop), number in zip(windows[missing].tolist(), period[missing].tolist(), strict=True):
        follows = gaps[number] and start <= gaps[number][-1][1]
        gaps[number].append((gaps[number].pop()[0] if follows else start, stop))
    named: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for number, times in gaps.items():
        named[rfc3339(periods.start(number))] = [(rfc3339(start), rfc3339(stop)) for start, stop in times]
    return named


def _write(entries: Sequence[PeriodEntry], path: str) -> None:
    text = json.dumps([fields_of(entry) for entry in entries], indent=1)
    write_bytes(path, f"{text}\n".encode())


def print_periods(entries: Sequence[PeriodEntry]) -> None:
    """Print a row per period, and what a reader should know of them."""
    if not entries:
        return
    rows = [
        {
            "period from": entry.period_start,
            "users": f"{entry.users:,}",
            "reports": f"{entry.reports:,}",
            "half spent": f"{_spent_by(entry, 0.5):.4g}",
            "95%": f"{_spent_by(entry, 0.95):.4g}",
            "all": f"{entry.about_values[-1].at_most:.4g}",
            "with changes": f"{entry.changes_included[-1].at_most:.4g}",
            "over cap": "-" if entry.cap is None else f"{entry.users_over_cap:,}",
        }
        for entry in entries
    ]
    print_fitting(Console(), list(rows[0]), rows, keys=("period from",))
    for sentence in sentences(entries):
        print(sentence)


def _spent_by(entry: PeriodEntry, share: float) -> float:
    """An epsilon that at least this share of the users did not exceed."""
    return next(level.at_most for level in entry.about_values if level.users >= share * entry.users)

"""Read an output folder of ``estimate``, ``stream`` or ``rollup``; a problem becomes one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ldpbeam.answers.alarms import DAY, Before, series_of
from ldpbeam.answers.named_numbers import by_key
from ldpbeam.answers.partial import with_partial
from ldpbeam.answers.results import FolderKind, Results, RunResults
from ldpbeam.errors import StudyError, UserError, naming
from ldpbeam.folders.output import (
    ACCOUNTING,
    DEAD_LETTERS,
    ESTIMATES,
    FIT,
    FIT_FOLDER,
    FORMAT,
    LEDGER,
    LEDGER_PERIODS,
    RUN,
    RUNS,
    STUDY,
    files_in,
    folder_of,
    names_in,
)
from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.older import as_today
from ldpbeam.schemas.outputs.records import (
    Accounting,
    EstimateRecord,
    Fit,
    LedgerEntry,
    PeriodEntry,
    RunRecord,
)
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.names import OF_A_DAY, estimates_from
from ldpbeam.transforms.storage import exists, join, open_raw

if TYPE_CHECKING:
    from ldpbeam.study import Study

_Kind = TypeVar("_Kind")
_WRITERS = "ldpbeam estimate, stream or rollup"


def read_results(folder: str) -> Results:
    """Everything that the runs of an output folder wrote, except dead letters and statistics.

    Raises:
        UserError: if it is not an output folder, no run has finished there, a newer version wrote it, or a
            file is not in its format. The sentence names the file. Values are not checked.
    """
    about = _about(folder)
    results = _alone(folder, about) if about.kind is None else _shared(folder, about, about.kind)
    return replace(results, periods=read_periods(folder))


def dead_letter_files(results: Results) -> Iterator[str]:
    """The files of dead letters of all runs of a folder, in the order of their names."""
    for run in results.runs:
        folder = join(run.folder, DEAD_LETTERS)
        for name in names_in(folder, "*.avro"):
            yield join(folder, name)


def read_periods(folder: str) -> tuple[PeriodEntry, ...]:
    """The latest sums of the ledger over periods of an output folder; empty without one.

    Raises:
        UserError: if it is damaged.
    """
    return _read(tuple[PeriodEntry, ...], folder, LEDGER_PERIODS) or ()


def _alone(folder: str, about: RunRecord) -> Results:
    """The results of a run that shares its folder with no other."""
    if about.complete is False:
        raise UserError(
            f"{folder}: its run has not finished: it is still writing, failed or was interrupted; run the "
            "same command to start it again"
        )
    run = _run(folder, about, finished=True)
    kind: FolderKind = "rollup" if run.accounting is None else "batch"
    estimates = tuple(with_partial(list(_estimates(join(folder, f"{ESTIMATES}.jsonl")))))
    return Results(folder, kind, about, partial(_study, folder, about), (run,), estimates)


def read_study(folder: str) -> Study:
    """The study of an output folder; no other results are read.

    Raises:
        UserError: if it is not an output folder, or its study cannot be read here.
    """
    study, problem = _study(folder, _about(folder))
    if study is None:
        raise UserError(f"{folder}: {problem or 'it does not hold its study'}")
    return study


def _study(folder: str, about: RunRecord) -> tuple[Study | None, str]:
    """The study of a folder; or None, and why it cannot be read here (empty if there is none).

    Estimates can be read without it. Its mechanism may come from a package that is not installed here.
    """
    if not _exists(folder, STUDY):
        return None, ""
    # Imported here, because it imports all mechanisms and estimators.
    from ldpbeam.schemas.study.yaml_file import parse_study

    path = join(folder, STUDY)
    try:
        study = parse_study(_text(path).decode(), path)
    except UnicodeDecodeError:
        return None, f"{path}: it is not UTF-8 text"
    except StudyError as error:
        return None, str(error)
    if study.fingerprint != about.study_fingerprint:
        return None, f"{path}: it is not the study that {RUN} names, or another version of ldpbeam wrote it"
    return study, ""


def _about(folder: str) -> RunRecord:
    path = join(folder, RUN)
    with naming(folder):
        if not folder or not exists(folder):
            raise ValueError("there is no such folder")
        is_run = exists(path)
        names = names_in(folder, "*") if not is_run else []
    if not is_run:
        what = f"it has no {RUN}" if names else "it is a file, or an empty folder"
        raise UserError(f"{folder}: {what}; name the --output of {_WRITERS}")
    return _run_record(path)


def _run_record(path: str) -> RunRecord:
    """A ``run.json``.

    Raises:
        UserError: if it is invalid, or a newer version wrote it.
    """
    text = _text(path)
    with naming(path):
        # The format is read first, because in a newer one every other field may be different.
        version = read_record(dict[str, Any], text).get("format")
        if isinstance(version, int) and version > FORMAT:
            raise ValueError(
                f"a newer version of ldpbeam wrote it (format {version}, known up to {FORMAT}): update "
                "ldpbeam"
            )
        return read_record(RunRecord, text)


def _shared(folder: str, about: RunRecord, kind: FolderKind) -> Results:
    """The results of runs that share a folder; each has a folder of its own below ``runs/``."""
    with naming(folder):
        names = sorted({folder_of(entry) for entry in files_in(join(folder, RUNS), "*/*")})
    runs = []
    for name in names:
        run_folder = join(folder, RUNS, name)
        if _exists(run_folder, RUN):
            finished = True if kind == "scheduled" else None
            runs.append(_run(run_folder, _run_record(join(run_folder, RUN)), finished=finished))
        elif kind == "scheduled":
            # The run was killed while it moved its files, or is moving them now.
            runs.append(RunResults(about, run_folder, False, None, (), None))
    if not any(run.finished is not False for run in runs):
        raise UserError(f"{folder}: none of its runs has finished")
    with naming(folder):
        files = names_in(join(folder, ESTIMATES), "*.jsonl")
    estimates = [estimate for name in files for estimate in _estimates(join(folder, ESTIMATES, name))]
    # The sort is stable: estimates of one file stay in the order of the study.
    estimates.sort(key=lambda record: (record.attribute, record.window or (0, 0), record.run))
    return Results(
        folder, kind, about, partial(_study, folder, about), tuple(runs), tuple(with_partial(estimates))
    )


def _run(folder: str, about: RunRecord, *, finished: bool | None) -> RunResults:
    accounting = _read(Accounting, folder, ACCOUNTING)
    ledger = _read(tuple[LedgerEntry, ...], folder, LEDGER)
    fit = fit_of_panes(folder) if about.kind == "stream" else _read(Fit, folder, FIT)
    return RunResults(about, folder, finished, accounting, ledger or (), fit)


def fit_of_panes(folder: str) -> Fit | None:
    """The tests of all windows of a run of a stream, from the run's folder; None if there are none."""
    fit_folder = join(folder, FIT_FOLDER)
    with naming(folder):
        names = sorted(names_in(fit_folder, "*.json"))
    fits = [fit for name in names if (fit := _read(Fit, fit_folder, name))]
    if not fits:
        return None
    untested = dict.fromkeys(sentence for fit in fits for sentence in fit.not_tested)
    return Fit(fits[0].false_alarms, tuple(test for fit in fits for test in fit.tests), tuple(untested))


def read_estimates(path: str, having: bytes = b"") -> Iterator[EstimateRecord]:
    """The estimates in a file of JSON lines.

    Args:
        path: the file.
        having: only lines with these bytes are parsed.

    Raises:
        ValueError: if a line is not an estimate; it names the line and the field.
    """
    with open_raw(path) as stream:
        for number, line in enumerate(stream.read().splitlines(), 1):
            if having not in line:
                continue
            try:
                yield read_record(EstimateRecord, as_today(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None


def _estimates(path: str, having: bytes = b"") -> Iterator[EstimateRecord]:
    with naming(path):
        yield from read_estimates(path, having)


def earlier_in(output: str, study: str) -> Before:
    """A function that finds estimates of earlier windows in a shared folder, and reads each file once."""
    return earlier_among(output, study, lambda start: names_in(join(output, ESTIMATES), f"{start}-*.jsonl"))


def earlier_among(output: str, study: str, names_of: Callable[[str], Iterable[str]]) -> Before:
    """As :func:`earlier_in`, but the caller lists the files.

    Args:
        output: the output folder.
        study: the name of the study.
        names_of: a function of a text: the names of files of estimates that begin with it and a hyphen.
    """
    folder = join(output, ESTIMATES)

    @cache
    def written(attribute: str, start: int) -> dict[tuple[object, ...], EstimateRecord]:
        # A window has a separate file, or is in that of its day.
        day = names_of(estimates_from(study, attribute, start // DAY * DAY))
        names = [
            *names_of(estimates_from(study, attribute, start)),
            *(name for name in day if OF_A_DAY in name),
        ]
        time = rfc3339(start).encode()
        records = by_key(
            record for name in dict.fromkeys(names) for record in _estimates(join(folder, name), time)
        )
        return {series_of(row): row for row in records.values() if row.window and row.window[0] == start}

    return lambda record, start: written(record.attribute, start).get(series_of(record))


def _read(kind: type[_Kind], folder: str, name: str) -> _Kind | None:
    """A JSON file of a run; None if there is none."""
    path = join(folder, name)
    with naming(path):
        return read_record(kind, _text(path)) if exists(path) else None


def _text(path: str) -> bytes:
    with naming(path), open_raw(path) as stream:
        return bytes(stream.read())


def _exists(folder: str, name: str) -> bool:
    with naming(folder):
        return exists(join(folder, name))

"""The input files of a run, and the check of their stamps against the study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ldpbeam.errors import UserError
from ldpbeam.schemas.reports import stamps
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.study import Study
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.batch_input import BatchInput
from ldpbeam.transforms.sources.read import file_input
from ldpbeam.untrusted import cut_short, shown

_WHY = "because a user-id key or users: none hides what is in the input"
#: These sentences then replace the text of a problem, because that text may repeat user ids.
STAMP_NOT_SHOWN = f"its stamp differs from the study, and is not shown, {_WHY}"
NOT_SHOWN = f"its problem is not shown, {_WHY}"


def find_input(patterns: Sequence[str], on_bad_file: str, *, hidden: bool = False) -> BatchInput:
    """Find the input files.

    Args:
        patterns: names or globs.
        on_bad_file: ``stop`` or ``skip``: what to do about malformed files.
        hidden: whether user ids are hidden; then problems are not shown, as they may repeat input.

    Raises:
        UserError: if a pattern matches no file, or a file, or its name, is malformed and it is not skipped.
    """
    try:
        good, bad = files.sniff_all(files.match(patterns))
    except FileNotFoundError as error:
        raise UserError(str(error)) from None
    if bad and on_bad_file != "skip":
        problems = "\n".join(
            f"{shown(entry.path)}: {NOT_SHOWN if hidden else cut_short(entry.problem)}" for entry in bad[:10]
        )
        more = f"\n... and {len(bad) - 10} more" if len(bad) > 10 else ""
        raise UserError(
            f"{problems}{more}\nThese cannot be read as reports; leave them out of --input, or count each "
            "as a dead letter with --on-bad-file skip"
        )
    return file_input(good, bad)


def check_stamps(
    report_files: Iterable[files.ReportFile],
    study: Study,
    columns: Columns,
    *,
    hidden: bool = False,
) -> None:
    """Check that the reports of each file were made for the study, as far as the stamp shows.

    Args:
        report_files: the files.
        study: the study.
        columns: the columns to read, with the attribute and service of reports that name none.
        hidden: whether user ids are hidden; then stamps are not shown, as they may say anything.

    Raises:
        UserError: if a stamp differs from the study.
    """
    problems = [
        f"{shown(file.path)}: {STAMP_NOT_SHOWN if hidden else cut_short(problem)}"
        for file in report_files
        if (problem := stamps.problem(study, dict(file.metadata), columns.attribute, columns.service))
    ]
    if problems:
        more = f"\n... and {len(problems) - 10} more" if len(problems) > 10 else ""
        text = "\n".join(problems[:10])
        raise UserError(
            f"{text}{more}\nName the study that the clients ran, or leave these files out of --input"
        )

"""``ldpbeam ledger``: what users spent over periods, from the ledgers that runs keep."""

from __future__ import annotations

import argparse

from ldpbeam.answers.ledger_queries import check_duckdb
from ldpbeam.command_line.checks import study_of
from ldpbeam.errors import DONE, WITH_CARE, UserError
from ldpbeam.folders.read import read_study
from ldpbeam.pipelines.estimates.ledger_files import print_periods, write_periods
from ldpbeam.pipelines.runs.ledger_folder import files_of
from ldpbeam.printing import document
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.study import Study
from ldpbeam.transforms.sources.files import absolute


def ledger_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam ledger`` and return its exit code.

    Raises:
        UserError: if a folder has no ledger over periods, or those of several cannot be brought together.
    """
    # A folder that is given twice counts once; one that is none would be missing from the sums.
    folders = list({absolute(folder): folder for folder in options.folders}.values())
    studies = [_with_ledger(read_study(folder), folder) for folder in folders]
    if options.study:
        studies.insert(0, _with_ledger(study_of(options.study), options.study))
    entries = write_periods(studies[0], folders)
    none_left = not (entries or files_of(folders))
    missing = none_left or any(entry.without_file for entry in entries)
    document({"periods": [fields_of(entry) for entry in entries]})
    print_periods(entries)
    if none_left:
        print("no file of received reports is there: no run has written one yet, or all were deleted")
    elif not entries:
        print("no user sent a report that the ledger counts")
    return WITH_CARE if missing and not options.accept_missing else DONE


def _with_ledger(study: Study, where: str) -> Study:
    if study.ledger is None:
        raise UserError(f"{where}: the study keeps no ledger over periods, as in ledger: {{period: 30d}}")
    check_duckdb()
    return study

"""``ldpbeam ledger``: what users spent over periods, from the ledgers that runs keep."""

from __future__ import annotations

import argparse

from rich.console import Console

from ldpbeam.pipelines.errors import DONE, UserError
from ldpbeam.pipelines.estimates.period_ledger import print_periods, sentences, write_periods
from ldpbeam.pipelines.estimates.read import read_results
from ldpbeam.pipelines.printing import document
from ldpbeam.schemas.outputs.records import fields_of


def ledger_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam ledger`` and return its exit code.

    Raises:
        UserError: if a folder has no ledger over periods, or those of several cannot be brought together.
    """
    results = read_results(options.folders[0])
    if results.study is None:
        raise UserError(f"{options.folders[0]}: {results.study_problem}")
    if results.study.ledger is None:
        raise UserError(
            f"{options.folders[0]}: its study keeps no ledger over periods (ledger: {{period: 30d}})"
        )
    entries = write_periods(results.study, options.folders)
    if document({"periods": [fields_of(entry) for entry in entries]}):
        return DONE
    print_periods(Console(), entries)
    for sentence in sentences(entries):
        print(sentence)
    return DONE

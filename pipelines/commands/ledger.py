"""``ldpbeam ledger``: what users spent over periods, from the ledgers that runs keep, or from reports."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from ldpbeam.answers import tables
from ldpbeam.answers.ledger_queries import check_duckdb
from ldpbeam.command_line.checks import check_reachable, columns_of, study_of
from ldpbeam.errors import DONE, WITH_CARE, UserError
from ldpbeam.folders.output import Output
from ldpbeam.folders.read import read_study
from ldpbeam.folders.written import read_accounting
from ldpbeam.inputs.files import check_stamps, find_input
from ldpbeam.pipelines.estimates.ledger_files import print_periods, write_periods
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.graphs.batch_stages import build_ledger
from ldpbeam.pipelines.graphs.run import run_pipeline
from ldpbeam.pipelines.options.estimate import MAX_BAD_FRACTION
from ldpbeam.pipelines.runs.ledger_folder import bring_together, files_of, ledger_key
from ldpbeam.printing import document, progress_console, step, warn
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.names import DIRECT
from ldpbeam.runners.request import EngineRequest
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.outputs.records import PeriodEntry
from ldpbeam.study import Study
from ldpbeam.temporary import folder_of_run
from ldpbeam.transforms.sources.files import absolute

_NONE_LEFT = "no file of received reports is there: no run has written one yet, or all were deleted"


def ledger_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam ledger`` and return its exit code.

    Raises:
        UserError: if a folder has no ledger over periods, or those of several cannot be brought together, or
            the study or the reports cannot be used.
    """
    if bool(options.folders) == bool(options.input) or (options.input and not options.study):
        raise UserError("name output folders, or --study and --input")
    accounting: dict[str, Any] | None = None
    # A folder that is given twice counts once; one that is none would be missing from the sums.
    folders = list({absolute(folder): folder for folder in options.folders}.values())
    studies = [_with_ledger(read_study(folder), folder) for folder in folders]
    if options.study:
        studies.insert(0, _with_ledger(study_of(options.study, options.attribute), options.study))
    if options.input:
        entries, accounting = _of_reports(studies[0], options)
    else:
        entries = write_periods(studies[0], folders)
    share = 0.0 if accounting is None else tables.bad_share(accounting)
    damaged = 0 if accounting is None else accounting["damaged_files"]
    none_left = not (entries or options.input or files_of(folders))
    missing = none_left or any(entry.without_file for entry in entries)
    with_care = share > MAX_BAD_FRACTION or damaged or (missing and not options.accept_missing)
    if share > MAX_BAD_FRACTION:
        warn(f"{share:.2%} of the input is bad, more than {MAX_BAD_FRACTION:g}, and in no sum")
    if damaged:
        warn(f"{tables.damage_line(damaged)}, and they are in no sum")
    periods = {"periods": [fields_of(entry) for entry in entries]}
    document(periods if accounting is None else {**periods, "accounting": accounting})
    print_periods(entries)
    if not entries:
        print(_NONE_LEFT if none_left else "no user sent a report that the ledger counts")
    if accounting and accounting["dead_letters"]:
        print("dead letters are not counted, whatever their users spent on them")
        tables.print_reasons(Console(), accounting)
    return WITH_CARE if with_care else DONE


def _with_ledger(study: Study, where: str) -> Study:
    if study.ledger is None:
        raise UserError(f"{where}: the study keeps no ledger over periods, as in ledger: {{period: 30d}}")
    check_duckdb()
    return study


def _of_reports(study: Study, options: argparse.Namespace) -> tuple[list[PeriodEntry], dict[str, Any]]:
    """The ledger of files of reports, and what became of them; nothing is kept.

    Raises:
        UserError: if the reports cannot be used.
    """
    check_reachable("--input", *options.input)
    columns, files = columns_of(options, study), find_input(options.input, "stop")
    check_stamps(files.files, study, columns)
    with folder_of_run() as folder:
        job = BatchJob(
            study=study,
            input=files,
            output=str(folder),
            run="ledger",
            columns=columns,
            ledger_key=ledger_key(Output(study, str(folder), "ledger"), None, shared=False),
        )
        assert job.keeping is not None
        engine = engine_of(EngineRequest(DIRECT), folder)
        pipeline = engine.pipeline([])
        build_ledger(pipeline, job)
        with step("reading reports"):
            run_pipeline(pipeline, progress_console(), engine.here)
        with step("adding up the ledger"):
            bring_together(job, job.keeping)
            return write_periods(study, [str(folder)]), read_accounting(job)

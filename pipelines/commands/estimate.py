"""``ldpbeam estimate``: its options, and what it prints."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ldpbeam.pipelines.commands.estimate_options import check, job_of, truth_of
from ldpbeam.pipelines.commands.options import study_of
from ldpbeam.pipelines.errors import DONE, WITH_CARE, UserError
from ldpbeam.pipelines.estimates import compare, stages, tables
from ldpbeam.pipelines.estimates.fit import print_fit, write_fit
from ldpbeam.pipelines.estimates.ledger import write_ledger
from ldpbeam.pipelines.estimates.published import warnings_of
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.graphs.engines import engine_of, reach_from_elsewhere
from ldpbeam.pipelines.printing import document, note, progress_console, step, warn
from ldpbeam.pipelines.runs.costs import refuse_endless, slow_parts
from ldpbeam.pipelines.runs.damage import mark_incomplete, stop_for_damage
from ldpbeam.pipelines.runs.output import (
    ACCOUNTING,
    DEAD_LETTERS,
    STATISTICS,
    sweep,
    write_json,
)
from ldpbeam.pipelines.runs.ownership import NOBODY, owned
from ldpbeam.pipelines.runs.scheduled import Scheduled, owned_by_schedule, publish
from ldpbeam.pipelines.terminal import shown
from ldpbeam.runners import dataflow
from ldpbeam.schemas.outputs.estimates import SolvedEstimate, estimate_fields
from ldpbeam.study import Study, attribute_of
from ldpbeam.times import rfc3339
from ldpbeam.transforms.reports.counts import WINDOWS_BEYOND


def estimate_command(options: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Run ``ldpbeam estimate`` and return its exit code.

    Raises:
        UserError: if the options, the study, the input or the output folder cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="ldpbeam-") as staged:
        return run(options, beam_arguments, Path(staged))


def run(options: argparse.Namespace, beam_arguments: list[str], staged: Path) -> int:
    """Run the pipeline with parsed options.

    Args:
        options: the options of this command.
        beam_arguments: the options that only Beam knows.
        staged: a local folder for files that the engine stages.

    Returns:
        The exit code: DONE, or WITH_CARE after too much bad input.

    Raises:
        UserError: if the options, the study, the input or the output folder cannot be used.
    """
    study = study_of(options.study, options.attribute)
    reach_from_elsewhere(options)
    check(options, study, beam_arguments)
    refuse_endless(study)
    people = truth_of(
        options,
        study,
        times=study.windows is not None or options.start is not None or options.stop is not None,
        groups=study.groups is not None,
    )
    job, shared = job_of(options, study)
    console, progress = Console(), progress_console()
    engine = engine_of(options, staged, given=beam_arguments)
    pipeline = stages.assemble(job, engine, beam_arguments)
    if dataflow.template_of(pipeline):
        raise UserError(
            "--template_location: this command estimates when its job has ended, and a template's job is "
            "started by others; ldpbeam stream makes templates"
        )
    if dataflow.is_dry_run(pipeline):
        stages.run_pipeline(pipeline, progress, engine.here)
        print(
            "a dry run: the job was made and not submitted; no report was read, nothing was estimated, and "
            f"{options.output} is as it was"
        )
        return DONE
    for sentence in slow_parts(study):
        note(sentence)
    holding = (
        owned_by_schedule(shared, options.overwrite)
        if shared
        else owned(job, NOBODY, overwrite=options.overwrite, inputs=options.input)
    )
    with holding as place:
        with step("reading reports and adding them up"):
            stages.run_pipeline(pipeline, progress, engine.here)
        with step("estimating"):
            found, estimates = _estimated(job, options, progress)
        with step("testing the fit"):
            ledger = write_ledger(job)
            tested, misfits = write_fit(job)
        place.check()
        if shared:
            publish(shared, estimates)
        else:
            stages.write_estimates(job, estimates)
    errors = None
    if people is not None:
        compared = options.attribute or next(iter(study.attributes))
        errors = [
            compare.errors_of(solved, study, people, job.span)
            if attribute_of(solved.attribute) == compared
            else {}
            for solved in estimates
        ]
    spenders = sum(entry["users_over_cap"] for entry in ledger)
    document(
        {
            "output": options.output,
            "run": job.run,
            "estimates": [estimate_fields(study, solved, job.run) for solved in estimates],
            "errors": errors,
            "accounting": found,
            "over_epsilon_cap": spenders,
            "fit": {"tests": len(tested), "flagged": len(misfits)},
        }
    )
    tables.print_estimates(console, study, estimates, errors)
    if spenders:
        what = "user-windows" if study.windows else "users"
        print(f"{spenders:,} {what} spent more than the study's epsilon_cap of {study.epsilon_cap:g}")
    impossible = found["dead_letters_by_reason"].get("payload_outside_mechanism", 0)
    print_fit(study, tested, misfits, impossible)
    print(tables.accounting_line(found))
    print(shown(_whereabouts(options.output, shared)))
    if found["dead_letters"]:
        tables.print_reasons(console, found)
    return _judged(study, found, options.max_bad_fraction)


def _estimated(
    job: BatchJob, options: argparse.Namespace, console: Console
) -> tuple[dict[str, Any], list[SolvedEstimate]]:
    """The accounting and the estimates of a run whose pipeline has finished.

    Raises:
        UserError: if input files were damaged and ``--on-bad-file`` is ``stop``, or a process was killed.
    """
    sweep([job.path(STATISTICS), job.path(DEAD_LETTERS)])
    sweep([job.path("")], ACCOUNTING)
    found = stages.read_accounting(job)
    if found["damaged_files"] and options.on_bad_file == "stop":
        stop_for_damage(job, found["damaged_files"])
    if found["damaged_files"]:
        mark_incomplete(job)
    estimates, left = stages.estimate_all(job, console, job.estimate_on, options.processes)
    if left:
        found |= left
        write_json(job.path(ACCOUNTING), found)
    if found["damaged_files"]:
        # Workers computed their estimates before the damage was known.
        estimates = [replace(solved, complete=False) for solved in estimates]
    return found, estimates


def _judged(study: Study, found: Mapping[str, Any], max_bad_fraction: float) -> int:
    """The exit code that follows from a run's accounting; it prints a warning for each kind of bad input."""
    warnings = []
    if found["damaged_files"]:
        warnings.append(tables.damage_line(found["damaged_files"]))
    if found["in"] and found["dead_letters"] > max_bad_fraction * found["in"]:
        share = found["dead_letters"] / found["in"]
        warnings.append(f"{share:.2%} of the input is bad, more than --max-bad-fraction {max_bad_fraction:g}")
    for warning in warnings:
        print(f"ldpbeam: {warning}; the outputs are written, look at them with care", file=sys.stderr)
    for sentence in warnings_of(study, found):
        warn(sentence)
    if not found["in"]:
        warn("the input has no report, so there is no estimate")
    elif not found["used"]:
        warn(f"none of the {found['in']:,} reports in the input is used, so there is no estimate")
    return WITH_CARE if warnings or found.get(WINDOWS_BEYOND) else DONE


def _whereabouts(output: str, shared: Scheduled | None) -> str:
    if shared is None:
        return f"estimates, statistics and accounting are in {output}"
    ends = f"{rfc3339(shared.span.start)} to {rfc3339(shared.span.stop)}"
    return (
        f"estimates and statistics of the windows from {ends} are in {output}, the accounting is in "
        f"{shared.own.output}"
    )

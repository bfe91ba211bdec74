"""``ldpbeam estimate``: the run, what damaged input does to it, and what it prints."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from ldpbeam.answers import tables
from ldpbeam.answers.ledger import Ledger
from ldpbeam.answers.published import cut_windows, warnings_of, with_refusals, without_groups
from ldpbeam.answers.truth import errors_of
from ldpbeam.errors import DONE, WITH_CARE, UserError, machine_problem
from ldpbeam.folders.output import ACCOUNTING, DEAD_LETTERS, STATISTICS, files_in, names_in
from ldpbeam.folders.written import read_accounting, sweep
from ldpbeam.inputs.files import NOT_SHOWN
from ldpbeam.pipelines.commands.estimate_options import Request, request_of
from ldpbeam.pipelines.estimates.fit import RunFit, print_fit
from ldpbeam.pipelines.estimates.ledger_files import (
    print_periods,
    write_ledger,
    write_periods,
    write_periods_after,
)
from ldpbeam.pipelines.estimates.run_estimates import Look, estimate_all, write_estimates
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.runs.ledger_folder import bring_together, clear_parts, files_of
from ldpbeam.pipelines.runs.ownership import NOBODY, owned
from ldpbeam.pipelines.runs.scheduled import owned_by_schedule, publish
from ldpbeam.pipelines.spool.batch import tally_here
from ldpbeam.printing import document, progress_bar, step, warn
from ldpbeam.runners.request import LOCAL
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord, PeriodEntry
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study, attribute_of
from ldpbeam.temporary import folder_of_run
from ldpbeam.transforms.reports.counts import NEED_CARE
from ldpbeam.transforms.sources.read import DAMAGE
from ldpbeam.transforms.storage import delete, open_raw, write_json
from ldpbeam.untrusted import shown


def estimate_command(options: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Run ``ldpbeam estimate`` and return its exit code."""
    request = request_of(options, beam_arguments)
    with folder_of_run() as folder:
        return _run(request, folder)


def _run(request: Request, folder: Path) -> int:
    """Add up the reports, compute the estimates, and print them; ``folder`` is for files of the engine.

    Raises:
        UserError: if the engine cannot run it, or an input file is damaged and ends the run.
    """
    job = request.job
    add_up = _adding_up(request, folder)
    with _held(request):
        if job.keeping:
            clear_parts(job.keeping)
        with step("reading reports and adding them up"):
            add_up()
        ledger, fit = Ledger(job.study), RunFit(job.study)

        def look(snapshots: list[Snapshot]) -> None:
            ledger.add(snapshots)
            fit.add(snapshots)

        with step("estimating and testing the fit"):
            accounting, estimates = _estimated(request, look)
        spenders = write_ledger(job, ledger)
        tests = fit.write(job)
        periods: list[PeriodEntry] = []
        if request.shared:
            publish(request.shared, estimates, lambda: periods.extend(_periods(request)))
        else:
            periods += _periods(request)
            write_estimates(job, estimates)
    errors = _errors(request, estimates)
    document(
        {
            "output": _folder(request),
            "run": job.run,
            "estimates": [json_fields(record) for record in estimates],
            "errors": errors,
            "accounting": accounting,
            **({"not_kept": dict(request.lost)} if request.lost else {}),
            "over_epsilon_cap": spenders,
            "periods": [fields_of(entry) for entry in periods],
            "fit": {"tests": len(tests), "flagged": sum(test.flagged for test in tests)},
        }
    )
    console = Console()
    tables.print_estimates(console, estimates, errors)
    if spenders:
        what = "user-windows" if job.study.windows else "users"
        print(f"{spenders:,} {what} spent more than the study's epsilon_cap of {job.study.epsilon_cap:g}")
    print_periods(periods)
    impossible = accounting["dead_letters_by_reason"].get("payload_outside_mechanism", 0)
    print_fit(job.study, tests, impossible, accounting["in"])
    print(tables.accounting_line(accounting))
    print(shown(_whereabouts(request)))
    tables.print_reasons(console, accounting, _folder(request))
    if errors and not any(errors):
        warn("--truth: nobody in the file belongs to the window and group of an estimate: nothing to compare")
    for sentence in (*without_groups(job.study, estimates), *cut_windows(job.study, job.span)):
        warn(sentence)
    done = _judged(job.study, accounting, request.max_bad_fraction)
    if request.lost:
        of_reason = ", ".join(f"{reports:,} {reason}" for reason, reports in request.lost.items())
        warn(f"dead letters without their records cannot be read again: {shown(of_reason)}")
    return WITH_CARE if request.lost else done


def _adding_up(request: Request, folder: Path) -> Callable[[], None]:
    """What adds up the reports and writes the statistics.

    Raises:
        UserError: if the engine cannot run it.
    """
    if request.engine.runner == LOCAL:
        return partial(_add_up_here, request.job, folder)
    # Beam takes longer to import than a small run takes.
    from ldpbeam.pipelines.graphs.batch_stages import build, run_pipeline
    from ldpbeam.runners.engines import engine_of

    engine = engine_of(request.engine, folder, given=request.beam_arguments)
    pipeline = engine.pipeline(request.beam_arguments)
    build(pipeline, request.job)
    return partial(run_pipeline, pipeline, engine.here)


def _add_up_here(job: BatchJob, folder: Path) -> None:
    """Add up the reports in this process.

    Raises:
        UserError: if the input cannot be read to its end, or a disk does not take what is written.
    """
    with progress_bar("reports read", None) as show:
        try:
            tally_here(job, folder, show)
        except OSError as error:
            raise UserError(machine_problem(error) or str(error)) from None


def _folder(request: Request) -> str:
    return request.shared.output if request.shared else request.job.output


def _held(request: Request) -> AbstractContextManager[None]:
    """The output folder, held by this run."""
    if request.shared:
        return owned_by_schedule(request.shared, request.overwrite)
    return owned(request.job, NOBODY, overwrite=request.overwrite, inputs=request.inputs)


def _estimated(request: Request, look: Look) -> tuple[dict[str, Any], list[EstimateRecord]]:
    """The accounting and the estimates of a run whose pipeline has finished; it looks at all its snapshots.

    Raises:
        UserError: if input files were damaged and end the run, or a process was killed.
    """
    job = request.job
    sweep([job.path(STATISTICS), job.path(DEAD_LETTERS)])
    sweep([job.path("")], ACCOUNTING)
    accounting = read_accounting(job)
    if accounting["damaged_files"] and request.on_bad_file == "stop":
        stop_for_damage(job, accounting["damaged_files"])
    shared = request.shared.output if request.shared else ""
    estimates, left = estimate_all(job, request.processes, shared, look)
    if left:
        accounting |= left
        write_json(job.path(ACCOUNTING), accounting)
    refused, cells = (accounting.get(name, {}) for name in ("payloads_refused", "reports_of_cells"))
    return accounting, with_refusals(job.study, estimates, refused, cells)


def _periods(request: Request) -> list[PeriodEntry]:
    """The ledger over periods of the run's folder, with the runs that share it; empty without one."""
    job, shared = request.job, request.shared
    if job.keeping is None:
        return []
    with step("adding up the ledger"):
        before = files_of([shared.output]) if shared else []
        after = bring_together(job, job.keeping, before)
        return (
            write_periods_after(shared, before, after) if shared else write_periods(job.study, [job.output])
        )


def _errors(request: Request, estimates: list[EstimateRecord]) -> list[dict[str, float]] | None:
    """The errors of each estimate; empty for other attributes, and None without the truth."""
    if request.people is None:
        return None
    study = request.job.study
    compared = request.job.columns.attribute or next(iter(study.attributes))
    return [
        errors_of(record, study, request.people, request.job.span)
        if attribute_of(record.attribute) == compared
        else {}
        for record in estimates
    ]


def _judged(study: Study, counts: Mapping[str, Any], max_bad_fraction: float) -> int:
    """The exit code that follows from a run's accounting; it prints a warning for each kind of bad input."""
    warnings = []
    if counts["damaged_files"]:
        warnings.append(tables.damage_line(counts["damaged_files"]))
    if tables.bad_share(counts) > max_bad_fraction:
        share = f"{tables.bad_share(counts):.2%} of the input is bad"
        warnings.append(f"{share}, more than --max-bad-fraction {max_bad_fraction:g}")
    for warning in warnings:
        print(f"ldpbeam: {warning}; the outputs are written, look at them with care", file=sys.stderr)
    for sentence in warnings_of(study, counts):
        warn(sentence)
    for what in ("attribute", "service"):
        if counts["dead_letters_by_reason"].get(f"no_{what}"):
            warn(f"some reports name no {what}: say which it is with --{what} NAME")
    if not counts["in"]:
        warn("the input has no report, so there is no estimate")
    elif not counts["used"]:
        warn(f"none of the {counts['in']:,} reports in the input is used, so there is no estimate")
    return WITH_CARE if warnings or any(map(counts.get, NEED_CARE)) else DONE


def _whereabouts(request: Request) -> str:
    if request.shared is None:
        return f"estimates, statistics and accounting are in {request.job.output}"
    return str(request.shared)


#: The error message names at most this many damaged files, each with the first damage in it.
MOST_NAMED = 10


def stop_for_damage(job: BatchJob, damaged_files: int) -> NoReturn:
    """End a run that found damaged input, and delete its snapshots.

    Args:
        job: the run; its pipeline has finished.
        damaged_files: how many files were damaged.

    Raises:
        UserError: always; it names the first damaged files, with the place and the problem in each.
    """
    delete([entry.path for entry in files_in(job.path(STATISTICS), "*.avro")])
    sentences = list(itertools.islice(_sentences(job), MOST_NAMED))
    more = damaged_files - len(sentences)
    if more:
        sentences.append(f"... and {more:,} more")
    raise UserError(
        "\n".join(sentences) + "\nDamaged files: how many reports they lost is not known, so nothing was "
        "estimated; replace them, leave them out of --input, or estimate from the rest with "
        "--on-bad-file skip"
    )


def _sentences(job: BatchJob) -> Iterator[str]:
    """One sentence for each damaged file with its first damage, ordered by path."""
    formats = {file.path: file.format for file in job.input.files}
    first: dict[str, tuple[int, str]] = {}
    for name in names_in(job.path(DEAD_LETTERS), "*.avro"):
        with open_raw(job.path(DEAD_LETTERS, name)) as stream:
            for letter in read_dead_letters(stream):
                if letter.reason in DAMAGE:
                    damage = -1 if letter.position is None else letter.position, letter.detail
                    first[letter.file] = min(damage, first.get(letter.file, damage))
    for path, (position, detail) in sorted(first.items()):
        unit = "row group" if formats.get(path) == "parquet" else "byte"
        yield f"{shown(path)}{f', {unit} {position:,}' if position >= 0 else ''}: {detail or NOT_SHOWN}"

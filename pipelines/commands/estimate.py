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

from ldpbeam.pipelines.clients.people import People, read_people
from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.commands.options import add_people_options, people_columns, study_of, time_of
from ldpbeam.pipelines.errors import DONE, WITH_CARE, UserError
from ldpbeam.pipelines.estimates import compare, stages, tables
from ldpbeam.pipelines.estimates.ledger import write_ledger
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.graphs.engines import add_engine_options, engine_of, reach_from_elsewhere
from ldpbeam.pipelines.runs.costs import slow_parts
from ldpbeam.pipelines.runs.damage import mark_incomplete, stop_for_damage
from ldpbeam.pipelines.runs.output import (
    ACCOUNTING,
    DEAD_LETTERS,
    STATISTICS,
    Output,
    check_output,
    claimed,
    sweep,
)
from ldpbeam.pipelines.runs.scheduled import Scheduled, claimed_shared, publish
from ldpbeam.pipelines.terminal import shown
from ldpbeam.runners import dataflow
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.study import Study, attribute_of
from ldpbeam.times import rfc3339
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.windows.cut import check_overlap
from ldpbeam.windows import FAR, Span, whole_windows


def estimate_command(parser: Parser, arguments: list[str]) -> int:
    """Run ``ldpbeam estimate`` and return its exit code.

    Raises:
        UserError: if the options, the study, the input or the output folder cannot be used.
    """
    parser.add_argument("--study", required=True, help="the study file")
    parser.add_argument("--input", required=True, nargs="+", help="files of reports, or globs")
    parser.add_argument("--output", required=True, help="folder for everything the run writes")
    parser.add_argument("--attribute", help="attribute of reports that do not name one")
    parser.add_argument("--service", help="service of reports that do not name one")
    parser.add_argument(
        "--from", dest="start", metavar="TIME",
        help="leave out reports before this event time; with windows, all but whole windows from it on",
    )  # fmt: skip
    parser.add_argument(
        "--to", dest="stop", metavar="TIME",
        help="leave out reports from this event time on; with windows, all but whole windows up to it. With "
        "--from and windows, --output is shared by runs of other times",
    )  # fmt: skip
    parser.add_argument("--on-bad-file", choices=("stop", "skip"), default="stop")
    parser.add_argument("--keep-bad-records", action="store_true", help="dead letters have the whole record")
    parser.add_argument("--max-bad-fraction", type=float, default=0.01, help="more: exit code 3")
    parser.add_argument("--overwrite", action="store_true", help="replace another run's outputs")
    parser.add_argument("--user-id-key-file", help="replace user keys by their HMAC with this key")
    parser.add_argument("--partitions", type=int, help="partitions of users; results do not change")
    parser.add_argument("--estimate-on", choices=("driver", "worker"), default="driver")
    parser.add_argument("--truth", help="CSV file of people: print errors against it")
    add_people_options(parser)
    add_engine_options(parser)
    parser.epilog = "Every option that Beam takes passes through, as Beam writes it."
    options, beam_arguments = parser.parse_with_beam(arguments)
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
    _check(options, study, beam_arguments)
    people = _truth(options, study)
    job, shared = _job(options, study)
    console = Console()
    engine = engine_of(options, staged, given=beam_arguments)
    pipeline = stages.assemble(job, engine, beam_arguments)
    if dataflow.template_of(pipeline):
        raise UserError(
            "--template_location: this command estimates when its job has ended, and a template's job is "
            "started by others; ldpbeam stream makes templates"
        )
    if dataflow.is_dry_run(pipeline):
        stages.run_pipeline(pipeline, console, engine.here)
        print(
            "a dry run: the job was made and not submitted; no report was read, nothing was estimated, and "
            f"{options.output} is as it was"
        )
        return DONE
    for sentence in slow_parts(study):
        print(f"ldpbeam: {sentence}", file=sys.stderr)
    inputs = _inputs(options, study)
    claim = claimed_shared(shared, options.overwrite) if shared else claimed(job, inputs, options.overwrite)
    with claim as place:
        stages.run_pipeline(pipeline, console, engine.here)
        found, estimates = _estimated(job, options.on_bad_file, console)
        ledger = write_ledger(job)
        place.check()
        if shared:
            publish(shared, estimates)
        else:
            stages.write_estimates(job, estimates)
    errors = None
    if people is not None:
        truth_of = options.attribute or next(iter(study.attributes))
        errors = [
            compare.errors_of(solved, study, people) if attribute_of(solved.attribute) == truth_of else {}
            for solved in estimates
        ]
    tables.print_estimates(console, study, estimates, errors)
    over = sum(entry["users_over_cap"] for entry in ledger)
    if over:
        what = "user-windows" if study.windows else "users"
        print(f"{over:,} {what} spent more than the study's epsilon_cap of {study.epsilon_cap:g}")
    print(tables.accounting_line(found))
    print(shown(_whereabouts(options.output, shared)))
    if found["dead_letters"]:
        tables.print_reasons(console, found)
    return _judged(found, options.max_bad_fraction)


def _job(options: argparse.Namespace, study: Study) -> tuple[BatchJob, Scheduled | None]:
    """The run, and for a scheduled run the shared folder to which its files are moved.

    Raises:
        UserError: if the input or the output folder cannot be used.
    """
    span = _span_of(options, study)
    inputs = _inputs(options, study)
    disclosure = stages.disclosure_of(options)
    hidden = disclosure.user_id_key is not None
    good, bad = stages.find_input(inputs, options.on_bad_file, hidden=hidden)
    output, shared = _place(options, study, span, inputs)
    job = BatchJob(
        study=study,
        files=good,
        bad_files=bad,
        output=output.output,
        run=output.run,
        attribute=options.attribute,
        service=options.service,
        span=span,
        disclosure=disclosure,
        partitions=options.partitions,
        estimate_on=options.estimate_on,
    )
    return job, shared


def _inputs(options: argparse.Namespace, study: Study) -> tuple[str, ...]:
    """The patterns of the input, made absolute for scheduled runs, which may start in different folders."""
    given = map(files.absolute, options.input) if _is_scheduled(options, study) else options.input
    return tuple(given)


def _estimated(
    job: BatchJob, on_bad_file: str, console: Console
) -> tuple[dict[str, Any], list[SolvedEstimate]]:
    """The accounting and the estimates of a run whose pipeline has finished.

    Raises:
        UserError: if input files were damaged and ``on_bad_file`` is ``stop``.
    """
    sweep([job.path(STATISTICS), job.path(DEAD_LETTERS)])
    sweep([job.path("")], ACCOUNTING)
    found = stages.read_accounting(job)
    if found["damaged_files"] and on_bad_file == "stop":
        stop_for_damage(job, found["damaged_files"])
    if found["damaged_files"]:
        mark_incomplete(job)
    estimates = stages.estimate_all(job, console, job.estimate_on)
    if found["damaged_files"]:
        # Workers computed their estimates before the damage was known.
        estimates = [replace(solved, complete=False) for solved in estimates]
    return found, estimates


def _judged(found: Mapping[str, Any], max_bad_fraction: float) -> int:
    """The exit code that follows from a run's accounting; it prints a warning for each kind of bad input."""
    warnings = []
    if found["damaged_files"]:
        warnings.append(tables.damage_line(found["damaged_files"]))
    if found["in"] and found["dead_letters"] > max_bad_fraction * found["in"]:
        share = found["dead_letters"] / found["in"]
        warnings.append(f"{share:.2%} of the input is bad, more than --max-bad-fraction {max_bad_fraction:g}")
    for warning in warnings:
        print(f"ldpbeam: {warning}; the outputs are written, look at them with care", file=sys.stderr)
    if not found["in"]:
        print("ldpbeam: the input has no report, so there is no estimate", file=sys.stderr)
    return WITH_CARE if warnings else DONE


def _check(options: argparse.Namespace, study: Study, beam_arguments: list[str]) -> None:
    """Check that the options are in range and fit the study.

    Raises:
        UserError: for the first option that does not.
    """
    if options.partitions is not None and not 1 <= options.partitions <= 65536:
        raise UserError(f"--partitions {options.partitions}: from 1 to 65536")
    if not 0 <= options.max_bad_fraction <= 1:
        raise UserError(f"--max-bad-fraction {options.max_bad_fraction}: from 0 to 1")
    try:
        if study.group_users:
            check_overlap(study.windows)
    except ValueError as error:
        raise UserError(f"{options.study}: {error}") from None
    every = {service for model in study.attributes.values() for service in model.services}
    if options.service is not None and options.service not in every:
        raise UserError(f"--service {options.service}: the study has {', '.join(sorted(every))}")
    if any(argument.partition("=")[0] == "--streaming" for argument in beam_arguments):
        raise UserError("--streaming: this command reads files to their end, and is not a streaming one")


def _truth(options: argparse.Namespace, study: Study) -> People | None:
    """The people whose true values are compared with estimates; None without ``--truth``.

    Raises:
        UserError: if the options for people do not fit together, or their file cannot be read.
    """
    columns = ("value_column", "key_column", "user_column", "time_column", "weight_column", "group_column")
    given = [f"--{name.replace('_', '-')}" for name in columns if getattr(options, name) is not None]
    if given and not options.truth:
        raise UserError(f"{', '.join(given)}: columns are of the file that --truth names, which is missing")
    if not options.truth:
        return None
    if len(study.attributes) > 1 and not options.attribute:
        raise UserError("--truth needs --attribute: the study has several")
    domain = study.attribute(options.attribute or next(iter(study.attributes))).domain
    return read_people(options.truth, people_columns(options, domain), domain)


def _is_scheduled(options: argparse.Namespace, study: Study) -> bool:
    return bool(study.windows and options.start and options.stop)


def _span_of(options: argparse.Namespace, study: Study) -> Span:
    """The event times to estimate; with windows, the span of the whole windows between --from and --to.

    Raises:
        UserError: if --from is not before --to, or no whole window lies between them.
    """
    start, stop = time_of("--from", options.start), time_of("--to", options.stop)
    if start is not None and stop is not None and start >= stop:
        raise UserError(f"--from {options.start} is not before --to {options.stop}")
    given = Span(-FAR if start is None else start, FAR if stop is None else stop)
    if study.windows is None:
        return given
    try:
        return whole_windows(study.windows, given)
    except ValueError as error:
        raise UserError(f"--from {options.start} --to {options.stop}: {error}") from None


def _place(
    options: argparse.Namespace, study: Study, span: Span, inputs: tuple[str, ...]
) -> tuple[Output, Scheduled | None]:
    """Where the run writes, and for a scheduled run the shared folder to which its files are moved.

    Raises:
        UserError: if this run may not use the output folder.
    """
    own = options.attribute, options.service
    if not _is_scheduled(options, study):
        name = stages.run_name(study, inputs, span.start, span.stop, *own)
        output = Output(study, options.output, name)
        check_output(output, options.overwrite)
        return output, None
    # Runs of one schedule differ in spans and mostly in inputs, so all take the name of the first run.
    first = Output(study, options.output, stages.run_name(study, inputs, "scheduled", *own))
    name = check_output(first, options.overwrite, scheduled=True) or first.run
    shared = Scheduled(study, options.output, name, span, inputs)
    return shared.made, shared


def _whereabouts(output: str, shared: Scheduled | None) -> str:
    if shared is None:
        return f"estimates, statistics and accounting are in {output}"
    ends = f"{rfc3339(shared.span.start)} to {rfc3339(shared.span.stop)}"
    return (
        f"estimates and statistics of the windows from {ends} are in {output}, the accounting is in "
        f"{shared.own.output}"
    )

"""What the options of ``ldpbeam estimate`` ask for, checked, in one frozen value."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ldpbeam.answers.people import People
from ldpbeam.command_line.arguments import filled
from ldpbeam.command_line.checks import (
    check_reachable,
    columns_of,
    study_of,
    true_values,
)
from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.folders.written import run_name
from ldpbeam.inputs.files import check_stamps, find_input
from ldpbeam.inputs.key_files import disclosure_of
from ldpbeam.inputs.times import time_of
from ldpbeam.pipelines.estimates.run_estimates import check_work
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.options.sources import BOUNDED, module_of, named
from ldpbeam.pipelines.runs.ledger_folder import ledger_key
from ldpbeam.pipelines.runs.ownership import NOBODY, SCHEDULED_RUNS, owner
from ldpbeam.pipelines.runs.scheduled import Scheduled
from ldpbeam.runners.request import LOCAL, EngineRequest, engine_request
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.study import Study
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.batch_input import BatchInput
from ldpbeam.transforms.sources.counts import find_counts
from ldpbeam.transforms.windows.cut import check_overlap
from ldpbeam.windows import FAR, Span, whole_windows


@dataclass(frozen=True)
class Request:
    """A run of ``ldpbeam estimate``, whose options have been checked.

    Attributes:
        job: what is read and written.
        shared: for a scheduled run the shared folder to which its files are moved.
        inputs: the names and globs of the input.
        engine: the engine.
        beam_arguments: the options that only Beam knows.
        people: the people whose true values are compared; None for no comparison.
        overwrite: whether the outputs of another run are replaced.
        on_bad_file: ``stop`` or ``skip``: whether a damaged file ends the run.
        max_bad_fraction: more bad input than this share changes the exit code.
        processes: how many processes compute estimates; None for one per core.
        lost: how many dead letters are not read again because they have no record, by reason.
    """

    job: BatchJob
    shared: Scheduled | None
    inputs: tuple[str, ...]
    engine: EngineRequest
    beam_arguments: tuple[str, ...]
    people: People | None
    overwrite: bool
    on_bad_file: str
    max_bad_fraction: float
    processes: int | None
    lost: Mapping[str, int]


def request_of(options: argparse.Namespace, beam_arguments: Sequence[str]) -> Request:
    """What the options ask for.

    Raises:
        UserError: if the options, the study, the input or the output folder cannot be used.
    """
    study = study_of(options.study, options.attribute)
    _check(options, study, beam_arguments)
    check_work(study)
    people = true_values(
        options,
        study,
        times=study.windows is not None or options.start is not None or options.stop is not None,
        groups=study.groups is not None,
    )
    engine = engine_request(options)
    # Scheduled runs may start in different folders.
    reached = files.absolute if _is_scheduled(options, study) else engine.reachable
    folder = engine.reachable(options.output)
    read, lost = _read_of(options, engine, folder)
    inputs = tuple(map(reached, options.input)) if read is None else read.names
    job, shared = _job_of(options, study, read, inputs, folder)
    return filled(
        Request,
        options,
        lost=lost,
        job=job,
        shared=shared,
        inputs=inputs,
        engine=engine,
        beam_arguments=tuple(beam_arguments),
        people=people,
    )


def _check(options: argparse.Namespace, study: Study, beam_arguments: Sequence[str]) -> None:
    """Check that the options are in range and fit the study."""
    check_reachable("--input", *(options.input or ()))
    check_reachable("--output", options.output)
    try:
        if study.group_users:
            check_overlap(study.windows)
    except ValueError as error:
        raise UserError(f"{options.study}: {error}") from None
    given = {argument.partition("=")[0] for argument in beam_arguments}
    for option in sorted(given & {"--streaming", "--dry_run", "--template_location"}):
        raise UserError(f"{option}: this command estimates when its job has read all input: leave it out")


def _read_of(
    options: argparse.Namespace, engine: EngineRequest, folder: str
) -> tuple[BatchInput | None, Mapping[str, int]]:
    """(what a module opens, counts or dead letters; None for files, how many reports have no record).

    Raises:
        UserError: if not one thing is named, an option of Kafka has files, a topic cannot be reached, or the
            dead letters would be replaced, or none can be read again.
    """
    source = named(BOUNDED, options)
    if source.module:
        return module_of(source.module).spanned(options, engine.reachable), {}
    if options.again:
        from ldpbeam.pipelines.sources.again import find_again

        folders = list(map(engine.reachable, options.again))
        if files.real(folder) in map(files.real, folders):
            raise UserError(
                f"--output {options.output}: the dead letters there would be replaced; name another"
            )
        return find_again(folders)
    if not options.counts:
        return None, {}
    if options.runner != LOCAL:
        raise UserError("--counts: counts are read in this process: leave out --runner")
    return find_counts(options.counts), {}


def _job_of(
    options: argparse.Namespace,
    study: Study,
    given: BatchInput | None,
    inputs: tuple[str, ...],
    folder: str,
) -> tuple[BatchJob, Scheduled | None]:
    """The run, and for one that shares a folder that folder, to which its files are moved."""
    columns = columns_of(options, study, whole=options.keep_bad_records)
    span = _span_of(options, study)
    disclosure = disclosure_of(study, options.user_id_key_file, options.keep_bad_records)
    hidden = disclosure.hides
    read = given or find_input(inputs, options.on_bad_file, hidden=hidden)
    check_stamps(read.files, study, columns, hidden=hidden)
    output, shared = _place(options, study, folder, span, inputs, columns)
    job = filled(
        BatchJob,
        options,
        study=study,
        input=read,
        output=output.output,
        run=output.run,
        columns=columns,
        span=span,
        disclosure=disclosure,
        ledger_key=ledger_key(shared or output, disclosure.user_id_key, shared=shared is not None),
    )
    return job, shared


def _is_scheduled(options: argparse.Namespace, study: Study) -> bool:
    return bool(study.windows and options.start and options.stop and not options.again)


def _span_of(options: argparse.Namespace, study: Study) -> Span:
    """The event times to estimate; with windows, the span of the whole windows between --from and --to.

    Raises:
        UserError: if --from is not before --to, or no whole window lies between them.
    """
    clock = study.clock or study.local
    start, stop = time_of("--from", options.start, clock=clock), time_of("--to", options.stop, clock=clock)
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
    options: argparse.Namespace,
    study: Study,
    folder: str,
    span: Span,
    inputs: tuple[str, ...],
    columns: Columns,
) -> tuple[Output, Scheduled | None]:
    """Where the run writes, and for a scheduled run the shared folder to which its files are moved."""
    renamed = (f"{name}={field}" for name, field in sorted(columns.renamed))
    named = columns.attribute, columns.service, *renamed
    if not _is_scheduled(options, study):
        name = run_name(study, inputs, span.start, span.stop, *named)
        output = Output(study, folder, name)
        owner(output, NOBODY, options.overwrite)
        return output, None
    # Runs of one schedule differ in spans and mostly in inputs, so all take the name of the first run.
    first = Output(study, folder, run_name(study, inputs, "scheduled", *named))
    name = owner(first, SCHEDULED_RUNS, options.overwrite) or first.run
    shared = Scheduled(study, folder, name, span, inputs)
    return shared.made, shared

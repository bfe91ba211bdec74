"""What the options of ``ldpbeam stream`` ask for, checked, in one frozen value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from ldpbeam.answers.costs import refuse_endless
from ldpbeam.command_line.arguments import filled
from ldpbeam.command_line.checks import (
    check_reachable,
    columns_of,
    duration_of,
    study_of,
)
from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.inputs.key_files import disclosure_of
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.options.sources import PUBLISHED, STREAMED, Source, named
from ldpbeam.pipelines.options.stream import DISORDER, METRICS_HOST
from ldpbeam.pipelines.runs.ledger_folder import ledger_key
from ldpbeam.pipelines.sources.on_engines.opening import Opening
from ldpbeam.runners.request import EngineRequest, engine_request
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.sources.reading import ReadingOptions


@dataclass(frozen=True)
class Request:
    """A run of ``ldpbeam stream``, whose options have been checked.

    Attributes:
        job: what the run reads, keeps and writes, as far as the options say: it has no name and no feed yet.
        source: what kind of thing is read.
        opening: what opens it.
        columns: the columns that are read.
        engine: the engine.
        beam_arguments: the options that only Beam knows.
        resume: the run whose state a savepoint has; None for a new run.
        report: the file of the page that is kept current; None for none.
        metrics: the interface and the port on which the run says how it is; None for none.
    """

    job: StreamJob
    source: Source
    opening: Opening
    columns: Columns
    engine: EngineRequest
    beam_arguments: tuple[str, ...]
    resume: str | None
    report: str | None
    metrics: tuple[str, int] | None


def request_of(options: argparse.Namespace, beam_arguments: Sequence[str]) -> Request:
    """What the options ask for.

    Raises:
        UserError: if the options or the study cannot be used.
    """
    study = study_of(options.study, options.attribute)
    refuse_endless(study)
    check_tables(study)
    if study.windows is None:
        raise UserError(f"{options.study}: a stream needs windows, as in windows: {{size: 1h}}")
    if (options.resume is None) != (options.savepoint is None):
        raise UserError("--resume and --savepoint go together: --resume names the run, --savepoint its state")
    check_reachable(*(options.input or ()), options.output)
    engine = engine_request(options)
    columns = columns_of(options, study, whole=options.keep_bad_records)
    output = engine.reachable(options.output)
    disclosure = disclosure_of(study, options.user_id_key_file, options.keep_bad_records)
    idle = options.stop_when_idle
    reading = filled(
        ReadingOptions,
        options,
        max_disorder=duration_of("--max-disorder", options.max_disorder or DISORDER),
        stop_when_idle=None if idle is None else duration_of("--stop-when-idle", idle),
    )
    topic = options.publish_to
    publishes, of_publishing = next(
        known for start, known in PUBLISHED.items() if (topic or "").startswith(start)
    )
    source, name = named(STREAMED, options, of_publishing)
    if engine.detached:
        _check_detached(options, source, name)
    opening, metrics = _module(source.module).opening(options, engine), _metrics_of(options)
    job = filled(
        StreamJob,
        options,
        study=study,
        output=output,
        run="",
        reading=reading,
        native=engine.detached,
        disclosure=disclosure,
        ledger_key=ledger_key(Output(study, output, ""), disclosure.user_id_key, shared=True),
        # A topic is asked for here, so this comes after all that needs no answer.
        publish=None if topic is None else _module(publishes).publishing(options, engine),
    )
    return filled(
        Request,
        options,
        job=job,
        source=source,
        opening=opening,
        columns=columns,
        engine=engine,
        beam_arguments=tuple(beam_arguments),
        metrics=metrics,
    )


def _module(name: str) -> Any:
    return import_module(f"ldpbeam.pipelines.sources.on_engines.{name}")


def _metrics_of(options: argparse.Namespace) -> tuple[str, int] | None:
    host, port = options.metrics_host, options.metrics_port
    if port is None:
        if host is not None:
            raise UserError(f"--metrics-host {host}: name a port, as in --metrics-port 9464")
        return None
    if not 0 <= port < 2**16:
        raise UserError(f"--metrics-port {port}: a port is a number from 1 to 65535, and 0 takes a free one")
    return (METRICS_HOST if host is None else host), port


def _check_detached(options: argparse.Namespace, source: Source, name: str) -> None:
    """Check that a job which outlives the command is not asked for what needs it, or our own source.

    Raises:
        UserError: for the first thing.
    """
    ours = [] if source.detached else [name]
    ours += [
        f"--{field.name.replace('_', '-')}"
        for field in fields(ReadingOptions)
        if getattr(options, field.name) is not None
    ]
    if ours:
        raise UserError(f"{ours[0]} needs an engine that can run our own source: Prism or Flink")
    if options.report:
        raise UserError(
            "--report: the job outlives this command; `ldpbeam report` makes a page of its output"
        )
    if options.metrics_port is not None:
        raise UserError("--metrics-port: the job outlives this command; Dataflow has metrics of its own")
    if options.topic:
        raise UserError(
            "--topic: its subscription would end with this command, and the job goes on; name a "
            "--subscription"
        )

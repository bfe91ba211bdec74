"""What the options of ``ldpbeam stream`` ask for, checked, in one frozen value."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from ldpbeam.command_line.arguments import filled
from ldpbeam.command_line.checks import check_reachable, columns_of, duration_of, study_of
from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.inputs.key_files import disclosure_of
from ldpbeam.pipelines.estimates.run_estimates import check_work
from ldpbeam.pipelines.options.sources import PUBLISHED, STREAMED, module_of, named
from ldpbeam.pipelines.options.stream import DISORDER, METRICS_HOST
from ldpbeam.pipelines.runs.ledger_folder import ledger_key
from ldpbeam.pipelines.sources.opening import Opening
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.outputs.publish import ToKafka, ToPubSub
from ldpbeam.transforms.reports.dead_letters import Disclosure


@dataclass(frozen=True)
class Request:
    """A run of ``ldpbeam stream``, whose options have been checked.

    Attributes:
        output: where the run writes; it has no name yet.
        opening: what opens it.
        columns: the columns that are read.
        disclosure: what outputs may reveal about inputs, with the HMAC key for user ids.
        disorder: how many milliseconds out of order reports arrive at most.
        idle: milliseconds without a report after which the run ends; None to run on.
        drain: whether open windows end when the run is stopped.
        publish: where estimates are published; None for nowhere.
        report: the file of the page that is kept current; None for none.
        metrics: the interface and the port on which the run says how it is; None for none.
    """

    output: StreamOutput
    opening: Opening
    columns: Columns
    disclosure: Disclosure
    disorder: int
    idle: int | None
    drain: bool
    publish: ToPubSub | ToKafka | None
    report: str | None
    metrics: tuple[str, int] | None


def request_of(options: argparse.Namespace) -> Request:
    """What the options ask for.

    Raises:
        UserError: if the options or the study cannot be used.
    """
    if options.runner is not None:
        raise UserError(
            f"--runner {options.runner}: a stream runs on this machine, without an engine; on several, "
            "ldp.beam.Estimate reads any unbounded collection of Beam, as examples/beam_stream.py does"
        )
    study = study_of(options.study, options.attribute)
    check_work(study)
    if study.windows is None:
        raise UserError(f"{options.study}: a stream needs windows, as in windows: {{size: 1h}}")
    check_reachable("--input", *(options.input or ()))
    check_reachable("--output", options.output)
    disclosure = disclosure_of(study, options.user_id_key_file, options.keep_bad_records)
    idle, topic = options.stop_when_idle, options.publish_to
    publishes, of_publishing = next(
        known for start, known in PUBLISHED.items() if (topic or "").startswith(start)
    )
    source = named(STREAMED, options, of_publishing)
    key = ledger_key(Output(study, options.output, ""), disclosure.user_id_key, shared=True)
    return filled(
        Request,
        options,
        output=StreamOutput(study, options.output, "", options.spool or "", ledger_key=key),
        opening=module_of(source.module).opening(options),
        columns=columns_of(options, study, whole=options.keep_bad_records),
        disclosure=disclosure,
        disorder=duration_of("--max-disorder", options.max_disorder or DISORDER),
        idle=None if idle is None else duration_of("--stop-when-idle", idle),
        metrics=_metrics_of(options),
        # A topic is asked for here, so this comes after all that needs no answer.
        publish=None if topic is None else module_of(publishes).publishing(options),
    )


def _metrics_of(options: argparse.Namespace) -> tuple[str, int] | None:
    host, port = options.metrics_host, options.metrics_port
    if port is None:
        if host is not None:
            raise UserError(f"--metrics-host {host}: name a port, as in --metrics-port 9464")
        return None
    if not 0 <= port < 2**16:
        raise UserError(f"--metrics-port {port}: a port is a number from 1 to 65535, and 0 takes a free one")
    return (METRICS_HOST if host is None else host), port

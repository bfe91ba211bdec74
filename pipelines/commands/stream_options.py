"""What the options of ``ldpbeam stream`` ask for, checked, in one frozen value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

from ldpbeam.answers.costs import refuse_endless
from ldpbeam.command_line.checks import (
    check_partitions,
    check_reachable,
    check_service,
    duration_of,
    renamed_of,
    study_of,
)
from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.inputs.kafka import SCHEME, KafkaRequest, topic_at
from ldpbeam.inputs.kafka_brokers import EARLIEST
from ldpbeam.inputs.key_files import disclosure_of
from ldpbeam.inputs.times import offset_of
from ldpbeam.pipelines.commands.kafka_options import kafka_config, kafka_topic
from ldpbeam.pipelines.options.stream import DISORDER, METRICS_HOST
from ldpbeam.pipelines.runs.feed import FeedRequest
from ldpbeam.pipelines.runs.ledger_folder import ledger_key
from ldpbeam.runners.engines import EngineRequest, engine_request
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.study import Study
from ldpbeam.transforms.reports.dead_letters import Disclosure
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.kafka_client import KafkaTopic


@dataclass(frozen=True)
class Request:
    """A run of ``ldpbeam stream``, whose options have been checked.

    Attributes:
        study: the study, which has windows.
        output: the output folder.
        feed: what is read.
        columns: the columns that are read.
        engine: the engine.
        beam_arguments: the options that only Beam knows.
        disorder: how far apart in time reports may arrive, in milliseconds.
        stop_when_idle: the milliseconds without a report after which the run ends; None to go on.
        partitions: how many partitions users are divided into.
        disclosure: what outputs may reveal about inputs.
        ledger_key: the key of the ledger over periods; None if the study has none.
        resume: the run whose state a savepoint has; None for a new run.
        page: the file of the page that is kept current; None for none.
        metrics: the interface and the port on which the run says how it is; None for none.
    """

    study: Study
    output: str
    feed: FeedRequest
    columns: Columns
    engine: EngineRequest
    beam_arguments: tuple[str, ...]
    disorder: int
    stop_when_idle: int | None
    partitions: int
    disclosure: Disclosure
    ledger_key: bytes | None = field(repr=False)
    resume: str | None
    page: str | None
    metrics: tuple[str, int] | None


def request_of(options: argparse.Namespace, beam_arguments: Sequence[str]) -> Request:
    """What the options ask for.

    Raises:
        UserError: if the options or the study cannot be used.
    """
    study = study_of(options.study, options.attribute)
    refuse_endless(study)
    if study.windows is None:
        raise UserError(f"{options.study}: a stream needs windows, as in windows: {{size: 1h}}")
    if (options.resume is None) != (options.savepoint is None):
        raise UserError("--resume and --savepoint go together: --resume names the run, --savepoint its state")
    check_reachable(*(options.input or ()), options.output)
    check_service(options.service, study)
    check_partitions(options.partitions)
    engine = engine_request(options)
    renamed = renamed_of(options, study)
    output = engine.reachable(options.output)
    disclosure = disclosure_of(options.user_id_key_file, options.keep_bad_records)
    idle = options.stop_when_idle
    if engine.detached:
        _check_detached(options)
    return Request(
        study=study,
        output=output,
        feed=_feed_of(options, engine),
        columns=wanted_columns(
            study, options.attribute, options.service, whole=options.keep_bad_records, renamed=renamed
        ),
        engine=engine,
        beam_arguments=tuple(beam_arguments),
        disorder=duration_of("--max-disorder", options.max_disorder or DISORDER),
        stop_when_idle=None if idle is None else duration_of("--stop-when-idle", idle),
        partitions=options.partitions,
        disclosure=disclosure,
        ledger_key=ledger_key(Output(study, output, ""), disclosure.user_id_key, shared=True),
        resume=options.resume,
        page=options.report,
        metrics=_metrics_of(options),
    )


def _feed_of(options: argparse.Namespace, engine: EngineRequest) -> FeedRequest:
    """What is read.

    Raises:
        UserError: if it is not one thing, or an option of Kafka has another feed.
    """
    patterns = tuple(map(engine.reachable, options.input or ()))
    publish_to: str | KafkaTopic | None = options.publish_to
    of_kafka = ["from_offset", "group", "kafka_config"]
    if isinstance(publish_to, str) and publish_to.startswith(SCHEME):
        publish_to = topic_at("--publish-to", publish_to, kafka_config(options, engine))
        of_kafka.remove("kafka_config")
    topic = kafka_topic(options, engine, of_kafka)
    if topic is None:
        return FeedRequest(options.subscription, options.topic, patterns, publish_to=publish_to)
    begin = offset_of("--from-offset", options.from_offset, EARLIEST)
    asked = KafkaRequest(topic, begin, options.group)
    return FeedRequest(options.subscription, None, patterns, asked, publish_to)


def _metrics_of(options: argparse.Namespace) -> tuple[str, int] | None:
    host, port = options.metrics_host, options.metrics_port
    if port is None:
        if host is not None:
            raise UserError(f"--metrics-host {host}: name a port, as in --metrics-port 9464")
        return None
    if not 0 <= port < 2**16:
        raise UserError(f"--metrics-port {port}: a port is a number from 1 to 65535, and 0 takes a free one")
    return (METRICS_HOST if host is None else host), port


def _check_detached(options: argparse.Namespace) -> None:
    """Check that a job which outlives the command is not asked for what needs it, or our own source.

    Raises:
        UserError: for the first thing.
    """
    for name in ("input", "kafka", "stop_when_idle", "max_disorder"):
        if getattr(options, name) is not None:
            dashed = name.replace("_", "-")
            raise UserError(f"--{dashed} needs an engine that can run our own source: Prism or Flink")
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

"""``ldpbeam stream``: its options, the feed that it reads, and what it prints."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from ldpbeam.pipelines.commands.options import (
    check_partitions,
    check_reachable,
    check_service,
    duration_of,
    study_of,
)
from ldpbeam.pipelines.errors import DONE, WITH_CARE, UserError
from ldpbeam.pipelines.estimates import tables
from ldpbeam.pipelines.estimates.published import warnings_of
from ldpbeam.pipelines.estimates.stages import disclosure_of
from ldpbeam.pipelines.graphs.engines import engine_of, reach_from_elsewhere
from ldpbeam.pipelines.graphs.stream import StreamJob, build
from ldpbeam.pipelines.options.stream import DISORDER
from ldpbeam.pipelines.pages.live import kept_current
from ldpbeam.pipelines.printing import document, note, warn
from ldpbeam.pipelines.runs.costs import refuse_endless
from ldpbeam.pipelines.runs.output import (
    DEAD_LETTERS,
    ESTIMATES,
    STATISTICS,
    TABLE_FOLDERS,
    named_in_errors,
    sweep,
)
from ldpbeam.pipelines.runs.stream_runs import (
    incomplete_windows,
    owned_by_stream,
    read_run_accounting,
    resume,
)
from ldpbeam.pipelines.runs.stream_watch import run_until_stopped, submit
from ldpbeam.pipelines.terminal import shown
from ldpbeam.runners import dataflow
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.times import rfc3339
from ldpbeam.transforms.reports.counts import NOT_BEGUN
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.decoding import left_on_record
from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.sources.files import pattern_of
from ldpbeam.transforms.sources.folder import FolderFeed, done_before
from ldpbeam.transforms.sources.journal import RUNS
from ldpbeam.transforms.sources.pubsub import PubSubFeed, emulator
from ldpbeam.transforms.storage import literal

_PLACE = re.compile(r"projects/([^/]+)/(subscriptions|topics)/([^/]+)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._~+%-]{2,254}")
#: The characters of Google's shortest project ids.
SHORTEST_PROJECT = 6
#: Seconds to wait for a Pub/Sub server that does not answer.
SERVER_SECONDS = 10.0
#: The acknowledgement deadline of a subscription that a run creates.
OWN_LEASE_SECONDS = 60


def stream_command(options: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Run ``ldpbeam stream`` and return its exit code.

    Raises:
        UserError: if the options, the study, the feed or the output folder cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="ldpbeam-") as staged:
        return run(options, beam_arguments, Path(staged))


def run(options: argparse.Namespace, beam_arguments: list[str], staged: Path) -> int:
    """Run the stream with parsed options.

    Args:
        options: the options of this command.
        beam_arguments: the options that only Beam knows.
        staged: a local folder for files that the engine stages.

    Returns:
        The exit code: DONE, or WITH_CARE if input files were damaged.

    Raises:
        UserError: if the options, the study, the feed or the output folder cannot be used.
    """
    study = study_of(options.study, options.attribute)
    refuse_endless(study)
    reach_from_elsewhere(options)
    if study.windows is None:
        raise UserError(f"{options.study}: a stream needs windows, as in windows: {{size: 1h}}")
    if (options.resume is None) != (options.savepoint is None):
        raise UserError("--resume and --savepoint go together: whose state it is, and where")
    check_reachable(*(options.input or ()), options.output)
    check_service(options.service, study)
    check_partitions(options.partitions)
    disorder = duration_of("--max-disorder", options.max_disorder or DISORDER)
    idle = None if options.stop_when_idle is None else duration_of("--stop-when-idle", options.stop_when_idle)
    disclosure = disclosure_of(options)
    engine = engine_of(options, staged, streaming=True, given=beam_arguments)
    for option in ("input", "stop_when_idle", "max_disorder"):
        if not engine.own_source and getattr(options, option) is not None:
            dashed = option.replace("_", "-")
            raise UserError(f"--{dashed} needs an engine that can run our own source: Prism or Flink")
    detached = not (engine.own_source or engine.here)
    if detached and options.report:
        raise UserError(
            "--report: the job outlives this command; `ldpbeam report` makes a page of its output"
        )
    if detached and options.topic:
        raise UserError(
            "--topic: the job outlives this command, and a subscription of this command's would not; name a "
            "--subscription"
        )
    name = options.resume or f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
    if options.resume:
        resume(options.output, options.resume)
    columns = wanted_columns(study, options.attribute, options.service, whole=options.keep_bad_records)
    with _feed(options, columns, name) as feed:
        job = StreamJob(
            study=study,
            output=options.output,
            run=name,
            feed=feed,
            disorder=disorder,
            partitions=options.partitions,
            native=not engine.own_source,
            stop_when_idle=idle,
            stays=engine.ended_when_past,
            disclosure=disclosure,
            publish_to=options.publish_to,
            incomplete=incomplete_windows(study, options.output, name),
        )
        pipeline = engine.pipeline(beam_arguments)
        build(pipeline, job)
        if dataflow.is_dry_run(pipeline):
            submit(pipeline)
            print(
                f"a dry run: the job was made and not submitted; nothing was read, {job.output} is as it was"
            )
            return DONE
        with owned_by_stream(job) as place:
            if job.incomplete:
                note(_about_incomplete(job))
            server = emulator() if isinstance(feed, PubSubFeed) else None
            where = f" at {server}" if server else ""
            if detached:
                print(shown(f"run {name}: reads {feed.name}, writes to {job.output}"))
                submitted = submit(pipeline)
                if submitted is None:
                    print(f"the job is the template {dataflow.template_of(pipeline)}, and was not started")
                else:
                    print(
                        f"job {submitted} continues without this command; `gcloud dataflow jobs drain "
                        f"{submitted} --region={options.region}` ends it"
                    )
                return DONE
            started = {"event": "started", "run": name, "reads": feed.name, "output": job.output}
            if not document(started):
                print(shown(f"run {name}: reading {feed.name}{where}; stop with Ctrl-C"), flush=True)
            with kept_current(options.report, job.output):
                run_until_stopped(pipeline, job, engine.here)
            place.check()
    return _finished(job)


@contextmanager
def _feed(options: argparse.Namespace, columns: Columns, run: str) -> Iterator[Feed]:
    """The feed of the subscription, topic or files that the options name.

    Raises:
        UserError: if the options name none or several of them, or the feed cannot be reached.
    """
    if sum(given is not None for given in (options.subscription, options.topic, options.input)) != 1:
        raise UserError("name one thing to read: --subscription, --topic (projects/P/topics/T) or --input")
    with _subscription(options) as (subscription, lease):
        with named_in_errors(options.output):
            folder = FileSystems.join(options.output, RUNS, run)
            suspects = left_on_record(FileSystems.join(literal(options.output), RUNS, "*"))
            done = done_before(options.output, RUNS)
        if subscription is not None:
            yield PubSubFeed(subscription, columns, folder, tuple(sorted(suspects.items())), lease)
            return
        for pattern in options.input:
            try:
                FileSystems.match([pattern_of(pattern)])
            except (BeamIOError, OSError, ValueError) as error:
                raise UserError(f"--input {pattern}: {error}") from None
        yield FolderFeed(tuple(options.input), columns, folder, done)


@contextmanager
def _subscription(options: argparse.Namespace) -> Iterator[tuple[str | None, int]]:
    """The subscription to read, and its acknowledgement deadline in seconds; None if files are read.

    With ``--topic`` a subscription is created, and deleted when the block ends.

    Raises:
        UserError: if a name is malformed, or the server does not answer or refuses.
    """
    for option in ("subscription", "topic", "publish_to"):
        given = getattr(options, option)
        kind = "subscriptions" if option == "subscription" else "topics"
        if given is not None:
            check_name(f"--{option.replace('_', '-')}", given, kind)
    if options.input and options.publish_to is None:
        yield None, 0
        return
    try:
        from google.api_core import exceptions
        from google.api_core.retry import Retry
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import pubsub_v1
    except ImportError:
        raise UserError("Pub/Sub needs google-cloud-pubsub: pip install 'ldpbeam[pubsub]'") from None
    patience: dict[str, Any] = {"retry": Retry(timeout=SERVER_SECONDS), "timeout": SERVER_SECONDS}
    try:
        with pubsub_v1.SubscriberClient() as client:
            if options.publish_to is not None:
                pubsub_v1.PublisherClient().get_topic(topic=options.publish_to, **patience)
            if options.input:
                yield None, 0
                return
            if options.subscription is not None:
                named = client.get_subscription(subscription=options.subscription, **patience)
                yield options.subscription, named.ack_deadline_seconds
                return
            project = options.topic.split("/")[1]
            own = f"projects/{project}/subscriptions/ldpbeam-{uuid.uuid4().hex[:12]}"
            client.create_subscription(
                name=own, topic=options.topic, ack_deadline_seconds=OWN_LEASE_SECONDS, **patience
            )
            try:
                yield own, OWN_LEASE_SECONDS
            finally:
                client.delete_subscription(subscription=own, **patience)
    except (exceptions.GoogleAPICallError, exceptions.RetryError, GoogleAuthError) as error:
        server = emulator()
        where = f"the server at {server} (PUBSUB_EMULATOR_HOST)" if server else "Google Pub/Sub"
        cause = getattr(error, "cause", error)
        message = getattr(cause, "message", None) or str(cause)
        raise UserError(f"{where}: {message}") from None


def check_name(option: str, given: str, kind: str) -> None:
    """Check the full name of a subscription or topic of Pub/Sub.

    Raises:
        UserError: if it has another form, is of the other kind, or a part of it is no name.
    """
    match = _PLACE.fullmatch(given)
    if match is None or match[2] != kind:
        raise UserError(f"{option} {given}: write it as projects/PROJECT/{kind}/NAME")
    if len(match[1]) < SHORTEST_PROJECT:
        raise UserError(
            f"{option} {given}: {match[1]!r} is no project id, which has {SHORTEST_PROJECT} characters or "
            "more"
        )
    if not _NAME.fullmatch(match[3]):
        raise UserError(
            f"{option} {given}: {match[3]!r} is no name of Pub/Sub, which starts with a letter and has 3 to "
            "255 letters, digits and . _ ~ + % -"
        )


def _about_incomplete(job: StreamJob) -> str:
    first = min(window.start for window in job.incomplete)
    last = max(window.end for window in job.incomplete)
    return (
        f"earlier runs ended with {len(job.incomplete):,} open windows, from {rfc3339(first)} to "
        f"{rfc3339(last)}: this run marks their estimates as incomplete"
    )


def _finished(job: StreamJob) -> int:
    """Print what a finished run wrote and counted, and return its exit code."""
    windows = ((STATISTICS,), (ESTIMATES,), *TABLE_FOLDERS.values())
    sweep([job.path(*folder) for folder in windows], job.run)
    sweep([job.of_run(""), job.of_run(DEAD_LETTERS)])
    found = read_run_accounting(job)
    document({"event": "ended", "run": job.run, "output": job.output, "accounting": found})
    print(tables.accounting_line(found))
    where = f"estimates and statistics are in {job.output}, what became of the reports in {job.of_run('')}"
    print(shown(where))
    if found.get(NOT_BEGUN):
        note(
            f"{found[NOT_BEGUN]:,} of the used reports are in windows that had not begun when the run ended; "
            "these windows are not published"
        )
    if found["dead_letters"]:
        from rich.console import Console

        tables.print_reasons(Console(), found)
    for sentence in warnings_of(job.study, found):
        warn(sentence)
    if found["damaged_files"]:
        line = tables.damage_line(found["damaged_files"])
        print(f"ldpbeam: {line}; look at the outputs with care", file=sys.stderr)
        return WITH_CARE
    return DONE

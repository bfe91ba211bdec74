"""What a stream reads: opened, and for a topic with a subscription of its own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from apache_beam.io.filesystem import BeamIOError

from ldpbeam.errors import UserError, without_number
from ldpbeam.folders.output import named_in_errors
from ldpbeam.inputs.kafka import KafkaRequest, reach, reach_destination
from ldpbeam.pipelines.runs.ownership import held
from ldpbeam.pipelines.runs.replays import Continued, check_topic
from ldpbeam.pipelines.runs.stream_runs import runs_in
from ldpbeam.printing import note, warn
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.sources.files import entries_of
from ldpbeam.transforms.sources.folder import FolderFeed, done_before
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.pubsub import PubSubFeed, emulator
from ldpbeam.transforms.state.decoding import left_on_record
from ldpbeam.transforms.state.files import run_folder
from ldpbeam.transforms.state.journal import checksums_before, ended_at, positions_before
from ldpbeam.windows import FAR

_PLACE = re.compile(r"projects/([^/]+)/(subscriptions|topics)/([^/]+)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._~+%-]{2,254}")
#: The characters of Google's shortest project ids.
SHORTEST_PROJECT = 6
#: Seconds to wait for a Pub/Sub server that does not answer.
SERVER_SECONDS = 10.0
#: The acknowledgement deadline of a subscription that a run creates.
OWN_LEASE_SECONDS = 60
#: Without a reader, the server deletes it after the seven days for which it keeps messages.
EXPIRATION = timedelta(days=7)


@dataclass(frozen=True)
class FeedRequest:
    """One thing to read: a subscription or a topic of Pub/Sub, a topic of Kafka, or files that appear.

    Attributes:
        subscription: the full name of a subscription of Pub/Sub.
        topic: the full name of a topic, which gets a subscription for the run.
        patterns: names or globs of files.
        kafka: a topic of Kafka.
        publish_to: the topic to which panes are published, which must be reached too.

    Raises:
        UserError: if it names none or several of them, or a name is malformed.
    """

    subscription: str | None = None
    topic: str | None = None
    patterns: tuple[str, ...] = ()
    kafka: KafkaRequest | None = None
    publish_to: str | KafkaTopic | None = None

    def __post_init__(self) -> None:
        given = (self.subscription, self.topic, self.patterns or None, self.kafka)
        if sum(each is not None for each in given) != 1:
            raise UserError(
                "name one thing to read: --subscription, --topic (projects/P/topics/T), --input, or --kafka "
                "with --topic"
            )
        for option in ("subscription", "topic", "publish_to"):
            name = getattr(self, option)
            kind = "subscriptions" if option == "subscription" else "topics"
            if isinstance(name, str):
                check_name(f"--{option.replace('_', '-')}", name, kind)


@dataclass(frozen=True)
class Opened:
    """A feed that can be read.

    Attributes:
        feed: the feed.
        starts: (partition, the offset at which it begins); none if it has no offsets.
        removed: by partition, (the offset that is needed, the first that there is), where messages are gone.
        new: by partition that has lost the end of its log, the offset from which messages are new.
    """

    feed: Feed
    starts: tuple[tuple[int, int], ...] = ()
    removed: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    new: Mapping[int, int] = field(default_factory=dict)


@contextmanager
def open_feed(
    asked: FeedRequest, columns: Columns, output: str, run: str, continues: Continued | None = None
) -> Iterator[Opened]:
    """The feed that is asked for.

    Args:
        asked: what is read.
        columns: the columns that are read.
        output: the output folder, whose journals say what earlier runs have read.
        run: the name of this run.
        continues: what an earlier process of the run left that matters to the feed; None in the first.

    Raises:
        UserError: if the feed cannot be reached.
    """
    if isinstance(asked.publish_to, KafkaTopic):
        reach_destination(asked.publish_to)
    with _subscription(asked, output, run) as (subscription, lease):
        with named_in_errors(output):
            folder, suspects, done = run_folder(output, run), left_on_record(output), done_before(output)
        if asked.kafka is not None:
            left = tuple(sorted(suspects.items()))
            yield _kafka(asked.kafka, columns, output, folder, left, continues)
            return
        if subscription is not None:
            yield Opened(PubSubFeed(subscription, columns, folder, tuple(sorted(suspects.items())), lease))
            return
        for pattern in asked.patterns:
            try:
                entries_of([pattern])
            except (BeamIOError, OSError, ValueError) as error:
                raise UserError(f"--input {pattern}: {without_number(str(error))}") from None
        yield Opened(FolderFeed(asked.patterns, columns, folder, done))


@contextmanager
def _subscription(asked: FeedRequest, output: str, run: str) -> Iterator[tuple[str | None, int]]:
    """The subscription to read, and its acknowledgement deadline in seconds; None if something else is read.

    With ``--topic`` it is that of an earlier run which could not delete it, or one that is created. It is
    deleted when the block ends, unless the run has begun and not ended: then the next run goes on with it.

    Raises:
        UserError: if the server does not answer or refuses.
    """
    elsewhere = asked.kafka is not None or bool(asked.patterns)
    publish_to = asked.publish_to if isinstance(asked.publish_to, str) else None
    if elsewhere and publish_to is None:
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
            if publish_to is not None:
                pubsub_v1.PublisherClient().get_topic(topic=publish_to, **patience)
            if elsewhere:
                yield None, 0
                return
            if asked.subscription is not None:
                named = client.get_subscription(subscription=asked.subscription, **patience)
                yield asked.subscription, named.ack_deadline_seconds
                return
            assert asked.topic is not None
            name = f"projects/{asked.topic.split('/')[1]}/subscriptions/ldpbeam-"
            for earlier in runs_in(output):
                with (
                    contextlib.suppress(UserError, exceptions.NotFound),
                    held(run_folder(output, earlier), alone=True),
                ):
                    if client.get_subscription(subscription=name + earlier, **patience).topic == asked.topic:
                        name += earlier
                        note(f"run {earlier} left its subscription: this run reads what waits there")
                        break
            else:
                name += run
                request = {"name": name, "topic": asked.topic, "ack_deadline_seconds": OWN_LEASE_SECONDS}
                request["expiration_policy"] = {"ttl": EXPIRATION}
                client.create_subscription(request=request, **patience)
            try:
                yield name, OWN_LEASE_SECONDS
            finally:
                if run not in runs_in(output) or ended_at(output, run) is not None:
                    client.delete_subscription(subscription=name, **patience)
    except (exceptions.GoogleAPICallError, exceptions.RetryError, GoogleAuthError) as error:
        server = emulator()
        where = f"the server at {server} (PUBSUB_EMULATOR_HOST)" if server else "Google Pub/Sub"
        cause = getattr(error, "cause", error)
        message = getattr(cause, "message", None) or str(cause)
        raise UserError(f"{where}: {message}") from None


def _kafka(
    asked: KafkaRequest,
    columns: Columns,
    output: str,
    folder: str,
    suspects: tuple[tuple[str, int], ...],
    run: Continued | None,
) -> Opened:
    """The feed of a topic of Kafka, which begins where it must so that nothing is lost.

    Raises:
        UserError: if the brokers cannot be reached, or runs have read messages that the topic does not have.
    """
    with named_in_errors(output):
        positions = positions_before(output) if run is None else run.positions
        read = checksums_before(output)
    reached = reach(asked, positions, read)
    check_topic(output, asked.topic, reached.identity)
    taken = positions if run is None else dict(run.replay.taken)
    ends = {each: min(offset, reached.ends.get(each, 0)) for each, offset in taken.items()}
    new = {each: end for each, end in ends.items() if end < taken[each]} | dict(reached.new)
    # Where a log has lost its end, no offset is known to have the message that was there.
    gone = {**reached.removed, **{each: (offset, FAR) for each, offset in new.items()}}
    for partition, (needed, first) in sorted(gone.items()):
        lost = f"{taken.get(partition, needed) - needed:,} messages that were read, from offset {needed:,} on"
        if partition in new:
            what = f"the broker has lost {lost}, and perhaps others"
        else:
            what = f"retention has removed the messages from offset {needed:,} to {first - 1:,}"
        warn(
            f"{asked.topic.name}, partition {partition}: {what}, which this run needs; what was in "
            "them is lost, and windows that may lack it are marked incomplete"
        )
    run = None if run is None else run.without(new)
    if reached.others is not None:
        warn(
            f"--group {reached.others}: somebody else has committed offsets of this topic for it; only one "
            "can show how far this stream has come"
        )
    starts = tuple(sorted(reached.starts.items()))
    cuts = () if run is None else tuple(sorted(run.replay.cuts.items()))
    feed = KafkaFeed(asked.topic, reached.identity, columns, folder, starts, cuts, suspects, asked.group)
    return Opened(feed, starts, gone, new)


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
            f"{option} {given}: {match[1]!r} is not a project id, which has {SHORTEST_PROJECT} characters or "
            "more"
        )
    if not _NAME.fullmatch(match[3]):
        raise UserError(
            f"{option} {given}: {match[3]!r} is not a name of Pub/Sub, which starts with a letter and has 3 "
            "to 255 letters, digits and . _ ~ + % -"
        )

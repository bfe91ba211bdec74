"""Pub/Sub, as a source of streams and as the place to which estimates are published."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from ldpbeam.errors import UserError
from ldpbeam.pipelines.sources.opening import Opened, Opening, Run
from ldpbeam.printing import note
from ldpbeam.transforms.outputs.publish import ToPubSub
from ldpbeam.transforms.sources.pubsub import PubSubFeed, emulator, merged

_PLACE = re.compile(r"projects/[^/]{6,}/(subscriptions|topics)/[A-Za-z][A-Za-z0-9._~+%-]{2,254}")
#: Seconds to wait for a Pub/Sub server that does not answer.
SERVER_SECONDS = 10.0
#: The acknowledgement deadline of a subscription that a run creates.
OWN_LEASE_SECONDS = 60
#: Without a reader, the server deletes it after the seven days for which it keeps messages.
EXPIRATION = timedelta(days=7)


def opening(options: argparse.Namespace) -> Opening:
    """What opens the subscription or the topic that the options name.

    Raises:
        UserError: if its name is malformed.
    """
    if options.subscription is not None:
        check_name("--subscription", options.subscription, "subscriptions")
        return partial(open_subscription, options.subscription)
    check_name("--topic", options.topic, "topics")
    return partial(open_topic, options.topic)


def publishing(options: argparse.Namespace) -> ToPubSub:
    """The topic to which the options publish estimates.

    Raises:
        UserError: if its name is malformed, or it cannot be reached.
    """
    check_name("--publish-to", options.publish_to, "topics")
    with _server() as (_, patience):
        from google.cloud.pubsub_v1 import PublisherClient

        PublisherClient().get_topic(topic=options.publish_to, **patience)
    return ToPubSub(options.publish_to)


@contextmanager
def open_subscription(name: str, run: Run) -> Iterator[Opened]:
    """The feed of a subscription.

    Raises:
        UserError: if the server does not answer or refuses.
    """
    with _server() as (client, patience):
        lease = client.get_subscription(subscription=name, **patience).ack_deadline_seconds
        yield Opened(_feed(name, run, lease), _position(run), server=emulator())


@contextmanager
def open_topic(topic: str, run: Run) -> Iterator[Opened]:
    """The feed of a topic, which gets a subscription for the run, and keeps it until the run has ended.

    So what is published while a run is stopped waits for it, for as long as the server keeps it.

    Raises:
        UserError: if the server does not answer or refuses, or the subscription is of another topic.
    """
    with _server() as (client, patience):
        from google.api_core.exceptions import NotFound

        name = f"projects/{topic.split('/')[1]}/subscriptions/ldpbeam-{run.name}"
        try:
            of_topic = client.get_subscription(subscription=name, **patience).topic
        except NotFound:
            request = {"name": name, "topic": topic, "ack_deadline_seconds": OWN_LEASE_SECONDS}
            request["expiration_policy"] = {"ttl": EXPIRATION}
            client.create_subscription(request=request, **patience)
        else:
            if of_topic != topic:
                raise UserError(f"--topic {topic}: run {run.name} reads {of_topic}; name another folder")
            note(f"run {run.name} continues with its subscription, and reads what waits there")

        def finish() -> None:
            client.delete_subscription(subscription=name, **patience)

        feed = _feed(name, run, OWN_LEASE_SECONDS)
        yield Opened(feed, _position(run), server=emulator(), finish=finish)


def _feed(name: str, run: Run, lease: int) -> PubSubFeed:
    return PubSubFeed(name, run.columns, run.folder, lease_seconds=lease)


def _position(run: Run) -> dict[str, list[str]]:
    return merged([*run.earlier, *([] if run.position is None else [run.position])])


@contextmanager
def _server() -> Iterator[tuple[Any, dict[str, Any]]]:
    """(a client of the server, how long it waits for an answer).

    Raises:
        UserError: if the server does not answer or refuses.
    """
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
            yield client, patience
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
    if match is None or match[1] != kind:
        raise UserError(
            f"{option} {given}: write it as projects/PROJECT/{kind}/NAME; a project id has 6 characters or "
            "more, and a name starts with a letter and has 3 to 255 letters, digits and . _ ~ + % -"
        )

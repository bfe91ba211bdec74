"""Pub/Sub, as a source of streams and as the place to which estimates are published."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ldpbeam.errors import UserError
from ldpbeam.pipelines.runs.ownership import held
from ldpbeam.pipelines.runs.stream_runs import runs_in
from ldpbeam.pipelines.sources.on_engines.opening import Opened, Opening, Run
from ldpbeam.pipelines.sources.pubsub import EXPIRATION, OWN_LEASE_SECONDS, check_name, reached
from ldpbeam.printing import note
from ldpbeam.runners.request import EngineRequest
from ldpbeam.transforms.outputs.panes import Publish
from ldpbeam.transforms.sources.pubsub import PubSubFeed, emulator
from ldpbeam.transforms.state.files import run_folder
from ldpbeam.transforms.state.journal import ended_at


def opening(options: argparse.Namespace, _: EngineRequest) -> Opening:
    """What opens the subscription or the topic that the options name.

    Raises:
        UserError: if its name is malformed.
    """
    if options.subscription is not None:
        check_name("--subscription", options.subscription, "subscriptions")
        return partial(open_subscription, options.subscription)
    check_name("--topic", options.topic, "topics")
    return partial(open_topic, options.topic)


def publishing(options: argparse.Namespace, _: EngineRequest) -> Publish:
    """What publishes estimates to the topic that the options name.

    Raises:
        UserError: if its name is malformed, or it cannot be reached.
    """
    check_name("--publish-to", options.publish_to, "topics")
    with reached() as (_, patience):
        from google.cloud.pubsub_v1 import PublisherClient

        PublisherClient().get_topic(topic=options.publish_to, **patience)
    return Publish(options.publish_to)


@contextmanager
def open_subscription(name: str, run: Run) -> Iterator[Opened]:
    """The feed of a subscription.

    Raises:
        UserError: if the server does not answer or refuses.
    """
    with reached() as (client, patience):
        lease = client.get_subscription(subscription=name, **patience).ack_deadline_seconds
        yield _opened(name, run, lease)


@contextmanager
def open_topic(topic: str, run: Run) -> Iterator[Opened]:
    """The feed of a topic, which gets a subscription for the run.

    It is that of an earlier run which could not delete it, or one that is created. It is deleted when the
    block ends, unless the run has begun and not ended: then the next run goes on with it.

    Raises:
        UserError: if the server does not answer or refuses.
    """
    with reached() as (client, patience):
        from google.api_core.exceptions import NotFound

        name = f"projects/{topic.split('/')[1]}/subscriptions/ldpbeam-"
        for earlier in runs_in(run.output):
            with (
                contextlib.suppress(UserError, NotFound),
                held(run_folder(run.output, earlier), alone=True),
            ):
                if client.get_subscription(subscription=name + earlier, **patience).topic == topic:
                    name += earlier
                    note(f"run {earlier} left its subscription: this run reads what waits there")
                    break
        else:
            name += run.name
            request = {"name": name, "topic": topic, "ack_deadline_seconds": OWN_LEASE_SECONDS}
            request["expiration_policy"] = {"ttl": EXPIRATION}
            client.create_subscription(request=request, **patience)
        try:
            yield _opened(name, run, OWN_LEASE_SECONDS)
        finally:
            if run.name not in runs_in(run.output) or ended_at(run.output, run.name) is not None:
                client.delete_subscription(subscription=name, **patience)


def _opened(name: str, run: Run, lease: int) -> Opened:
    return Opened(PubSubFeed(name, run.columns, run.folder, run.suspects, lease), server=emulator())

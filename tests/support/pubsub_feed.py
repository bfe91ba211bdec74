"""A feed of Pub/Sub on the tests' own server, and what it takes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.cloud import pubsub_v1
from google.pubsub_v1 import PublisherClient

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.pubsub import PubSubFeed
from support.waiting import PATIENCE, wait_until

TOPIC, SUBSCRIPTION = "projects/ldp-test/topics/reports", "projects/ldp-test/subscriptions/estimates"
FEED = PubSubFeed(SUBSCRIPTION, Columns(), "out/runs/run", lease_seconds=0)
SETTLED = 0.3  # seconds in which what must not happen would have happened
RECORD = {"attribute": "x", "service": "a", "event_time": 5, "payload": 0.5}


class Running:
    """The server, one topic and its subscription, and what is published and pulled there."""

    def __init__(self, server: Any, folder: Path) -> None:
        self.server = server
        self.feed = replace(FEED, folder=str(folder))
        self._publisher = PublisherClient(transport=pubsub_v1.PublisherClient().transport)
        self._subscriber = pubsub_v1.SubscriberClient()
        self._publisher.create_topic(name=TOPIC)
        self._subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)

    def publish(self, *users: str) -> None:
        """A message with one report for each of some users."""
        self.publish_data(*(json.dumps({**RECORD, "user_id": user}).encode() for user in users))

    def publish_data(self, *data: bytes, **attributes: str) -> None:
        messages = [{"data": part, "attributes": attributes} for part in data]
        self._publisher.publish(request={"topic": TOPIC, "messages": messages}, timeout=PATIENCE)

    def delete_subscription(self) -> None:
        self._subscriber.delete_subscription(subscription=SUBSCRIPTION)

    def close(self) -> None:
        self._publisher.transport.close()
        self._subscriber.close()

    @property
    def counts(self) -> Any:
        return self.server.counts(SUBSCRIPTION)

    def strike(self, **faults: Any) -> None:
        self.server.faults = replace(self.server.faults, **faults)

    def reading(self) -> AbstractContextManager[Any]:
        """An open feed, for the block."""
        return self.going_on(None)

    def going_on(self, position: Any) -> AbstractContextManager[Any]:
        """A feed that is opened at a position, for the block."""
        return contextlib.closing(self.feed.open_at(position))


def take_until(opened: Any, enough: Callable[[list[FeedBatch]], object]) -> list[FeedBatch]:
    """The parcels that come until it is enough of them."""
    feed_batches: list[FeedBatch] = []

    def is_enough() -> object:
        feed_batch = opened.take()
        if feed_batch is not None:
            feed_batches.append(feed_batch)
        return feed_batch is None and enough(feed_batches)

    wait_until(is_enough)
    return feed_batches


def take(opened: Any, reports: int) -> list[FeedBatch]:
    """Parcels, until so many reports have come."""
    feed_batches: list[FeedBatch] = []

    def enough() -> bool:
        feed_batch = opened.take()
        if feed_batch is not None:
            feed_batches.append(feed_batch)
        return len(users(*feed_batches)) >= reports

    wait_until(enough)
    return feed_batches


def users(*feed_batches: FeedBatch) -> list[str]:
    """Whose reports some feed_batches hold."""
    columns = [batch.column("user_id") for feed_batch in feed_batches for batch in feed_batch.batches]
    return [user.decode() for column in columns for user in column.to_pylist()]


def commit(opened: Any) -> Any:
    """Commit what was taken, and wait until the server has confirmed it; the position of the commit."""
    position = opened.position()
    opened.commit()
    wait_until(lambda: not opened._committed)
    return position

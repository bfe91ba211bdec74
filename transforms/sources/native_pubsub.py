"""Beam's own Pub/Sub transform, which Dataflow replaces by a source of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage, ReadFromPubSub
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import Disclosure
from ldpbeam.transforms.reports.emitted import parted
from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.sources.message_batches import batch_of
from ldpbeam.transforms.sources.pubsub import BATCH_BYTES, BATCH_MESSAGES, CONTENT_TYPE, PubSubFeed
from ldpbeam.transforms.sources.reader import TakenBatch
from ldpbeam.transforms.sources.source import Unpack


@dataclass(eq=False)
class ReadNative(beam.PTransform):
    """Read a subscription with the engine's own source.

    The engine's watermark is not known here, so no batch carries one. A report counts as late only while
    the state of its window says that the window is closed.

    Outputs: decoded batches (main), dead letters (``DEAD``) of what does not decode, and counts, as
    :class:`ReadStream` has them.
    """

    feed: Feed
    disclosure: Disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Pull messages, decode those of a bundle together, then part batches, dead letters and counts."""
        assert isinstance(self.feed, PubSubFeed)
        return (
            pipeline
            | "Pull" >> ReadFromPubSub(subscription=self.feed.subscription, with_attributes=True)
            | "Decode" >> beam.ParDo(_Decode(self.feed.name, self.feed.columns))
            | "Unpack" >> parted(Unpack(self.disclosure), "decoded")
        )


@dataclass(eq=False)
class _Decode(beam.DoFn):
    """Decode the messages of a bundle together; one by one, messages of one report take 100 times as long."""

    feed: str
    columns: Columns

    def start_bundle(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._messages: list[Message] = []
        self._bytes = 0
        self._earliest: Timestamp | None = None

    def process(self, message: PubsubMessage, time: Timestamp = beam.DoFn.TimestampParam) -> Iterable[Any]:
        content_type = (message.attributes or {}).get(CONTENT_TYPE, "")
        self._messages.append(Message(message.message_id or "", message.data, content_type))
        self._bytes += len(message.data)
        self._earliest = time if self._earliest is None else min(self._earliest, time)
        if len(self._messages) >= BATCH_MESSAGES or self._bytes >= BATCH_BYTES:
            taken, at = self._taken()
            yield TimestampedValue(taken, at)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._messages:
            taken, at = self._taken()
            yield WindowedValue(taken, at, [GlobalWindow()])

    def _taken(self) -> tuple[TakenBatch, Timestamp]:
        """(the gathered messages, decoded, and their earliest timestamp); it also starts the next batch."""
        assert self._earliest is not None
        taken = TakenBatch(batch_of(self.feed, self.columns, self._messages), None), self._earliest
        self._clear()
        return taken

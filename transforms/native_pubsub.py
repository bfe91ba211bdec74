"""Beam's own Pub/Sub transform: native on Dataflow, a slow stand-in on the local engine without Prism."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage, ReadFromPubSub
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.schemas.messages import Message
from ldpbeam.transforms.counts import COUNTS
from ldpbeam.transforms.dead_letters import DEAD
from ldpbeam.transforms.feeds import Feed
from ldpbeam.transforms.pubsub import CONTENT_TYPE, PubSubFeed, parcel_of
from ldpbeam.transforms.source import Taken, Unpack


class ReadNative(beam.PTransform):
    """Decoded batches of a subscription's messages, as the engine pulls them; outputs as ``ReadStream``.

    The engine's watermark is not known here, so no batch carries one: a report counts as late only where its
    window is remembered as closed.
    """

    def __init__(self, feed: Feed, keep_bad_records: bool) -> None:
        super().__init__()
        assert isinstance(feed, PubSubFeed)
        self.feed = feed
        self.keep = keep_bad_records

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Wire the stages."""
        return (
            pipeline
            | "Pull" >> ReadFromPubSub(subscription=self.feed.subscription, with_attributes=True)
            | "Decode" >> beam.ParDo(_Decode(self.feed))
            | "Unpack" >> beam.ParDo(Unpack(self.keep)).with_outputs(DEAD, COUNTS, main="decoded")
        )


class _Decode(beam.DoFn):
    """Messages of a bundle, decoded together."""

    def __init__(self, feed: PubSubFeed) -> None:
        self.feed = feed

    def process(self, message: PubsubMessage, time: Timestamp = beam.DoFn.TimestampParam) -> Iterable[Any]:
        content_type = (message.attributes or {}).get(CONTENT_TYPE, "")
        one = Message(message.message_id or "", message.data, content_type)
        yield TimestampedValue(Taken(parcel_of(self.feed, [one], [], 0), None), time)

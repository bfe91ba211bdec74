"""A topic of Kafka, as a source of streams and as the place to which estimates are published."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ldpbeam.inputs.kafka import KafkaRequest, reach, reach_destination, topic_at
from ldpbeam.inputs.kafka_brokers import EARLIEST
from ldpbeam.inputs.times import offset_of
from ldpbeam.pipelines.sources.kafka import check_topic, topic_in
from ldpbeam.pipelines.sources.on_engines.opening import Opened, Opening, Run
from ldpbeam.printing import warn
from ldpbeam.runners.request import EngineRequest
from ldpbeam.transforms.outputs.kafka import PublishToKafka
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.state.journal import checksums_before, positions_before
from ldpbeam.windows import FAR


def opening(options: argparse.Namespace, engine: EngineRequest) -> Opening:
    """What opens the topic that the options name.

    Raises:
        UserError: if the topic or the place where to begin is malformed or missing.
    """
    begin = offset_of("--from-offset", options.from_offset, EARLIEST)
    return partial(
        open_topic, KafkaRequest(topic_in(options, _config(options, engine)), begin, options.group)
    )


def publishing(options: argparse.Namespace, engine: EngineRequest) -> PublishToKafka:
    """What publishes estimates to the topic that the options name.

    Raises:
        UserError: if it is malformed, or cannot be reached.
    """
    topic = topic_at("--publish-to", options.publish_to, _config(options, engine))
    reach_destination(topic)
    return PublishToKafka(topic)


def _config(options: argparse.Namespace, engine: EngineRequest) -> str | None:
    return None if options.kafka_config is None else engine.reachable(options.kafka_config)


@contextmanager
def open_topic(asked: KafkaRequest, run: Run) -> Iterator[Opened]:
    """The feed of a topic, which begins where it must so that nothing is lost.

    Raises:
        UserError: if the brokers cannot be reached, or runs have read messages that the topic does not have.
    """
    goes_on, suspects = run.continues, run.suspects
    positions = positions_before(run.output) if goes_on is None else goes_on.positions
    reached = reach(asked, positions, checksums_before(run.output))
    check_topic(run.output, asked.topic, reached.identity)
    taken = positions if goes_on is None else goes_on.replay.taken
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
    if reached.others is not None:
        warn(
            f"--group {reached.others}: somebody else has committed offsets of this topic for it; only one "
            "can show how far this stream has come"
        )
    starts = tuple(sorted(reached.starts.items()))
    cuts = () if goes_on is None else tuple(sorted(goes_on.without(new).replay.cuts.items()))
    place = run.columns, run.folder
    feed = KafkaFeed(asked.topic, reached.identity, *place, starts, cuts, suspects, asked.group)
    yield Opened(feed, starts, gone, new)

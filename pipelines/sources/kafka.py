"""A topic of Kafka, as a source of streams and as the place to which estimates are published."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from ldpbeam.errors import UserError
from ldpbeam.folders.output import RUN, RUNS
from ldpbeam.inputs.kafka import KafkaRequest, reach, reach_destination, span_of, topic_at, topic_of
from ldpbeam.inputs.kafka_brokers import EARLIEST, LATEST
from ldpbeam.inputs.times import offset_of
from ldpbeam.pipelines.sources.opening import Opened, Opening, Run
from ldpbeam.pipelines.spool.place import runs_in
from ldpbeam.printing import warn
from ldpbeam.transforms.outputs.publish import ToKafka
from ldpbeam.transforms.sources.batch_input import BatchInput
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.kafka_position import merged, position_of, read_by
from ldpbeam.transforms.sources.on_record import forget
from ldpbeam.transforms.storage import join, read_json
from ldpbeam.windows import FAR


def opening(options: argparse.Namespace) -> Opening:
    """What opens the topic that the options name.

    Raises:
        UserError: if the topic or the place where to begin is malformed or missing.
    """
    begin = offset_of("--from-offset", options.from_offset, EARLIEST)
    return partial(open_topic, KafkaRequest(topic_in(options, options.kafka_config), begin, options.group))


def publishing(options: argparse.Namespace) -> ToKafka:
    """What publishes estimates to the topic that the options name.

    Raises:
        UserError: if it is malformed, or cannot be reached.
    """
    topic = topic_at("--publish-to", options.publish_to, options.kafka_config)
    reach_destination(topic)
    return ToKafka(topic)


def spanned(options: argparse.Namespace, reachable: Callable[[str], str]) -> BatchInput:
    """The span of the topic that the options name, as the brokers have it now.

    Args:
        options: the options.
        reachable: the path of a file, as those who read reach it.

    Raises:
        UserError: if the span is malformed, or the topic cannot be reached.
    """
    config = None if options.kafka_config is None else reachable(options.kafka_config)
    topic, begin = topic_in(options, config), offset_of("--from-offset", options.from_offset, EARLIEST)
    return span_of(topic, begin, offset_of("--to-offset", options.to_offset, LATEST))


def topic_in(options: argparse.Namespace, config: str | None) -> KafkaTopic:
    """The topic that ``--kafka`` and ``--topic`` name.

    Args:
        options: the options.
        config: the path of the file of settings, as those who read reach it.

    Raises:
        UserError: if it is malformed or missing.
    """
    if options.topic is None:
        raise UserError("--kafka goes with --topic T")
    return topic_of(options.kafka, options.topic, config)


@contextmanager
def open_topic(asked: KafkaRequest, run: Run) -> Iterator[Opened]:
    """The feed of a topic, which begins where it must so that nothing is lost.

    Raises:
        UserError: if the brokers cannot be reached, or runs have read messages that the topic does not have.
    """
    offsets, checksums = read_by(merged(run.earlier) if run.position is None else run.position)
    reached = reach(asked, offsets, checksums)
    check_topic(run.output, asked.topic, reached.identity)
    ends = {each: min(offset, reached.ends.get(each, 0)) for each, offset in offsets.items()}
    new = {each: end for each, end in ends.items() if end < offsets[each]} | dict(reached.new)
    # Where a log has lost its end, no offset is known to have the message that was there.
    gone = {**reached.removed, **{each: (offset, FAR) for each, offset in new.items()}}
    for partition, (needed, first) in sorted(gone.items()):
        if partition in new:
            lost = f"{offsets[partition] - needed:,} messages that were read, from offset {needed:,} on"
            what = f"the broker has lost {lost}, and perhaps others"
        else:
            what = f"retention has removed the messages from offset {needed:,} to {first - 1:,}"
        warn(
            f"{asked.topic.name}, partition {partition}: {what}, which this run needs; what was in "
            "them is lost, and windows that may lack it are marked incomplete"
        )
    if reached.others is not None:
        warn(
            f"--group {reached.others}: another consumer has committed offsets of this topic for it; only "
            "one can show how far this stream has come"
        )
    if new:
        # The offsets on record have other messages now.
        forget(run.folder)
    known = {
        each: [checksum for checksum in of_each if checksum.offset < new.get(each, FAR)]
        for each, of_each in checksums.items()
    }
    feed = KafkaFeed(asked.topic, reached.identity, run.columns, run.folder, group=asked.group)
    yield Opened(feed, position_of(reached.starts, known), gone)


def check_topic(output: str, topic: KafkaTopic, identity: str) -> None:
    """Check that runs into a folder have read no other topic of Kafka, on whatever engine.

    Args:
        output: the folder.
        topic: the topic.
        identity: what tells it from others of its name.

    Raises:
        UserError: if one has.
        ValueError: if a file is damaged.
    """
    for run in runs_in(output):
        about = read_json(join(output, RUNS, run, RUN))
        if about.get("topic", topic.name) != topic.name:
            raise UserError(
                f"--topic {topic.name}: run {about['run']} into {output} reads {about['reads']}, and "
                "offsets of one topic say nothing about another; name another folder"
            )
        if about.get("topic_identity", identity) != identity:
            raise UserError(
                f"--topic {topic.name}: run {about['run']} into {output} has read another topic of this "
                f"name; it was recreated since, or {topic.brokers} is another cluster. Offsets of one "
                "topic say nothing about another; name another folder"
            )

"""A topic of Kafka as a stream's feed, with the offsets at which a run begins."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka_brokers import EARLIEST, LATEST, READ, WRITE, Brokers
from ldpbeam.transforms.offsets import Checksum, Offsets
from ldpbeam.transforms.sources.batch_input import BatchInput
from ldpbeam.transforms.sources.kafka_client import KafkaTopic, settings_in
from ldpbeam.transforms.sources.kafka_span import span_of_topic

#: What a destination of Kafka begins with; other destinations are topics of Pub/Sub.
SCHEME = "kafka://"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKERS = re.compile(r"[^\s,:/@]+:[0-9]+(,[^\s,:/@]+:[0-9]+)*")


@dataclass(frozen=True)
class KafkaRequest:
    """A topic to read, and where in it a first run begins.

    Attributes:
        topic: the topic.
        begin: :data:`EARLIEST`, :data:`LATEST`, or a time of the brokers in epoch milliseconds.
        group: the group whose committed offsets show how far runs have come; None for none.
    """

    topic: KafkaTopic
    begin: str | int = EARLIEST
    group: str | None = None


@dataclass(frozen=True)
class Reached:
    """What the brokers say about a topic.

    Attributes:
        starts: by partition, the offset at which a run begins.
        removed: by partition, (the wanted offset, the first existing one), if retention has removed the
            wanted one.
        ends: by partition, the offset after the last message.
        others: the group, if somebody else has committed offsets for it; None if nobody has.
        identity: distinguishes the topic from others of its name.
        new: by partition that has lost the end of its log, the offset from which messages are new.
    """

    starts: Mapping[int, int]
    removed: Mapping[int, tuple[int, int]]
    ends: Mapping[int, int]
    others: str | None
    identity: str
    new: Mapping[int, int] = field(default_factory=dict)


def reach(
    asked: KafkaRequest, positions: Mapping[int, int], read: Mapping[int, Sequence[Checksum]] | None = None
) -> Reached:
    """Ask the brokers about a topic.

    Args:
        asked: the topic, and where to begin.
        positions: the offsets up to which earlier runs have read, by partition; if there are none, a run
            begins at ``asked.begin``.
        read: by partition, checksums of messages that earlier runs have read, in the order of offsets.

    Raises:
        UserError: if the brokers do not answer, refuse, have no such topic, or none of these messages.
    """
    brokers = Brokers("--kafka", asked.topic, READ)
    ends = _ends(brokers)
    # A partition that appeared after earlier runs is read from its beginning.
    begin = _places(brokers, ends, EARLIEST if positions else asked.begin)
    new = _new(brokers, ends, read or {})
    begun = {n: min(offset, new.get(n, offset), ends[n][1]) for n, offset in positions.items() if n in ends}
    removed = {n: (offset, ends[n][0]) for n, offset in begun.items() if offset < ends[n][0]}
    begin |= {n: max(offset, ends[n][0]) for n, offset in begun.items()}
    shared = asked.group is not None and not positions and brokers.has_committed(asked.group, ends)
    afters = {n: after for n, (_, after) in ends.items()}
    others = asked.group if shared else None
    return Reached(begin, removed, afters, others, brokers.identity(), new)


def span_of(topic: KafkaTopic, begin: str | int, end: str | int) -> BatchInput:
    """The offsets of a topic from one place to before another.

    Args:
        topic: the topic.
        begin: :data:`EARLIEST`, :data:`LATEST` (the current end), or a time of the brokers in epoch
            milliseconds.
        end: likewise.

    Raises:
        UserError: if the brokers do not answer, refuse, or have no such topic.
    """
    brokers = Brokers("--kafka", topic, READ)
    ends = _ends(brokers)
    firsts, afters = (_places(brokers, ends, where) for where in (begin, end))
    offsets = tuple(
        Offsets(partition, first, afters[partition])
        for partition, first in sorted(firsts.items())
        if first < afters[partition]
    )
    return span_of_topic(topic, offsets)


def reach_destination(topic: KafkaTopic) -> None:
    """Ask the brokers about the topic to which estimates are published.

    Raises:
        UserError: if they do not answer, refuse, or have no such topic.
    """
    Brokers("--publish-to", topic, WRITE).partitions()


def topic_of(brokers: str, name: str, config: str | None) -> KafkaTopic:
    """The topic that ``--kafka`` and ``--topic`` name.

    Raises:
        UserError: if something is malformed, or the file of settings cannot be used. The message leaves out
            text before an @, which may be secret.
    """
    if "@" in brokers:
        raise UserError(
            f"--kafka {_without_users(brokers)}: write it as HOST:PORT, and users and passwords into the "
            "file of --kafka-config"
        )
    if not _BROKERS.fullmatch(brokers):
        raise UserError(f"--kafka {brokers}: write it as HOST:PORT, or HOST:PORT,HOST:PORT")
    if not _TOPIC.fullmatch(name):
        raise UserError(
            f"--topic {name}: a topic of Kafka has 1 to 249 letters, digits and . _ -; topics of Pub/Sub are "
            "read without --kafka"
        )
    return _with_settings(KafkaTopic(brokers, name, config))


def topic_at(option: str, text: str, config: str | None) -> KafkaTopic:
    """The topic that ``kafka://BROKERS/TOPIC`` names.

    Raises:
        UserError: where :func:`topic_of` raises one.
    """
    brokers, _, topic = text.removeprefix(SCHEME).partition("/")
    if "@" in text:
        raise UserError(
            f"{option} {SCHEME}{_without_users(text)}: write it as {SCHEME}HOST:PORT/TOPIC, and users and "
            "passwords into the file of --kafka-config"
        )
    if not text.startswith(SCHEME) or not _BROKERS.fullmatch(brokers) or not _TOPIC.fullmatch(topic):
        raise UserError(f"{option} {text}: write it as {SCHEME}HOST:PORT/TOPIC")
    return _with_settings(KafkaTopic(brokers, topic, config))


def _without_users(text: str) -> str:
    """A text that has an @, without what precedes it."""
    return f"...@{text.rpartition('@')[2]}"


def _with_settings(topic: KafkaTopic) -> KafkaTopic:
    if topic.config is not None:
        try:
            settings_in(topic.config)
        except ValueError as error:
            raise UserError(f"--kafka-config {error}") from None
    return topic


def _new(
    brokers: Brokers, ends: Mapping[int, tuple[int, int]], read: Mapping[int, Sequence[Checksum]]
) -> dict[int, int]:
    """By partition that has lost the end of its log, the least offset that may have a new message.

    Raises:
        UserError: if the topic has no message that was read.
    """
    kept = {
        number: there
        for number in read.keys() & ends.keys()
        if (there := [checksum for checksum in read[number] if checksum.offset >= ends[number][0]])
    }
    if not kept:
        return {}
    same = brokers.has({number: there[-1] for number, there in kept.items()})
    new, found = dict[int, int](), any(same.values())
    for number in (number for number in kept if not same[number]):

        def differs(checksum: Checksum, partition: int = number) -> bool:
            return not brokers.has({partition: checksum})[partition]

        count = bisect.bisect_left(kept[number], True, key=differs)
        new[number] = kept[number][count - 1].offset + 1 if count else ends[number][0]
        found = found or count > 0
    if not found:
        raise UserError(
            f"--topic {brokers.topic.name}: it has none of the messages that were read: the topic was "
            "recreated, or has lost them all; name another folder"
        )
    return new


def _places(brokers: Brokers, ends: Mapping[int, tuple[int, int]], where: str | int) -> dict[int, int]:
    """By partition, the offset of a place; that of the end if there is no message from a time on."""
    if isinstance(where, str):
        return {partition: ends[partition][where == LATEST] for partition in ends}
    offsets = brokers.offsets(ends, where)
    return {partition: offset if offset >= 0 else ends[partition][1] for partition, offset in offsets.items()}


def _ends(brokers: Brokers) -> dict[int, tuple[int, int]]:
    """By partition, the offset of the first existing message, and the one after the last.

    Raises:
        UserError: if the brokers do not answer, refuse, or delete all but the last message of a key.
    """
    partitions, policy = brokers.partitions(), brokers.cleanup_policy()
    if "compact" in policy:
        raise UserError(
            f"--topic {brokers.topic.name}: it keeps only the last message of each key "
            f"(cleanup.policy={policy}), so reports may be missing that cannot be counted; read a topic "
            "with cleanup.policy=delete"
        )
    firsts, afters = (brokers.offsets(partitions, where) for where in (EARLIEST, LATEST))
    return {partition: (firsts[partition], afters[partition]) for partition in partitions}

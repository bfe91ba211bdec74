"""Kafka as a feed: the partitions of a topic, whose messages stay and have offsets.

Partitions are assigned, not subscribed to, so the offsets are in the run's manifest, and no group of
consumers moves them. librdkafka fetches on threads of its own, and stops when 64 MB wait: however long the
feed is not asked, its connections live. Messages stay as librdkafka gave them until they are decoded.

The broker's clock of a message is known only in a topic with ``message.timestamp.type=LogAppendTime``. By
default a client writes the time of a message, so nothing relies on it: such a message counts as published
when it is taken.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.offsets import Checksum, Offsets
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import (
    UNFOUND,
    Feed,
    FeedBatch,
    FeedState,
    OpenFeed,
    Position,
    elapsed,
    now,
)
from ldpbeam.transforms.sources.kafka_client import (
    NO_GROUP,
    READING,
    KafkaTopic,
    cleanup_policy,
    client,
    identity_of,
    is_out_of_range,
    passes,
)
from ldpbeam.transforms.sources.kafka_messages import poll_of
from ldpbeam.transforms.sources.kafka_partition import Partition
from ldpbeam.transforms.sources.kafka_position import position_of, read_by
from ldpbeam.transforms.sources.lag import worst
from ldpbeam.transforms.sources.on_record import (
    AT_FAULT,
    DEFEATED,
    PROBLEM,
    OnRecord,
    at_once,
    ended,
)
from ldpbeam.transforms.sources.poll_batches import batches_of
from ldpbeam.windows import FAR

FEEDS = logging.getLogger("ldpbeam.feeds")
#: A batch takes no more messages when it has this many messages or bytes.
BATCH_MESSAGES, BATCH_BYTES = 10_000, 16 * 2**20
#: The most messages of one call of librdkafka.
TAKEN_AT_ONCE = 20_000
#: Seconds between two looks at the ends of partitions and for new ones, and between two looks at what the
#: topic is.
LOOKING_SECONDS, CHECKING_SECONDS = 0.5, 5.0
#: Seconds to wait for an answer of a broker.
ANSWER_SECONDS = 10.0
#: Seconds without an answer of the brokers after which a warning is logged.
QUIET_SECONDS = 60.0


#: Why a broker calls the stream, which is no member of the group, an unknown one.
_OF_OTHERS = "other consumers are in it, and share the topic; end them, or give --group another name"


@dataclass(frozen=True)
class KafkaFeed(Feed):
    """The messages of a topic.

    Attributes:
        topic: the topic.
        identity: what tells it from other topics of its name.
        columns: the columns of reports that the study needs.
        folder: the run's folder, where messages are on record while they are decoded.
        group: the group whose committed offsets show how far the run has come; None to commit none.
        clock: the time at which a message counts as published that no broker has dated.
    """

    topic: KafkaTopic
    identity: str
    columns: Columns
    folder: str
    group: str | None = None
    clock: Callable[[], int] = now

    @property
    def name(self) -> str:
        """The topic and the brokers."""
        return str(self.topic)

    @property
    def about(self) -> dict[str, str]:
        """The topic, and what tells it from others."""
        return {"topic": self.topic.name, "topic_identity": self.identity}

    def open_at(self, position: Position | None) -> OpenFeed:
        """Begin to fetch; partitions that the position does not name are read from their beginning."""
        return _Consumed(self, *read_by({} if position is None else position), OnRecord(self.folder))


class _Range(NamedTuple):
    """Messages on record.

    Attributes:
        partition: the number of their partition.
        begin: the offset of the first.
        end: the offset of the last.
        crashes: how many processes have ended over them.
    """

    partition: int
    begin: int
    end: int
    crashes: int


class _Consumed(OpenFeed):
    """The partitions of a topic. A thread looks at their ends and for new ones.

    Args:
        feed: the topic.
        starts: by partition, the offset to read next. Others are found, and read from their beginning.
        checksums: by partition, those of messages that were taken, in their order.
        record: has messages on record while they are decoded.
    """

    def __init__(
        self, feed: KafkaFeed, starts: dict[int, int], checksums: dict[int, list[Checksum]], record: OnRecord
    ) -> None:
        # Imported here because a stream of another feed does not need it.
        import confluent_kafka
        from confluent_kafka.admin import AdminClient

        self.feed = feed
        self._record = record
        self._kafka = confluent_kafka
        self._errors = confluent_kafka.KafkaError
        settings = {
            **READING,
            "group.id": feed.group or NO_GROUP,
            "error_cb": self._remember_error,
            "on_commit": self._warn_of_refusal,
            # librdkafka waits this long for the coordinator of the group, even when the process ends.
            "session.timeout.ms": 5_000,
        }
        self._consumer = client(confluent_kafka.Consumer, feed.topic, settings)
        self._admin = client(AdminClient, feed.topic, {"error_cb": self._remember_error})
        self._partitions: dict[int, Partition] = {}
        #: When the last answer was asked for that named all partitions which are read; None before any.
        self._named: int | None = None
        #: Whether brokers were away since messages were last compared.
        self._doubtful = False
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._problem: str | None = None
        self._lost: int | None = None
        self._error = ""
        #: Why offsets were not committed, the last time that a broker refused it.
        self._refusal = ""
        #: When the messages that wait were fetched.
        self._fetched = 0
        #: By partition, the offset of the last :meth:`position`.
        self._said: dict[int, int] = {}
        self._assign(starts, checksums)
        self._looker = threading.Thread(target=self._look_on, daemon=True)
        self._looker.start()

    def _assign(self, starts: dict[int, int], checksums: dict[int, list[Checksum]]) -> None:
        """Begin to read those of some partitions that are not read yet, each from an offset."""
        new = [
            Partition(number, starts[number], checksums.get(number, ()), elapsed())
            for number in sorted(starts.keys() - self._partitions.keys())
        ]
        if new:
            with self._lock:
                self._partitions |= {partition.number: partition for partition in new}
            self._consumer.incremental_assign(list(map(self._at, new)))

    def _at(self, partition: Partition) -> Any:
        return self._kafka.TopicPartition(self.feed.topic.name, partition.number, partition.fetched_from)

    def _seek(self, partitions: Iterable[Partition]) -> None:
        """Let librdkafka fetch partitions from where they are to be fetched."""
        places = list(map(self._at, partitions))
        self._consumer.incremental_unassign(places)
        self._consumer.incremental_assign(places)

    def _remember_error(self, error: Any) -> None:
        self._error = error.str()
        self._doubtful = True

    def take(self) -> FeedBatch | None:
        self._record.clear()
        partition = self._next()
        if partition is None:
            return None
        messages, first = self._on_record(partition), partition.after
        batch, taken = self._defeated(partition) if messages is None else self._decoded(partition, messages)
        with self._lock:
            partition.take(taken)
        return batch._replace(offsets=Offsets(partition.number, first, partition.after))

    def _next(self) -> Partition | None:
        """The partition of which messages are taken next; None if none wait.

        Raises:
            OSError: if the feed has failed for good.
        """
        if self._longest() is None:
            self._fetch()
        for problem in (self._problem, *(each.problem for each in list(self._partitions.values()))):
            if problem is not None:
                raise OSError(f"{self.feed.name}: {problem}")
        return self._longest()

    def _on_record(self, partition: Partition) -> list[Any] | None:
        """Have the messages on record that are decoded next; None if the first that waits is at fault.

        What stands for messages on record is :class:`_Range`.
        """
        number, first = partition.number, partition.waiting[0].offset()
        # What is not read again is suspected no more; of what is at fault, the run may not have committed it.
        suspects = [
            one
            for one in itertools.starmap(_Range, self._record.suspects)
            if one.partition != number or one.end >= first or one.crashes >= AT_FAULT
        ]
        coming = [one for one in suspects if one.partition == number and one.end >= first]
        here = [one for one in coming if one.begin <= first]
        until = min((one.begin for one in coming), default=FAR) - 1
        suspected = here[0] if here else _Range(number, first, until, 0)
        crashes = suspected.crashes
        if crashes >= AT_FAULT:
            return None
        waiting = partition.next_messages(at_once(crashes, BATCH_MESSAGES), BATCH_BYTES)
        messages = [message for message in waiting if message.offset() <= suspected.end]
        taken = _Range(number, first, messages[-1].offset(), ended(crashes, len(messages)))
        rest = [suspected._replace(begin=taken.end + 1)] if here and taken.end < suspected.end else []
        self._record.write([taken], [*(one for one in suspects if one not in here), *rest])
        return messages

    def _decoded(self, partition: Partition, messages: Sequence[Any]) -> tuple[FeedBatch, Sequence[Any]]:
        """A batch of bounded size, and those of some messages that it has: the first ones."""
        name = f"{self.feed.topic.name}/{partition.number}"
        batch, count = next(batches_of(name, self.feed.columns, poll_of(name, messages)))
        times = self._published(messages)
        return batch._replace(oldest=min(times), published=max(times[:count])), messages[:count]

    def _published(self, messages: Sequence[Any]) -> list[int]:
        """When each of some messages was published, as far as anybody but a client says so."""
        of_broker = self._kafka.TIMESTAMP_LOG_APPEND_TIME
        stamps = [message.timestamp() for message in messages]
        return [stamp if kind == of_broker else self._fetched for kind, stamp in stamps]

    def _defeated(self, partition: Partition) -> tuple[FeedBatch, Sequence[Any]]:
        """The first message that waits, as a dead letter."""
        message, name = partition.waiting[0], f"{self.feed.topic.name}/{partition.number}"
        data = message.value() or b""
        letter = DeadLetter(name, message.offset(), None, DEFEATED, PROBLEM, 1, data)
        (published,) = self._published([message])
        return FeedBatch([], [letter], published, oldest=published), [message]

    def _longest(self) -> Partition | None:
        """The partition with the most waiting messages; None if no messages wait."""
        with self._lock:
            waiting = [partition for partition in self._partitions.values() if partition.waiting]
            return max(waiting, key=lambda partition: len(partition.waiting), default=None)

    def _fetch(self) -> None:
        """Let the messages wait that librdkafka has fetched."""
        # Without a clock of the server, a message counts as published when it came.
        self._fetched = self.feed.clock()
        messages = self._consumer.consume(TAKEN_AT_ONCE, 0)
        if self._doubtful:
            self._doubtful = False
            with self._lock:
                for partition in self._partitions.values():
                    partition.fetch_again()
                self._seek(self._partitions.values())
            return
        with self._lock:
            self._deliver(messages)

    def _deliver(self, messages: Sequence[Any]) -> None:
        """Let messages wait at their partitions, and look at what librdkafka says between them."""
        for message in messages:
            number, error = message.partition(), message.error()
            if error is None:
                self._partitions[number].deliver(message)
            elif error.code() == self._errors._PARTITION_EOF:
                self._partitions[number].end(message.offset())
            elif message.topic() is None:
                # An error of the group, to which the user may have no right. Nothing is read from the group.
                self._error = error.str()
            elif is_out_of_range(error):
                self._partitions[number].out_of_range = True
            elif not passes(error):
                self._problem = f"partition {number}: {error.str()}"
            else:
                self._remember_error(error)

    def _look_on(self) -> None:
        """Ask again and again where partitions end and whether there are new ones."""
        checked = answered = time.monotonic()
        while not self._closing.wait(LOOKING_SECONDS):
            checks = time.monotonic() - checked >= CHECKING_SECONDS
            why = self._look_at_all(checks)
            checked = time.monotonic() if checks else checked
            if why is None:
                answered = time.monotonic()
            elif time.monotonic() - answered >= QUIET_SECONDS and not self._closing.is_set():
                FEEDS.warning("%s: no answer for a minute: %s", self.feed.name, why)
                answered = time.monotonic()

    def _look_at_all(self, checks: bool) -> str | None:
        """Ask where each partition ends and whether there are new ones; why one gave no answer.

        Args:
            checks: whether to ask, too, if it is still the same topic, and keeps its messages.
        """
        asks: list[Callable[[], None]] = [
            functools.partial(self._look, partition) for partition in list(self._partitions.values())
        ]
        why = None
        for ask in [*asks, self._find, *([self._check] if checks else [])]:
            try:
                if not self._closing.is_set():
                    ask()
            except self._kafka.KafkaException as error:
                # The other partitions may have a leader. Brokers that come back have kept their messages.
                why = self._error or error.args[0].str()
        return why

    def _look(self, partition: Partition) -> None:
        begun = elapsed()
        first, end = self._consumer.get_watermark_offsets(self._at(partition), timeout=ANSWER_SECONDS)
        with self._lock:
            partition.ends.look(begun, end)
        if not partition.out_of_range or partition.waiting:
            return
        position = partition.position
        with self._lock:
            partition.go_on(first, end)
            lost = position < first and partition.problem is None
            if lost:
                self._lost = self.feed.clock()
        if partition.problem is not None:
            return
        if lost:
            FEEDS.warning(
                "%s, partition %d: retention has removed the messages from offset %d to %d before they were "
                "read; what was in them is lost, and windows that may lack it are marked incomplete",
                *(self.feed.name, partition.number, position, first - 1),
            )
        self._seek([partition])

    def _find(self) -> None:
        """Begin to read partitions that are new, from their beginning."""
        name, begun = self.feed.topic.name, elapsed()
        listed = self._consumer.list_topics(name, timeout=ANSWER_SECONDS).topics[name]
        if listed.error is not None:
            self._problem = self._problem if passes(listed.error) else listed.error.str()
            return
        if listed.partitions.keys() - self._partitions.keys():
            # They may be those of another topic.
            self._check()
        if self._problem is None:
            self._assign(dict.fromkeys(listed.partitions, 0), {})
            self._named = begun

    def _check(self) -> None:
        """See whether it is still the same topic, and keeps its messages."""
        name = self.feed.topic.name
        if identity_of(self._admin, name, ANSWER_SECONDS) != self.feed.identity:
            self._problem = (
                "another topic has this name now, as the first was deleted; "
                "read the new one into another folder"
            )
        elif "compact" in (policy := cleanup_policy(self._admin, name, ANSWER_SECONDS)):
            self._problem = (
                f"it keeps only the last message of each key now (cleanup.policy={policy}), so reports may "
                "be missing that cannot be counted; give it cleanup.policy=delete"
            )

    @property
    def state(self) -> FeedState:
        # A partition counts even if it is not empty: else a client that fills one as fast as it is read would
        # hold up all others.
        with self._lock:
            each = self._partitions.items()
            # Read before the partitions are, so that none is missing which was found by then.
            silences: dict[int, int | None] = {UNFOUND: self._named}
            silences |= {number: one.ends.passed(one.position) for number, one in each}
            lag = worst([one.ends.lag(one.position, elapsed()) for _, one in each])
            return FeedState(silences, self._lost, lag)

    def position(self) -> Position:
        with self._lock:
            partitions = sorted(self._partitions.items())
            self._said = {number: one.after for number, one in partitions}
            offsets = {number: one.position for number, one in partitions}
            return position_of(offsets, {number: one.checksums for number, one in partitions})

    def commit(self) -> None:
        if self.feed.group is None:
            return
        offsets = [self._kafka.TopicPartition(self.feed.topic.name, *each) for each in self._said.items()]
        # Nothing is read from these offsets, so the run does not wait for a broker that takes them.
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except self._kafka.KafkaException as error:
            self._warn_of_refusal(error.args[0], offsets)

    def _warn_of_refusal(self, error: Any, offsets: Sequence[Any]) -> None:
        """Warn once that offsets were not committed, and again if it is for another reason."""
        refusal = next((each for each in (error, *(at.error for at in offsets)) if each is not None), None)
        if refusal is not None and refusal.str() != self._refusal:
            self._refusal = refusal.str()
            of_others = refusal.code() == self._errors.UNKNOWN_MEMBER_ID
            FEEDS.warning(
                "%s: offsets are not committed for group %s: %s",
                self.feed.name,
                self.feed.group,
                _OF_OTHERS if of_others else self._refusal,
            )

    def close(self) -> None:
        self._closing.set()
        self._looker.join(ANSWER_SECONDS)
        # Offsets may still be committed, so the client itself stays.
        self._consumer.unassign()
        for partition in self._partitions.values():
            partition.waiting.clear()
        self._record.clear()

"""Kafka as a feed: the partitions of a topic, whose messages stay and have offsets.

Partitions are assigned to readers and not subscribed to, so that offsets are in the marks of the engine, and
no group of consumers moves them. librdkafka fetches on threads of its own, and stops when 64 MB wait: however
long a reader is not asked, its connections live.

The broker's clock of a message is known only in a topic with ``message.timestamp.type=LogAppendTime``. By
default a client writes the time of a message, so nothing relies on it: such a message counts as published
when it is taken.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.feeds import WHOLE, Feed, FeedBatch, FeedState, OpenFeed, Share, elapsed
from ldpbeam.transforms.sources.kafka_checksums import checksum_of
from ldpbeam.transforms.sources.kafka_client import (
    NO_GROUP,
    KafkaTopic,
    cleanup_policy,
    client,
    identity_of,
    passes,
)
from ldpbeam.transforms.sources.kafka_partition import Partition
from ldpbeam.transforms.sources.lag import worst
from ldpbeam.transforms.sources.message_batches import Received, next_batch
from ldpbeam.transforms.state.decoding import Record
from ldpbeam.transforms.state.journal import thinned
from ldpbeam.transforms.state.records import Offsets

FEEDS = logging.getLogger("ldpbeam.feeds")
#: The header of a message that names the format of its value.
CONTENT_TYPE = "content-type"
#: A batch takes no more messages when it has this many messages or bytes.
BATCH_MESSAGES, BATCH_BYTES = 10_000, 16 * 2**20
#: The most messages of one call of librdkafka.
TAKEN_AT_ONCE = 20_000
#: Seconds between two looks at the ends of partitions, and between two looks for new partitions.
LOOKING_SECONDS, FINDING_SECONDS = 0.5, 5.0
#: Seconds to wait for an answer of a broker.
ANSWER_SECONDS = 10.0
#: Seconds without an answer of the brokers after which a warning is logged.
QUIET_SECONDS = 60.0


#: Why a broker calls the stream, which is no member of the group, an unknown one.
_OF_OTHERS = "other consumers are in it, and share the topic; end them, or give --group a name of its own"


@dataclass(frozen=True)
class KafkaFeed(Feed):
    """The messages of a topic from some offsets on.

    Attributes:
        topic: the topic.
        identity: what tells it from other topics of its name.
        columns: the columns of reports that the study needs.
        folder: the run's folder, where messages are on record while they are decoded.
        starts: (partition, the offset of the first message that is read). Other partitions, which are new,
            are read from their beginning.
        cuts: (partition, the offsets in ascending order at which one batch ends and another begins).
        suspects: ids of messages that earlier runs left on record, and with how many each was.
        group: the group whose committed offsets show how far the run has come; None to commit none.
    """

    topic: KafkaTopic
    identity: str
    columns: Columns
    folder: str
    starts: tuple[tuple[int, int], ...]
    cuts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    suspects: tuple[tuple[str, int], ...] = ()
    group: str | None = None

    @property
    def name(self) -> str:
        """The topic and the brokers."""
        return str(self.topic)

    @property
    def about(self) -> dict[str, str]:
        """The topic, and what tells it from others."""
        return {"topic": self.topic.name, "topic_identity": self.identity}

    @property
    def partitions(self) -> int:
        """How many partitions the topic has when the run begins."""
        return len(self.starts)

    def open(self, share: Share = WHOLE) -> OpenFeed:
        """Begin to fetch the partitions of a share."""
        return _Consumed(self, share)


class _Consumed(OpenFeed):
    """The partitions of one reader. A thread looks at their ends and for new ones."""

    def __init__(self, feed: KafkaFeed, share: Share) -> None:
        # Imported here because a stream of another feed does not need it.
        import confluent_kafka
        from confluent_kafka.admin import AdminClient

        self.feed = feed
        self.share = share
        self._record = Record(feed.folder, dict(feed.suspects))
        self._kafka = confluent_kafka
        self._errors = confluent_kafka.KafkaError
        settings = {
            "group.id": feed.group or NO_GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._remember_error,
            "on_commit": self._warn_of_refusal,
            # librdkafka waits this long for the coordinator of the group, even when the process ends.
            "session.timeout.ms": 5_000,
        }
        self._consumer = client(confluent_kafka.Consumer, feed.topic, settings)
        self._admin = client(AdminClient, feed.topic, {"error_cb": self._remember_error})
        self._partitions: dict[int, Partition] = {}
        #: Whether brokers were away since messages were last compared.
        self._doubtful = False
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._problem: str | None = None
        self._lost: int | None = None
        self._error = ""
        #: Why offsets were not committed, the last time that a broker refused it.
        self._refusal = ""
        # Partitions that come later have a thread to find them. Those that an earlier reader found are known.
        self._assign({partition for partition, _ in feed.starts} | share.positions.keys())
        self._looker = threading.Thread(target=self._look_on, daemon=True)
        self._looker.start()

    def _assign(self, partitions: set[int]) -> None:
        """Begin to read those of some partitions that are this reader's and not read yet."""
        starts, cuts = {**dict(self.feed.starts), **self.share.positions}, dict(self.feed.cuts)
        ours = {each for each in partitions if each % self.share.readers == self.share.number}
        new = []
        for number in sorted(ours - self._partitions.keys()):
            start, last = starts.get(number, 0), self.share.read.get(number)
            self._clear_before(number, start)
            new.append(Partition(number, start, last, cuts.get(number, ()), elapsed()))
        if new:
            with self._lock:
                self._partitions |= {partition.number: partition for partition in new}
            self._consumer.incremental_assign(list(map(self._at, new)))

    def _clear_before(self, partition: int, start: int) -> None:
        """Stop suspecting the messages of a partition before an offset: they are not read again."""
        named = f"{self.feed.topic.name}/{partition}/"
        ours = [message for message in self._record.suspects if message.startswith(named)]
        self._record.clear(message for message in ours if int(message.removeprefix(named)) < start)

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

    def passed(self) -> None:
        self._record.passed()

    def take(self) -> FeedBatch | None:
        if self._longest() is None:
            self._fetch()
        for problem in (self._problem, *(each.problem for each in list(self._partitions.values()))):
            if problem is not None:
                raise OSError(f"{self.feed.name}: {problem}")
        partition = self._longest()
        if partition is None:
            return None
        received, first = partition.next_messages(BATCH_MESSAGES, BATCH_BYTES), partition.after
        name = f"{self.feed.topic.name}/{partition.number}"
        batch, _ = next_batch(name, self.feed.columns, received, self._record)
        taken = received[: len(batch.receipts)]
        with self._lock:
            partition.take(taken)
        return batch._replace(
            receipts=[f"{partition.number}:{partition.after}"],
            offsets=Offsets(partition.number, first, partition.after),
            checksums=thinned([each.checksum for each in taken if each.checksum is not None]),
        )

    def _longest(self) -> Partition | None:
        """The partition with the most waiting messages; None if no messages wait."""
        with self._lock:
            waiting = [partition for partition in self._partitions.values() if partition.waiting]
            return max(waiting, key=lambda partition: len(partition.waiting), default=None)

    def _fetch(self) -> None:
        """Let the messages wait that librdkafka has fetched."""
        # Without a clock of the server, a message counts as published when it came.
        now = time.time_ns() // 1_000_000
        messages = self._consumer.consume(TAKEN_AT_ONCE, 0)
        if self._doubtful:
            self._doubtful = False
            with self._lock:
                for partition in self._partitions.values():
                    partition.fetch_again()
                self._seek(self._partitions.values())
            return
        with self._lock:
            self._deliver(messages, now)

    def _deliver(self, messages: Sequence[Any], now: int) -> None:
        """Let messages wait at their partitions, and look at what librdkafka says between them."""
        for message in messages:
            number, error = message.partition(), message.error()
            if error is None:
                self._partitions[number].deliver(self._received(message, now))
            elif error.code() == self._errors._PARTITION_EOF:
                self._partitions[number].end(message.offset())
            elif message.topic() is None:
                # An error of the group, to which the user may have no right. Nothing is read from the group.
                self._error = error.str()
            elif error.code() in (self._errors._AUTO_OFFSET_RESET, self._errors.OFFSET_OUT_OF_RANGE):
                self._partitions[number].out_of_range = True
            elif not passes(error):
                self._problem = f"partition {number}: {error.str()}"
            else:
                self._remember_error(error)

    def _received(self, message: Any, now: int) -> Received:
        """Convert a message that librdkafka delivered."""
        kind, published = message.timestamp()
        published = published if kind == self._kafka.TIMESTAMP_LOG_APPEND_TIME else now
        return Received(str(message.offset()), message_of(message), published, checksum=checksum_of(message))

    def _look_on(self) -> None:
        """Ask again and again where partitions end, and sometimes whether there are new ones."""
        searched = answered = time.monotonic()
        while not self._closing.wait(LOOKING_SECONDS):
            finds = time.monotonic() - searched >= FINDING_SECONDS
            why = self._look_at_all(finds)
            searched = time.monotonic() if finds else searched
            if why is None:
                answered = time.monotonic()
            elif time.monotonic() - answered >= QUIET_SECONDS and not self._closing.is_set():
                FEEDS.warning("%s: no answer for a minute: %s", self.feed.name, why)
                answered = time.monotonic()

    def _look_at_all(self, finds: bool) -> str | None:
        """Ask where each partition ends, and perhaps whether there are new ones; why one gave no answer."""
        asks: list[Callable[[], None]] = [
            functools.partial(self._look, partition) for partition in list(self._partitions.values())
        ]
        why = None
        for ask in [*asks, self._find] if finds else asks:
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
        if partition.problem is not None:
            return
        if position < first:
            FEEDS.warning(
                "%s, partition %d: retention has removed the messages from offset %d to %d before they were "
                "read; what was in them is lost, and windows that may lack it are marked incomplete",
                *(self.feed.name, partition.number, position, first - 1),
            )
            with self._lock:
                self._lost = time.time_ns() // 1_000_000
        self._seek([partition])

    def _find(self) -> None:
        name = self.feed.topic.name
        listed = self._consumer.list_topics(name, timeout=ANSWER_SECONDS).topics[name]
        if listed.error is not None:
            self._problem = self._problem if passes(listed.error) else listed.error.str()
        elif identity_of(self._admin, name, ANSWER_SECONDS) != self.feed.identity:
            self._problem = (
                "another topic has this name now, as the first was deleted; "
                "read the new one into another folder"
            )
        elif "compact" in (policy := cleanup_policy(self._admin, name, ANSWER_SECONDS)):
            self._problem = (
                f"it keeps only the last message of each key now (cleanup.policy={policy}), so that reports "
                "may be missing which nobody can count; give it cleanup.policy=delete"
            )
        else:
            self._assign(set(listed.partitions))

    @property
    def state(self) -> FeedState:
        # A partition counts even if it is not empty: else a client that fills one as fast as it is read would
        # hold up all others.
        with self._lock:
            each = self._partitions.items()
            silences = {number: one.ends.passed(one.position) for number, one in each}
            positions = {number: one.position for number, one in each}
            lag = worst([one.ends.lag(one.position, elapsed()) for _, one in each])
            return FeedState(silences, positions, self._lost, lag)

    def acknowledge(self, receipts: Sequence[str]) -> None:
        if self.feed.group is None:
            return
        after: dict[int, int] = {}
        for partition, offset in (map(int, receipt.split(":")) for receipt in receipts):
            after[partition] = max(offset, after.get(partition, 0))
        offsets = [self._kafka.TopicPartition(self.feed.topic.name, *each) for each in after.items()]
        # Nothing is read from these offsets, so the stream does not wait for a broker that takes them.
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


def message_of(delivered: Any) -> Message:
    """A message that librdkafka delivered, with ``TOPIC/PARTITION/OFFSET`` as its id."""
    try:
        headers = delivered.headers() or ()
    except SystemError:  # confluent-kafka cannot give a header whose name is not UTF-8
        headers = ()
    content_type = ""
    for header, value in headers:
        if header.lower() == CONTENT_TYPE:
            content_type = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
            break
    number = f"{delivered.topic()}/{delivered.partition()}/{delivered.offset()}"
    return Message(number, delivered.value() or b"", content_type)

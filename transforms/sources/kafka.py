"""Kafka as a feed: the partitions of a topic, whose messages stay and have offsets.

Partitions are assigned to readers and not subscribed to, so that offsets are in the marks of the engine, and
no group of consumers moves them. librdkafka fetches on threads of its own, and stops when 64 MB wait: however
long a reader is not asked, its connections live.

The broker's clock of a message is known only in a topic with ``message.timestamp.type=LogAppendTime``. By
default a client writes the time of a message, so nothing relies on it: such a message counts as published
when it is taken.
"""

from __future__ import annotations

import bisect
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.decoding import Record
from ldpbeam.transforms.sources.feeds import (
    WHOLE,
    Feed,
    FeedBatch,
    FeedState,
    Offsets,
    OpenFeed,
    Share,
    elapsed,
)
from ldpbeam.transforms.sources.kafka_checksums import Checksum, checksum_of, thinned
from ldpbeam.transforms.sources.kafka_client import (
    NO_GROUP,
    KafkaTopic,
    cleanup_policy,
    client,
    identity_of,
    passes,
)
from ldpbeam.transforms.sources.lag import Ends, worst
from ldpbeam.transforms.sources.message_batches import Received, next_batch
from ldpbeam.windows import FAR

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
#: In the file of a run: its topic, and what tells it from other topics of its name.
TOPIC, TOPIC_IDENTITY = "topic", "topic_identity"
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
        return {TOPIC: self.topic.name, TOPIC_IDENTITY: self.identity}

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
        self._waiting: dict[int, deque[Received]] = {}
        self._cuts = dict(feed.cuts)
        #: The offset after the last message that was taken, by partition.
        self._afters: dict[int, int] = {}
        #: The offset to read next, by partition. At the end of a partition it may be greater than in _afters,
        #: because offsets before the end may have no message.
        self._positions: dict[int, int] = {}
        #: The offset at which librdkafka last came to the end, by partition. It says so once for each end.
        self._reached: dict[int, int] = {}
        self._ends: dict[int, Ends] = {}
        #: By partition, the checksum of the last message that was taken.
        self._last = dict(share.read)
        #: By partition, the checksum of the message that must come first: it was taken already.
        self._expected: dict[int, Checksum] = {}
        #: Whether brokers were away since messages were last compared.
        self._doubtful = False
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._problem: str | None = None
        #: The partitions that have no message at the position of their readers.
        self._out_of_range: set[int] = set()
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
        starts = {**dict(self.feed.starts), **self.share.positions}
        new = sorted(
            partition
            for partition in partitions - self._positions.keys()
            if partition % self.share.readers == self.share.number
        )
        if new:
            with self._lock:
                for partition in new:
                    self._positions[partition] = self._afters[partition] = starts.get(partition, 0)
                    self._clear_before(partition, starts.get(partition, 0))
                    self._waiting[partition] = deque()
                    self._ends[partition] = Ends(elapsed())
                    self._expect(partition)
            self._consumer.incremental_assign([self._at(partition) for partition in new])

    def _clear_before(self, partition: int, start: int) -> None:
        """Stop suspecting the messages of a partition before an offset: they are not read again."""
        named = f"{self.feed.topic.name}/{partition}/"
        ours = [message for message in self._record.suspects if message.startswith(named)]
        self._record.clear(message for message in ours if int(message.removeprefix(named)) < start)

    def _expect(self, partition: int) -> None:
        """Read the last message that was taken once more: a broker that was away may have lost it."""
        last = self._last.get(partition)
        if last is not None and last.offset < self._positions[partition]:
            self._expected[partition] = last

    def _at(self, partition: int) -> Any:
        expected = self._expected.get(partition)
        offset = self._positions[partition] if expected is None else expected.offset
        return self._kafka.TopicPartition(self.feed.topic.name, partition, offset)

    def _read_again(self) -> None:
        """Fetch anew what was not taken, and before it the last message that was."""
        with self._lock:
            for partition, waiting in self._waiting.items():
                waiting.clear()
                self._reached.pop(partition, None)
                self._expect(partition)
            places = [self._at(partition) for partition in self._waiting]
        self._consumer.incremental_unassign(places)
        self._consumer.incremental_assign(places)

    def _remember_error(self, error: Any) -> None:
        self._error = error.str()
        self._doubtful = True

    def take(self) -> FeedBatch | None:
        partition, waiting = self._longest()
        if not waiting:
            self._fetch()
            partition, waiting = self._longest()
        # What was fetched behind a message that is not the one that was read must not be taken.
        if self._problem is not None:
            raise OSError(f"{self.feed.name}: {self._problem}")
        if not waiting:
            return None
        received: list[Received] = []
        size, first = 0, self._afters[partition]
        cuts = self._cuts.get(partition, ())
        index = bisect.bisect_right(cuts, int(waiting[0].receipt))
        cut = cuts[index] if index < len(cuts) else FAR
        while (
            waiting
            and int(waiting[0].receipt) < cut
            and len(received) < BATCH_MESSAGES
            and size < BATCH_BYTES
        ):
            received.append(waiting.popleft())
            size += len(received[-1].message.data)
        name = f"{self.feed.topic.name}/{partition}"
        batch, rest = next_batch(name, self.feed.columns, received, self._record)
        after = int(batch.receipts[-1]) + 1
        with self._lock:
            waiting.extendleft(reversed(rest))
            self._positions[partition] = self._afters[partition] = after
            self._pass_end(partition)
            taken = [each.checksum for each in received[: len(batch.receipts)] if each.checksum is not None]
            self._last[partition] = taken[-1]
        return batch._replace(
            receipts=[f"{partition}:{after}"],
            offsets=Offsets(partition, first, after),
            checksums=thinned(taken),
        )

    def _longest(self) -> tuple[int, deque[Received]]:
        """The partition with the most waiting messages, and these messages."""
        with self._lock:
            return max(self._waiting.items(), key=lambda item: len(item[1]), default=(0, deque()))

    def _fetch(self) -> None:
        """Let the messages wait that librdkafka has fetched."""
        # Without a clock of the server, a message counts as published when it came.
        now = time.time_ns() // 1_000_000
        messages = self._consumer.consume(TAKEN_AT_ONCE, 0)
        if self._doubtful:
            self._doubtful = False
            self._read_again()
            return
        for message in messages:
            partition, error = message.partition(), message.error()
            if error is None:
                received = self._received(message, now)
                with self._lock:
                    if self._expected.pop(partition, received.checksum) != received.checksum:
                        self._lose(partition)
                    elif message.offset() >= self._positions[partition]:
                        self._waiting[partition].append(received)
            elif error.code() == self._errors._PARTITION_EOF:
                with self._lock:
                    if self._expected.pop(partition, None) is not None:
                        self._lose(partition)
                    self._reached[partition] = message.offset()
                    self._pass_end(partition)
            elif message.topic() is None:
                # An error of the group, to which the user may have no right. Nothing is read from the group.
                self._error = error.str()
            elif error.code() in (self._errors._AUTO_OFFSET_RESET, self._errors.OFFSET_OUT_OF_RANGE):
                self._out_of_range.add(partition)
            elif not passes(error):
                self._problem = f"partition {partition}: {error.str()}"
            else:
                self._remember_error(error)

    def _pass_end(self, partition: int) -> None:
        """Go to the end of a partition without a waiting message: offsets before it may have no message."""
        if not self._waiting[partition]:
            end = self._reached.get(partition, 0)
            self._positions[partition] = max(self._positions[partition], end)

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
            functools.partial(self._look, partition) for partition in list(self._positions)
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

    def _look(self, partition: int) -> None:
        begun = elapsed()
        first, end = self._consumer.get_watermark_offsets(self._at(partition), timeout=ANSWER_SECONDS)
        with self._lock:
            self._ends[partition].look(begun, end)
        if partition in self._out_of_range and not self._waiting[partition]:
            self._go_on(partition, first, end)

    def _go_on(self, partition: int, first: int, end: int) -> None:
        """Read a partition on from the first message that there is, if it has kept its end."""
        position = self._positions[partition]
        expected = self._expected.pop(partition, None)
        if position > end or (expected is not None and expected.offset >= first):
            self._lose(partition)
            return
        self._out_of_range.discard(partition)
        if position < first:
            FEEDS.warning(
                "%s, partition %d: retention has removed the messages from offset %d to %d before they were "
                "read; what was in them is lost, and windows that may lack it are marked incomplete",
                *(self.feed.name, partition, position, first - 1),
            )
            with self._lock:
                self._positions[partition] = first
                self._lost = time.time_ns() // 1_000_000
        elif expected is None:
            self._expect(partition)
        self._consumer.incremental_unassign([self._at(partition)])
        self._consumer.incremental_assign([self._at(partition)])

    def _lose(self, partition: int) -> None:
        self._problem = (
            f"partition {partition}: the message before offset {self._positions[partition]:,} is not the one "
            "that was read: the broker has lost the end of the log; start again, to go on with what there is"
        )

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
            silences = {each: ends.passed(self._positions[each]) for each, ends in self._ends.items()}
            lags = [ends.lag(self._positions[each], elapsed()) for each, ends in self._ends.items()]
            return FeedState(silences, dict(self._positions), self._lost, worst(lags))

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
        self._waiting.clear()


def message_of(delivered: Any) -> Message:
    """A message that librdkafka delivered, with ``TOPIC/PARTITION/OFFSET`` as its id."""
    try:
        headers = delivered.headers() or ()
    except SystemError:  # confluent-kafka cannot give a header whose name is not UTF-8
        headers = ()
    named = next((value for name, value in headers if name.lower() == CONTENT_TYPE), None)
    return Message(
        f"{delivered.topic()}/{delivered.partition()}/{delivered.offset()}",
        delivered.value() or b"",
        named.decode("utf-8", "replace") if isinstance(named, bytes) else str(named or ""),
    )

"""A feed that readers share, with its journal, its watermark, and the batches that are not acknowledged.

An engine keeps several copies of the reading stage, and each copy makes readers of its own. Readers that
follow each other in the same place of a run read one feed, which the place opens once.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpbeam.transforms.reports.batches import Arrival, out_of_range, pairs_of_times
from ldpbeam.transforms.sources.arrivals import anchors_of
from ldpbeam.transforms.sources.feeds import FeedBatch, OpenFeed, Share, elapsed
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.sources.partitions import Watermarks
from ldpbeam.transforms.sources.reading import Reading
from ldpbeam.transforms.sources.replay import Arrivals, Replay
from ldpbeam.transforms.state.files import CLAIMS, COUNTED
from ldpbeam.transforms.state.journal import LOOKING_SECONDS, Journal
from ldpbeam.transforms.state.records import ENDED, STOPPED, Checksum, Claims, Offsets, OpenWindow
from ldpbeam.words import counted

FEEDS = logging.getLogger("ldpbeam.feeds")
#: So many new objects wait for Python's garbage collector. By default it looks after each 700, and a fetch of
#: messages makes a hundred thousand, none of which is garbage: that was a quarter of the time of reading.
COLLECTED = 50_000
#: Seconds between two attempts to acknowledge batches after a failure.
RETRY_SECONDS = 1.0
#: Readers exchange claims again after at least this many times as long as the last exchange took.
READING_TIMES = 10
#: Seconds between two warnings that acknowledgements fail.
WARNING_SECONDS = 60.0


def now() -> int:
    """The clock of this machine, in epoch milliseconds. It may be wrong, and may be set at any time."""
    return time.time_ns() // 1_000_000


class Pending(NamedTuple):
    """A batch that a reader took and that is not acknowledged.

    Attributes:
        reader: the name of the reader that took it.
        number: how many batches that reader had taken, this one included.
        oldest: its oldest event time that was expected, in epoch milliseconds; None if no report has one.
        windows: the windows that its reports are in.
        receipts: the receipts with which the feed acknowledges it.
        partition: the partition of the feed that it is from.
        offsets: where it stands; None if the feed has no offsets.
        checksums: of its messages.
    """

    reader: str
    number: int
    oldest: int | None
    windows: set[OpenWindow]
    receipts: tuple[str, ...]
    partition: int
    offsets: Offsets | None
    checksums: Sequence[Checksum] = ()


class SharedFeed:
    """The feed of one of the places where a run reads, with its journal and watermark.

    It is used by several threads: the engine commits marks on threads other than the one that reads.

    Args:
        reading: the settings of the run.
        number: which of the run's places it is, from 0.
        positions: the offsets at which it continues, by partition.
    """

    def __init__(self, reading: Reading, number: int, positions: Mapping[int, int]) -> None:
        gc.freeze()
        gc.set_threshold(COLLECTED)
        self.key = (reading.run, number)
        remembered = reading.windows.remembered + reading.windows.allowed_lateness
        self.journal = Journal(reading.output, reading.run, number, remembered)
        #: The offset after the last message that was taken, by partition.
        self.positions = dict(positions)
        share = Share(number, reading.readers, self.positions, self.journal.last_read)
        self.feed: OpenFeed = reading.feed.open(share)
        self.journal.begin(self.feed.state.positions)
        self.feed_name = reading.feed.name
        #: The name of the reader that reads now.
        self.current: str | None = None
        #: Whether the run has finished here, so that no reader takes batches any more.
        self.finished = False
        self.pending: deque[Pending] = deque()
        replay = reading.replay or Replay()
        before = [time for time in (replay.watermark, replay.settled) if time is not None]
        disorder = reading.options.max_disorder
        self._watermarks = Watermarks(disorder, elapsed(), max(before, default=None))
        # Other readers hold back the watermark until their first claims are read.
        self._watermarks.hear([Claims()] * (reading.readers - 1))
        #: How batches came; None if no other process reads the feed again.
        self._arrivals = None if reading.replay is None else Arrivals(replay, reading.windows, disorder)
        self._reading = reading
        self._looked = time.monotonic()
        self._hears_at = 0.0
        self._complained = -WARNING_SECONDS
        #: The last watermark that was reported to the engine.
        self.reported: int | None = None
        #: Batches that the engine has committed and the feed has not yet acknowledged.
        self._durable: deque[Pending] = deque()
        self._tried = -RETRY_SECONDS
        self._warned = -WARNING_SECONDS
        #: How many reports were too far from others since that was last said, and when.
        self._refused, self._said_refused = 0, -WARNING_SECONDS
        self._lock = threading.Lock()
        self._acknowledging = threading.Lock()

    def take(self, pending: Pending) -> None:
        """Add a batch that a reader took."""
        with self._lock:
            self.pending.append(pending)
            if pending.offsets is not None:
                self.positions[pending.partition] = pending.offsets.after

    def oldest_expected(self, partition: int, times: NDArray[np.int64]) -> int | None:
        """The oldest expected event time of a batch that is about to be taken; None if there is none.

        Unexpected times do not hold the watermark back.
        """
        with self._lock:
            expected = self._watermarks.expected(partition)
        if expected is not None:
            times = times[times >= expected]
        return int(times.min()) if len(times) else None

    def arrival(self, batch: FeedBatch, times: NDArray[np.int64]) -> tuple[int | None, Arrival]:
        """(the watermark of a batch that is being taken, its arrival).

        It moves the anchors, and not yet this watermark. A step that begins with it is in the journal before
        anybody counts what becomes of the batch.

        Args:
            batch: the batch.
            times: the event times of its reports.
        """
        reached, windows = self.watermark(), self._reading.windows
        with self._lock:
            partition = batch.partition
            self._watermarks.take(partition, elapsed(), times, batch.oldest, batch.published)
            anchors = self._watermarks.anchors(partition)
            more = anchors_of(batch)
            for span in windows.near(anchors, self._reading.options.max_disorder):
                more = more[span.outside(more)]
            anchors += tuple(more.tolist())
            if self._arrivals is None or batch.offsets is None:
                near = (*windows.near(anchors, self._reading.options.max_disorder), *windows.crowded(times))
                return reached, Arrival("", now(), pairs_of_times(near))
            steps = self._arrivals.steps.setdefault(batch.partition, [])
            before = len(steps)
            judged = self._arrivals.of(batch.offsets, reached, now(), windows.rounded(anchors))
            recorded = list(steps) if len(steps) > before else []
        if recorded:
            self.journal.record(batch.partition, recorded)
        return judged

    def say_refused(self, times: NDArray[np.int64], arrival: Arrival) -> None:
        """Say at most once a minute how many reports are refused because they are too far from others."""
        if not arrival.counted:
            self._refused += int(out_of_range(self._reading.windows, times, arrival)[1].sum())
        if self._refused and time.monotonic() - self._said_refused >= WARNING_SECONDS:
            FEEDS.warning(
                "%s: %s refused, dated so many windows away from the others that these are not kept open; "
                "if they are honest, raise windows.most_open, and read them into a new folder",
                *(self.feed_name, counted(self._refused, "report")),
            )
            self._refused, self._said_refused = 0, time.monotonic()

    @property
    def reads_again(self) -> bool:
        """Whether it reads what an earlier process had read, so that open windows are not whole yet."""
        return self._arrivals is not None and self._arrivals.reads_again(
            {**self.positions, **self.feed.state.positions}
        )

    def forget(self) -> None:
        """Forget what no other process would need, once a second."""
        if self._arrivals is None or time.monotonic() - self._looked < LOOKING_SECONDS:
            return
        self._looked = time.monotonic()
        counted, windows = COUNTED.read(self.journal.folder), self._reading.windows
        assert counted is not None
        settled = counted.settled
        needed = self.journal.forget(
            lambda window: settled is not None and windows.settles(window) <= settled, counted.positions
        )
        with self._lock:
            self._arrivals.forget(needed)

    def look(self) -> None:
        """Learn since when the partitions of the feed have been silent, and what other readers say."""
        silences = self.feed.state.silences
        with self._lock:
            self._watermarks.look(elapsed(), silences, self._uncommitted())
        if self._reading.readers > 1 and time.monotonic() >= self._hears_at:
            self._exchange()

    def _exchange(self) -> None:
        """Tell the other readers what the partitions here say, and hear what theirs do."""
        with self._lock:
            claims = self._watermarks.claims(self._uncommitted())
        begun = time.monotonic()
        try:
            self._tell(claims)
            others = [
                CLAIMS.read(self.journal.folder, reader) or Claims()
                for reader in range(self._reading.readers)
                if reader != self.key[1]
            ]
        except Exception as error:  # each file system has errors of its own
            # Their last claims still hold: they can only be too early.
            if begun - self._complained >= WARNING_SECONDS:
                self._complained = begun
                FEEDS.warning(
                    "%s: other readers are not heard, which is tried again: %s", self.feed_name, error
                )
        else:
            with self._lock:
                self._watermarks.hear(others)
        # Where files are slow, most of the time is for reading reports.
        now = time.monotonic()
        self._hears_at = now + max(LOOKING_SECONDS, READING_TIMES * (now - begun))

    def finish(self, *, stopped: bool) -> None:
        """Take no more batches here in this run, because it was asked to stop or nothing arrives any more."""
        self.journal.end(self.clock)
        self._tell(STOPPED if stopped else ENDED)
        self.finished = True

    def _tell(self, claims: Claims) -> None:
        if self._reading.readers > 1:
            CLAIMS.write(self.journal.folder, claims, self.key[1])

    def watermark(self) -> int | None:
        """The event time before which no report is expected, in epoch milliseconds; None at first."""
        with self._lock:
            self.reported = self._watermarks.at(self._uncommitted())
        return self.reported

    def _uncommitted(self) -> dict[int, int | None]:
        """The oldest expected event time among the batches that are not committed, by partition."""
        oldest: dict[int, int | None] = {}
        for batch in self.pending:
            times = (oldest.get(batch.partition), batch.oldest)
            oldest[batch.partition] = min((time for time in times if time is not None), default=None)
        return oldest

    @property
    def clock(self) -> int:
        """The present in epoch milliseconds: the later of this machine's clock and the server's."""
        return max(now(), self._watermarks.clock(elapsed()) or 0)

    @property
    def lag(self) -> Lag | None:
        """How far it is behind the server; None before any pull."""
        lag = self.feed.state.lag
        if lag is not None:
            return lag
        with self._lock:
            behind = self._watermarks.behind(elapsed(), now())
        return None if behind is None else Lag(behind)

    @property
    def idle(self) -> int:
        """For how many milliseconds nothing is known to have arrived at any reader.

        0 while a batch is not committed.
        """
        return 0 if self.pending else self._watermarks.idle

    @property
    def others_ended(self) -> bool:
        """Whether another reader has ended because nothing arrived at any: then nothing is taken any more."""
        return self._watermarks.ended

    def abandon(self) -> None:
        """Close the feed, and forget what was taken: another one reads it again."""
        if not self.finished:
            self.feed.close()
        with self._lock:
            self.pending.clear()
            self._durable.clear()

    def pending_of(self, reader: str) -> list[Pending]:
        """The batches that one reader took and that are not acknowledged."""
        with self._lock:
            return [batch for batch in self.pending if batch.reader == reader]

    def commit(self, reader: str, number: int) -> None:
        """Acknowledge the batches that the engine has committed: those of one reader up to a number.

        Raises:
            Exception: of the feed or the file system, if acknowledging fails; :meth:`retry` tries again.
        """
        with self._lock:
            self._durable.extend(
                batch
                for batch in self.pending
                if batch.reader == reader and batch.number <= number and batch not in self._durable
            )
        self._acknowledge()

    def retry(self) -> bool:
        """Try again to acknowledge committed batches after a failure, at most once per second.

        The engine finalizes a mark only once, and there may be no later one: the engine may now use another
        reader, whose marks cover only what that reader took. Failures are logged, at most once per minute.

        Returns:
            Whether batches were acknowledged.
        """
        if not self._durable or time.monotonic() - self._tried < RETRY_SECONDS:
            return False
        try:
            self._acknowledge()
        except Exception as error:  # each feed and each file system has errors of its own
            if time.monotonic() - self._warned >= WARNING_SECONDS:
                self._warned = time.monotonic()
                FEEDS.warning(
                    "%s: reports are counted and cannot be acknowledged, which is tried again: %s",
                    self.feed_name,
                    error,
                )
            return False
        return True

    def _acknowledge(self) -> None:
        """Write the windows of committed batches to the journal, then acknowledge the batches."""
        with self._acknowledging:
            with self._lock:
                durable, taken = list(self._durable), list(self.pending)
            if not durable:
                return
            self._tried = time.monotonic()
            self.journal.name(
                {window for batch in durable for window in batch.windows},
                self.reported,
                [batch.offsets for batch in durable if batch.offsets is not None],
                [(batch.offsets, batch.windows) for batch in taken if batch.offsets is not None],
                [(batch.partition, batch.checksums) for batch in durable],
            )
            self.feed.acknowledge([receipt for batch in durable for receipt in batch.receipts])
            with self._lock:
                for batch in durable:
                    self._durable.remove(batch)
                    self.pending.remove(batch)

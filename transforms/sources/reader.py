"""The reader that an engine drives: it takes batches, reports the watermark, and commits batches.

| state | how it is reached | what it does |
| --- | --- | --- |
| reading | Beam makes it | takes batches; its marks commit them |
| replaced | Beam makes another reader in its place | takes nothing; its marks still commit what it took |
| finished | asked to stop, or idle for long enough | closes the feed; its marks still commit what it took |
| forgotten | replaced or finished, and all it took is acknowledged | nothing refers to it any more |
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from apache_beam.io.unbounded_source import CheckpointMark, UnboundedReader
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from ldpbeam.transforms.reports.batches import Arrival
from ldpbeam.transforms.sources import shared_feed
from ldpbeam.transforms.sources.arrivals import event_times, opened_windows
from ldpbeam.transforms.sources.feeds import FeedBatch, elapsed
from ldpbeam.transforms.sources.lag import Lag, worst
from ldpbeam.transforms.sources.reading import Reading
from ldpbeam.transforms.sources.shared_feed import Pending, SharedFeed
from ldpbeam.transforms.sources.watermark import FINISHED, timestamp
from ldpbeam.transforms.state.journal import LOOKING_SECONDS, asked_to_stop


class TakenBatch(NamedTuple):
    """A batch that was taken.

    Attributes:
        batch: the batch.
        watermark: the watermark that decides which of its reports are late, in epoch milliseconds; None
            before any.
        arrival: how it came; None outside of a stream of ours.
    """

    batch: FeedBatch
    watermark: int | None
    arrival: Arrival | None = None


#: The readers of this process that are not forgotten, by a name that a mark carries.
_readers: dict[str, Reader] = {}
#: The feeds of this process, by run and number.
_feeds: dict[tuple[str, int], SharedFeed] = {}


class Mark(CheckpointMark):
    """All batches that a reader had taken up to a number; only the process of that reader can commit them.

    Attributes:
        reader: the reader's name.
        number: the number.
        positions: the offsets at which another reader continues, by partition; none if the feed has none.
    """

    def __init__(self, reader: str, number: int, positions: Mapping[int, int]) -> None:
        self.reader = reader
        self.number = number
        self.positions = dict(positions)

    def finalize_checkpoint(self) -> None:
        """Commit the batches of the mark; Beam calls this once, when the engine has committed its results."""
        reader = _readers.get(self.reader)
        if reader is not None:
            reader.commit(self.number)


@dataclass(frozen=True)
class Progress:
    """How far a run in this process has come; times are epoch milliseconds, None before anything arrived.

    Attributes:
        watermark: the event time up to which windows are closed.
        pending: how many batches were taken and are not acknowledged.
        lag: how far it is behind the server.
        asked: when the engine last asked for a batch, on the clock
            :func:`~ldpbeam.transforms.sources.feeds.elapsed`.
    """

    watermark: int | None
    pending: int
    lag: Lag | None
    asked: int | None


def progress(run: str) -> Progress:
    """How far a run has come; its workers must be in this process."""
    readers = [reader for reader in list(_readers.values()) if reader.reading.run == run]
    watermarks = [reader.reported for reader in readers if reader.reported is not None]
    feeds = {reader.shared.key: reader.shared for reader in readers}.values()
    return Progress(
        watermark=min(watermarks, default=None),
        pending=sum(len(reader.pending) for reader in readers),
        lag=worst([lag for feed in feeds if (lag := feed.lag) is not None]),
        asked=max((reader.asked for reader in readers if reader.asked is not None), default=None),
    )


def reader_in(reading: Reading, number: int, mark: Mark | None) -> Reader:
    """A new reader in one place of a run; it replaces the reader that was there, and continues at a mark.

    Each copy of the reading stage keeps its own readers between bundles, and an engine may give the next
    bundle to another copy. Otherwise the earlier reader would keep the messages it pulled for ever.
    """
    key = (reading.run, number)
    positions = {} if mark is None else mark.positions
    shared = _feeds.get(key)
    if shared is not None and shared.positions != positions:
        # The engine has gone back to a checkpoint, and this process lives on.
        shared.abandon()
        for reader in list(_readers.values()):
            if reader.shared is shared:
                reader.ended = True
                reader.forget()
        shared = None
    if shared is None:
        shared = _feeds[key] = SharedFeed(reading, number, positions)
    before = _readers.get(shared.current) if shared.current is not None else None
    if before is not None:
        before.ended = True
        before.forget()
    return Reader(reading, shared)


class Reader(UnboundedReader):
    """One reader of a run, as Beam drives it."""

    def __init__(self, reading: Reading, shared: SharedFeed) -> None:
        self.reading = reading
        self.shared = shared
        self.name = uuid.uuid4().hex
        #: Whether it takes no more batches: it was replaced, or has finished.
        self.ended = shared.finished
        #: The last watermark that this reader reported.
        self.reported: int | None = None
        #: When the engine last asked for a batch, on the clock :func:`elapsed`.
        self.asked: int | None = None
        self._number = 0
        self._looked = -LOOKING_SECONDS
        self._taken: TakenBatch | None = None
        self._oldest: int | None = None
        shared.current = self.name
        _readers[self.name] = self

    @property
    def pending(self) -> list[Pending]:
        """The batches that this reader took and that are not acknowledged."""
        return self.shared.pending_of(self.name)

    def start(self) -> bool:
        """Take the first batch, as :meth:`advance`."""
        return self.advance()

    def advance(self) -> bool:
        """Take the next batch, if there is one, and return whether there was.

        Raises:
            OSError: if the feed failed for good.
        """
        self.asked = elapsed()
        if self.ended:
            return False
        if self.shared.retry():
            _forget_ended(self.shared)
        if self._asked_to_stop():
            # While messages are read again, every window lacks some of its reports.
            self.shared.journal.stop(None if self.shared.reads_again else self._watermark())
            self._finish(stopped=True)
            return False
        self.shared.look()
        self.shared.forget()
        batch = None if self.shared.others_ended else self.shared.feed.take()
        lost = self.shared.feed.state.lost
        if lost is not None:
            self.shared.journal.lose(lost)
        if batch is None:
            idle = self.reading.options.stop_when_idle
            if idle is not None and (self.shared.idle >= idle or self.shared.others_ended):
                self._finish(stopped=False)
            return False
        self._number += 1
        times = event_times(batch)
        self._oldest = int(times.min()) if len(times) else None
        expected = self.shared.oldest_expected(batch.partition, times)
        judged_by, arrival = self.shared.arrival(batch, times)
        self.shared.say_refused(times, arrival)
        windows = set(opened_windows(batch, self.reading.attributes, self.reading.windows, arrival))
        standing = batch.partition, batch.offsets, batch.checksums
        pending = Pending(self.name, self._number, expected, windows, tuple(batch.receipts), *standing)
        self.shared.take(pending)
        # The journal and the metrics have it as of the last batch.
        self._watermark()
        self._taken = TakenBatch(batch, judged_by, arrival)
        return True

    def get_current(self) -> TakenBatch:
        """The batch that was taken last."""
        assert self._taken is not None
        return self._taken

    def get_current_timestamp(self) -> Timestamp:
        """The oldest event time of the batch taken last, or if later the watermark that judges its reports.

        So a report that is in time by that watermark is not late to the engine, and a late report does not
        hold the engine's watermark.
        """
        reached = self.get_current().watermark
        if self._oldest is not None:
            return timestamp(self._oldest if reached is None else max(self._oldest, reached))
        reached = self._watermark()
        return timestamp(shared_feed.now() if reached is None else reached)

    def get_watermark(self) -> Timestamp:
        """The watermark: the end of time for a finished reader, or :data:`FINISHED` if readers stay."""
        if self.reading.stays and self.shared.finished:
            return FINISHED
        if self.ended:
            return MAX_TIMESTAMP
        reached = self._watermark()
        return MIN_TIMESTAMP if reached is None or self.shared.reads_again else timestamp(reached)

    def get_checkpoint_mark(self) -> CheckpointMark:
        """A mark that commits all that this reader has taken.

        Each copy of the reading stage keeps its last reader, which must not keep a batch.
        """
        self._taken = None
        return Mark(self.name, self._number, self.shared.positions)

    def commit(self, number: int) -> None:
        """Acknowledge the batches that this reader took up to a number; the engine has committed them.

        Raises:
            Exception: if acknowledging fails; Beam logs it, and it is tried again.
        """
        self.shared.commit(self.name, number)
        _forget_ended(self.shared)

    def close(self) -> None:
        """Take no more, and close the feed."""
        if self.ended:
            return
        self.ended = True
        self._taken = None
        self.shared.feed.close()
        self.forget()
        if not (self.shared.finished and self.reading.stays):
            _feeds.pop(self.shared.key, None)

    def forget(self) -> None:
        """Delete this process's reference to the reader if it has ended and all it took is acknowledged."""
        if self.ended and not self.pending:
            _readers.pop(self.name, None)

    def _watermark(self) -> int | None:
        self.reported = self.shared.watermark()
        return self.reported

    def _asked_to_stop(self) -> bool:
        if time.monotonic() - self._looked < LOOKING_SECONDS:
            return False
        self._looked = time.monotonic()
        return asked_to_stop(self.reading.output, self.reading.run)

    def _finish(self, *, stopped: bool) -> None:
        self.shared.finish(stopped=stopped)
        self.close()


def _forget_ended(shared: SharedFeed) -> None:
    """Forget the ended readers of a feed for which all they took is acknowledged."""
    for reader in list(_readers.values()):
        if reader.shared is shared:
            reader.forget()

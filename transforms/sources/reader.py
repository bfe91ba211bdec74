"""An unbounded source of reports on any feed: acknowledged only when an engine has made them durable.

Beam's own Pub/Sub reader acknowledges before it processes and takes the wall clock for the watermark on
local engines: a crash would lose reports, and a replay of last week would be late. This one runs on engines
with unbounded splittable reads: Prism and Flink.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.unbounded_source import (
    CheckpointMark,
    ReadFromUnboundedSource,
    UnboundedReader,
    UnboundedSource,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from numpy.typing import NDArray

from ldpbeam.schemas.reports.event_times import problems
from ldpbeam.transforms.reports.batches import WATERMARK
from ldpbeam.transforms.reports.counts import COUNTS, IN, count, damaged_file
from ldpbeam.transforms.reports.dead_letters import DEAD, Disclosure, emit
from ldpbeam.transforms.sources.feeds import Feed, OpenFeed, Parcel
from ldpbeam.transforms.sources.journal import Journal, OpenWindow, asked_to_stop
from ldpbeam.transforms.sources.watermark import OVER, Watermark
from ldpbeam.windows import FUTURE, Windows

FEEDS = logging.getLogger("ldpbeam.feeds")
#: Seconds after which a bundle ends, so that what it read becomes durable and is acknowledged.
BUNDLE_SECONDS = 0.5
#: Seconds until a reader that had nothing is asked again.
POLL_SECONDS = 0.1
#: Seconds between two looks whether the run has been asked to stop, and between two tries to acknowledge.
LOOKING_SECONDS = 1.0
#: Seconds between two warnings that acknowledgements fail.
WARNING_SECONDS = 60.0


@dataclass(frozen=True)
class Reading:
    """How a stream reads.

    Attributes:
        feed: what arrives.
        attributes: of the study.
        windows: likewise.
        output: the output folder, for the journal.
        run: the run's name.
        disorder: how much out of order reports arrive at most, in milliseconds.
        stop_when_idle: end when nothing has arrived for so many milliseconds; None to go on.
        readers: how many readers there are on engines that can use several.
        stays: whether a reader that has ended stays, with a watermark past every window, until the job is
            ended by who waits for it: at the end of all time some engines let go of state that timers want.
    """

    feed: Feed
    attributes: tuple[str, ...]
    windows: Windows
    output: str
    run: str
    disorder: int
    stop_when_idle: int | None = None
    readers: int = 1
    stays: bool = False


class Taken(NamedTuple):
    """A parcel, and the watermark when it was taken, in epoch milliseconds."""

    parcel: Parcel
    watermark: int | None


class ReadStream(beam.PTransform):
    """Decoded batches as they arrive.

    Outputs: the main one of decoded batches, whose schemas' metadata name the feed and the watermark; dead
    letters (``DEAD``) of what does not decode; and counts.
    """

    def __init__(self, reading: Reading, disclosure: Disclosure) -> None:
        super().__init__()
        self.reading = reading
        self.disclosure = disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Wire the stages."""
        return (
            pipeline
            | "Take"
            >> ReadFromUnboundedSource(
                _Source(self.reading), poll_interval=POLL_SECONDS, max_read_time_seconds=BUNDLE_SECONDS
            )
            | "Unpack" >> beam.ParDo(Unpack(self.disclosure)).with_outputs(DEAD, COUNTS, main="decoded")
        )


class Unpack(beam.DoFn):
    """Parcels to decoded batches, dead letters and counts.

    Args:
        disclosure: what dead letters may say of their inputs.
    """

    def __init__(self, disclosure: Disclosure) -> None:
        self.disclosure = disclosure

    def process(self, taken: Taken) -> Iterable[Any]:
        """Count, and hand on."""
        reports = sum(batch.num_rows for batch in taken.parcel.batches)
        reports += sum(letter.reports for letter in taken.parcel.letters)
        yield count(IN, reports)
        yield from map(damaged_file, taken.parcel.damaged)
        yield from emit(taken.parcel.letters, self.disclosure)
        for batch in taken.parcel.batches:
            metadata = dict(batch.schema.metadata or {})
            if taken.watermark is not None:
                metadata[WATERMARK] = str(taken.watermark).encode()
            yield batch.replace_schema_metadata(metadata)


class _Source(UnboundedSource):
    def __init__(self, reading: Reading, reader: int = 0) -> None:
        self.reading = reading
        self.reader = reader

    def split(self, desired_num_splits: int, options: Any = None) -> list[UnboundedSource]:
        return [_Source(self.reading, reader) for reader in range(self.reading.readers)]

    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> UnboundedReader:
        # What an earlier reader took and did not acknowledge is sent again: there is no place to resume from.
        key = (self.reading.run, self.reader)
        if key not in _places:
            _places[key] = _Place(self.reading, self.reader)
        return _Reader(self.reading, _places[key])

    def get_checkpoint_mark_coder(self) -> beam.coders.Coder:
        return beam.coders.PickleCoder()


class _Mark(CheckpointMark):
    """All that a reader had taken up to a number; the reader acknowledges it, if it is in this process."""

    def __init__(self, reader: str, number: int) -> None:
        self.reader = reader
        self.number = number

    def finalize_checkpoint(self) -> None:
        reader = _readers.get(self.reader)
        if reader is not None:
            reader.make_safe(self.number)


class _Unsafe(NamedTuple):
    """A parcel that a reader took and that is not durable yet."""

    reader: str
    number: int
    oldest: int | None
    windows: set[OpenWindow]
    receipts: tuple[str, ...]


#: The readers of this process, by a name that a mark carries.
_readers: dict[str, _Reader] = {}
#: Where they read, by run and number.
_places: dict[tuple[str, int], _Place] = {}


@dataclass(frozen=True)
class Progress:
    """How far a run in this process has come; times are epoch milliseconds, None before anything arrived.

    Attributes:
        watermark: the event time up to which windows are closed.
        published: when the last message that was taken had been sent.
        unsafe: parcels that were taken and are not acknowledged.
    """

    watermark: int | None
    published: int | None
    unsafe: int


def progress(run: str) -> Progress:
    """How far a run has come whose workers are in this process."""
    own = [reader for reader in list(_readers.values()) if reader.reading.run == run]
    marks = [reader.watermark_said for reader in own if reader.watermark_said is not None]
    published = [reader.published for reader in own if reader.published is not None]
    unsafe = sum(len(reader.unsafe) for reader in own)
    return Progress(min(marks, default=None), max(published, default=None), unsafe)


class _Place:
    """What the readers share that follow each other in one place of a run."""

    def __init__(self, reading: Reading, reader: int) -> None:
        self.key = (reading.run, reader)
        kept = reading.windows.remembered + reading.windows.allowed_lateness
        self.journal = Journal(reading.output, reading.run, reader, kept)
        self.watermark = Watermark(reading.disorder)
        self.feed_name = reading.feed.name
        self.feed: OpenFeed = reading.feed.open()
        self.unsafe: deque[_Unsafe] = deque()
        self.current: _Reader | None = None
        #: When something was taken last, or the first reader was made.
        self.active = _now()
        #: When no reader will take any more.
        self.over = False
        #: Of the watermark and what is unsafe.
        self.lock = threading.Lock()
        #: What is durable and not acknowledged yet, in the order in which it became durable.
        self.durable: deque[_Unsafe] = deque()
        self._tried = -LOOKING_SECONDS
        self._warned = -WARNING_SECONDS
        #: Marks are finalised on a pool of threads.
        self._acknowledging = threading.Lock()

    def acknowledge(self) -> None:
        """Name the windows of what is durable in the journal, then acknowledge it."""
        with self._acknowledging:
            with self.lock:
                safe = list(self.durable)
            if not safe:
                return
            self._tried = time.monotonic()
            said = None if self.current is None else self.current.watermark_said
            self.journal.name({window for one in safe for window in one.windows}, said)
            self.feed.acknowledge([receipt for one in safe for receipt in one.receipts])
            with self.lock:
                for one in safe:
                    self.durable.remove(one)
                    self.unsafe.remove(one)
        for name in {one.reader for one in safe}:
            reader = _readers.get(name)
            if reader is not None:
                reader.forget()

    def acknowledge_again(self) -> None:
        """Try once more what could not be acknowledged, now and then.

        The mark that made it durable is spent, and there may be no later one: the engine may have gone on
        with another reader, which speaks only for what it took itself.
        """
        if not self.durable or time.monotonic() - self._tried < LOOKING_SECONDS:
            return
        try:
            self.acknowledge()
        except Exception as error:  # whatever the feed or the file system has
            if time.monotonic() - self._warned >= WARNING_SECONDS:
                self._warned = time.monotonic()
                FEEDS.warning(
                    "%s: reports are counted and cannot be acknowledged, which is tried again: %s",
                    self.feed_name,
                    error,
                )


class _Reader(UnboundedReader):
    """One reader of a run.

    Each copy of the reading stage keeps readers of its own between bundles, and an engine may give the next
    bundle to another copy. So a new reader takes the place of the one before, which would else hold its
    messages as long as it lives; what that one handed on is acknowledged by its own marks alone.
    """

    def __init__(self, reading: Reading, place: _Place) -> None:
        self.reading = reading
        self.place = place
        self.name = uuid.uuid4().hex
        self.ended = place.over
        self.watermark_said: int | None = None
        self.published: int | None = None
        if place.current is not None:
            place.current.ended = True
            place.current.forget()
        place.current = self
        self._number = 0
        self._looked = -LOOKING_SECONDS
        self._taken: Taken | None = None
        self._oldest: int | None = None
        self._drained = False
        _readers[self.name] = self

    @property
    def unsafe(self) -> list[_Unsafe]:
        """What it took itself, and is not durable."""
        with self.place.lock:
            return [one for one in self.place.unsafe if one.reader == self.name]

    def start(self) -> bool:
        return self.advance()

    def advance(self) -> bool:
        if self.ended:
            return False
        self.place.acknowledge_again()
        if self._asked_to_stop():
            self.place.journal.stop(self._watermark())
            self._end()
            return False
        parcel = self.place.feed.take()
        now = _now()
        self._drained = parcel is None and self.place.feed.drained
        if parcel is None:
            idle = self.reading.stop_when_idle
            if (
                idle is not None
                and now - self.place.active >= idle
                and self._drained
                and not self.place.unsafe
            ):
                self._end()
            return False
        self.place.active = now
        oldest, latest = _times(parcel)
        self._number += 1
        windows = set(_windows(parcel, self.reading, now))
        with self.place.lock:
            if latest is not None:
                self.place.watermark.see(latest, now)
            self.place.unsafe.append(
                _Unsafe(self.name, self._number, oldest, windows, tuple(parcel.receipts))
            )
        self._oldest = oldest
        self.published = parcel.published
        self._taken = Taken(parcel, self._watermark())
        return True

    def _asked_to_stop(self) -> bool:
        if time.monotonic() - self._looked < LOOKING_SECONDS:
            return False
        self._looked = time.monotonic()
        return asked_to_stop(self.reading.output, self.reading.run)

    def _end(self) -> None:
        self.place.over = True
        self.close()

    def close(self) -> None:
        if self.ended:
            return
        self.ended = True
        self._taken = None
        self.place.feed.close()
        self.forget()
        if not (self.place.over and self.reading.stays):
            _places.pop(self.place.key, None)

    def forget(self) -> None:
        """A reader that has ended is needed as long as something it took is unsafe."""
        if self.ended and not self.unsafe:
            _readers.pop(self.name, None)

    def get_current(self) -> Taken:
        assert self._taken is not None
        return self._taken

    def get_current_timestamp(self) -> Timestamp:
        if self._oldest is not None:
            return _timestamp(self._oldest)
        reached = self._watermark()
        return _timestamp(_now() if reached is None else reached)

    def _watermark(self) -> int | None:
        place = self.place
        with place.lock:
            oldest = min((one.oldest for one in place.unsafe if one.oldest is not None), default=None)
            self.watermark_said = place.watermark.at(_now(), oldest, self._drained and not place.unsafe)
        return self.watermark_said

    def get_watermark(self) -> Timestamp:
        if self.reading.stays and self.place.over:
            return OVER
        if self.ended:
            return MAX_TIMESTAMP
        reached = self._watermark()
        return MIN_TIMESTAMP if reached is None else _timestamp(reached)

    def get_checkpoint_mark(self) -> CheckpointMark:
        return _Mark(self.name, self._number)

    def make_safe(self, number: int) -> None:
        """What it took up to a number is durable, and is acknowledged."""
        place = self.place
        with place.lock:
            place.durable.extend(
                one
                for one in place.unsafe
                if one.reader == self.name and one.number <= number and one not in place.durable
            )
        place.acknowledge()
        self.forget()


def _now() -> int:
    return time.time_ns() // 1_000_000


def _timestamp(milliseconds: int) -> Timestamp:
    return Timestamp(micros=1000 * milliseconds)


def _times(parcel: Parcel) -> tuple[int | None, int | None]:
    """The oldest and the latest event time of a parcel, of those that can be right."""
    known = [times for times in map(_plausible_times, parcel.batches) if len(times)]
    if not known:
        return None, None
    return min(int(times.min()) for times in known), max(int(times.max()) for times in known)


def _plausible_times(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The event times of a batch without those that validation refuses."""
    times = batch.column("event_time").drop_null().to_numpy()
    return np.asarray(times[problems(times) == 0])


def _windows(parcel: Parcel, reading: Reading, now: int) -> Iterator[OpenWindow]:
    """The windows of each attribute that a parcel has reports of."""
    size = reading.windows.step
    for batch in parcel.batches:
        for attribute, rows in _by_attribute(batch):
            own = _plausible_times(batch if rows is None else batch.filter(rows))
            if attribute in reading.attributes:
                for place in np.unique(own[own < now + FUTURE] // size).tolist():
                    for start, end in reading.windows.windows_of(place * size):
                        yield OpenWindow(attribute, start, end)


def _by_attribute(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array | None]]:
    if "attribute" not in batch.schema.names:
        constant = (batch.schema.metadata or {}).get(b"attribute")
        if constant is not None:
            yield constant.decode(), None
        return
    column = batch.column("attribute")
    for name in pc.unique(column).drop_null().to_pylist():
        yield name, pc.fill_null(pc.equal(column, name), False)

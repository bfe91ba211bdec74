"""Files as a feed: new files are read as they arrive, and no part of a file is counted twice.

The watermark of Beam's ``MatchContinuously`` is the wall clock, so reports of an hour ago would be late. Here
the watermark comes from the event times, as for Pub/Sub.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.schemas.encodings.avro_headers import read_header
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.patterns import Entry, matching
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import (
    DECODED_BYTES,
    Feed,
    FeedBatch,
    FeedState,
    OpenFeed,
    Position,
    elapsed,
    now,
)
from ldpbeam.transforms.sources.files import BadFile, FileRange, absolute, entries_of, real, sniff
from ldpbeam.transforms.sources.read import READING, read_range, split_or_keep
from ldpbeam.transforms.storage import literal, open_raw

#: Seconds between two searches for new files.
LOOKING_SECONDS = 2.0
#: Parts of files of about this many bytes.
RANGE_BYTES = 4 * 2**20


@dataclass(frozen=True)
class FolderFeed(Feed):
    """The files that match patterns, now and later.

    A file must be complete when its name first matches: write it under a name that begins with a dot, which
    no wildcard matches, and rename it.

    Attributes:
        patterns: patterns of files on this machine or in object stores.
        columns: the columns of reports that the study needs.
        clock: the time at which a file counts as published whose file system does not say it.
    """

    patterns: tuple[str, ...]
    columns: Columns
    clock: Callable[[], int] = now

    @property
    def name(self) -> str:
        """The patterns, separated by commas."""
        return ", ".join(self.patterns)

    def open_at(self, position: Position | None) -> OpenFeed:
        """Begin to look for files.

        Args:
            position: ``read``, by path up to where a file was read, in bytes, of Parquet in row groups;
                ``bad``, the paths of files that could not be read; ``part``, the file, of which a part is
                being read, its path, where the part ends, and how much of it was taken, in batches and dead
                letters of the decoder, which are the same each time; None if none is.
        """
        return _Watched(self, {"read": {}, "bad": [], "part": None} if position is None else position)


def merged(positions: Iterable[Position]) -> Position:
    """The position after all that runs have read which have ended."""
    read: dict[str, int] = {}
    bad: set[str] = set()
    for position in positions:
        bad.update(position["bad"])
        for path, end in position["read"].items():
            read[path] = max(end, read.get(path, 0))
    return {"read": read, "bad": sorted(bad), "part": None}


class _Waiting(NamedTuple):
    """A part of a file that is to be read.

    Attributes:
        part: the part, or why the file cannot be read.
        published: when the file was written, in epoch milliseconds.
        oldest: when the oldest file was, of this part and of those that wait longer.
        taken: how many items of the part were taken by an earlier process.
    """

    part: FileRange | BadFile
    published: int
    oldest: int = 0
    taken: int = 0


class _Watched(OpenFeed):
    def __init__(self, feed: FolderFeed, position: Position) -> None:
        self.feed = feed
        self._read: dict[str, int] = dict(position["read"])
        self._bad = set(position["bad"])
        #: The part that is being read, and how many of its items were taken; None if none is.
        self._part: tuple[FileRange | BadFile, int] | None = None
        self._batches: Iterator[FeedBatch] = iter(())
        #: The names, without links, of files that were found.
        self._known: set[str] = set()
        self._waiting: deque[_Waiting] = deque()
        self._looked: int | None = None
        self._silent: int | None = None
        if position["part"] is not None:
            self._go_on(*position["part"])

    def _go_on(self, path: str, stop: int, taken: int) -> None:
        """Go on with a part of a file that an earlier process was reading."""
        found = [waiting for entry in matching(literal(path)) for waiting in self._found(entry, stop)]
        if not found:
            gone = BadFile(path, "it is gone or empty, and was being read")
            found = [_Waiting(gone, self.feed.clock())]
        elif isinstance(found[0].part, FileRange):
            found[0] = found[0]._replace(taken=taken)
        self._wait_for(found)

    def take(self) -> FeedBatch | None:
        batch = next(self._batches, None)
        if batch is not None:
            return batch
        due = self._looked is None or elapsed() - self._looked >= 1000 * LOOKING_SECONDS
        if due and not self._waiting:
            self._looked = elapsed()
            self._look()
            self._silent = None if self._waiting else self._looked
        if not self._waiting:
            return None
        self._batches = self._batches_of(self._waiting.popleft())
        return next(self._batches)

    def _batches_of(self, waiting: _Waiting) -> Iterator[FeedBatch]:
        """The batches of a part of a file. Each says before it is given what is taken with it."""
        part, published, oldest, taken = waiting
        batches: list[pa.RecordBatch] = []
        letters: list[DeadLetter] = []
        size = 0
        for item in islice(read_range(part, self.feed.columns), taken, None):
            if size >= DECODED_BYTES:
                self._part = part, taken
                yield FeedBatch(batches, letters, published, READING.damaged_in(letters), oldest)
                batches, letters, size = [], [], 0
            taken += 1
            if isinstance(item, DeadLetter):
                letters.append(item)
                size += len(item.record)
            elif item.num_rows:
                metadata = {**(item.schema.metadata or {}), b"file": part.path.encode()}
                batches.append(item.replace_schema_metadata(metadata))
                size += item.nbytes
        self._part = None
        if isinstance(part, BadFile):
            self._bad.add(part.path)
        else:
            self._read[part.path] = part.stop
        yield FeedBatch(batches, letters, published, READING.damaged_in(letters), oldest)

    def _look(self) -> None:
        entries = {real(each.path): each for found in entries_of(self.feed.patterns) for each in found}
        parts: list[_Waiting] = []
        for name in sorted(entries.keys() - self._known):
            parts += self._found(entries[name])
        self._wait_for(parts)

    def _wait_for(self, parts: Sequence[_Waiting]) -> None:
        # Those that wait longer may be older.
        oldest = list(accumulate((each.published for each in reversed(parts)), min))
        self._waiting.extend(
            each._replace(oldest=least) for each, least in zip(parts, reversed(oldest), strict=True)
        )

    def _found(self, entry: Entry, stop: int | None = None) -> list[_Waiting]:
        """The parts of a file that are to be read; the first ends at ``stop``, if that is given."""
        parts = list(split_or_keep(sniff(absolute(entry.path), entry.size), RANGE_BYTES))
        # An empty file has no part, and may be about to be written.
        if parts:
            self._known.add(real(entry.path))
        published = int(1000 * entry.modified) or self.feed.clock()
        return [
            _Waiting(part, published)
            for part in self._unread(parts, stop)
            if isinstance(part, FileRange) or part.path not in self._bad
        ]

    def _unread(
        self, parts: Sequence[FileRange | BadFile], stop: int | None
    ) -> Sequence[FileRange | BadFile]:
        """The parts of a file but for its beginning that was read: it may have been appended to since."""
        ranges = [part for part in parts if isinstance(part, FileRange)]
        if not ranges:
            return parts
        last = ranges[-1]
        begin = self._read.get(last.path, 0)
        first, *others = [part for part in ranges if part.stop > begin] or [last._replace(start=last.stop)]
        try:
            if last.stop < max(begin, stop or 0) or (first.start < begin and not _is_appended(first, begin)):
                return [
                    BadFile(
                        last.path,
                        f"an earlier process read it up to {begin:,}, and it was rewritten since; write "
                        "reports into a new file",
                    )
                ]
        except (OSError, ValueError) as error:
            return [BadFile(last.path, str(error))]
        first = first._replace(start=max(first.start, begin))
        if stop is not None and stop < first.stop:
            return [first._replace(stop=stop), first._replace(start=stop), *others]
        return [first, *others] if first.start < first.stop else others

    @property
    def state(self) -> FeedState:
        return FeedState({0: None if self._waiting else self._silent})

    def position(self) -> Position:
        part = None
        if self._part is not None:
            range_, taken = self._part
            part = [range_.path, range_.stop if isinstance(range_, FileRange) else 0, taken]
        return {"read": dict(self._read), "bad": sorted(self._bad), "part": part}

    def close(self) -> None:
        self._waiting.clear()
        self._batches = iter(())


def _is_appended(part: FileRange, end: int) -> bool:
    """Whether a line or a block of a file ends at an offset, as where something was appended."""
    if part.format in ("jsonl.gz", "parquet"):
        return False
    with open_raw(part.path) as stream:
        if part.format == "avro":
            sync = read_header(stream).sync
            stream.seek(end - len(sync))
            return stream.read(len(sync)) == sync
        # A last line need not have an end, and then what is appended begins with it.
        stream.seek(end - 1)
        return b"\n" in stream.read(2)

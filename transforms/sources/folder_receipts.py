"""Files that an engine reads: the parts of them that it has committed are in a file of the run."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate

import pyarrow as pa

from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import DECODED_BYTES, FeedBatch, FeedState, OpenFeed, Position, elapsed
from ldpbeam.transforms.sources.files import BadFile, FileRange, absolute, entries_of, real, sniff
from ldpbeam.transforms.sources.folder import (
    LOOKING_SECONDS,
    RANGE_BYTES,
    FolderFeed,
    _damaged,
    _is_appended,
)
from ldpbeam.transforms.sources.read import read_range, split_or_keep
from ldpbeam.transforms.state.files import FILES


def done_before(output: str) -> tuple[str, ...]:
    """The parts of files that earlier runs into an output folder acknowledged, sorted."""
    # Sorted because an engine identifies a source by the bytes of its pickle.
    return tuple(sorted(set().union(*FILES.of_all_runs(output))))


class _Receipted(OpenFeed):
    def __init__(self, feed: FolderFeed) -> None:
        self.feed = feed
        self._known: set[str] = set()
        # A feed that is opened again in the same run continues.
        self._safe = set(FILES.read(feed.folder) or ())
        self._done = self._safe.union(feed.done)
        #: By (path, start), where a part ends that is acknowledged.
        self._ends = dict(filter(None, map(_span_of, self._done)))
        #: What is to be read, when it was written, and when the oldest was from it on, in milliseconds.
        self._waiting: deque[tuple[FileRange | BadFile, int, int]] = deque()
        self._looked = -LOOKING_SECONDS
        self._silent: int | None = None
        #: The batches of the range that is being read.
        self._batches: Iterator[FeedBatch] = iter(())

    def take(self) -> FeedBatch | None:
        batch = next(self._batches, None)
        if batch is not None:
            return batch
        if not self._waiting and time.monotonic() - self._looked >= LOOKING_SECONDS:
            begun = elapsed()
            self._look()
            self._silent = None if self._waiting else begun
            self._looked = time.monotonic()
        if not self._waiting:
            return None
        self._batches = self._read(*self._waiting.popleft())
        return next(self._batches)

    def _read(self, part: FileRange | BadFile, published: int, oldest: int) -> Iterator[FeedBatch]:
        """The batches of a range of a file; the last batch carries the receipt of the range."""
        batches: list[pa.RecordBatch] = []
        letters: list[DeadLetter] = []
        size = 0
        for item in read_range(part, self.feed.columns):
            if size >= DECODED_BYTES:
                yield FeedBatch(batches, letters, [], published, _damaged(part.path, letters), oldest)
                batches, letters, size = [], [], 0
            if isinstance(item, DeadLetter):
                letters.append(item)
                size += len(item.record)
            elif item.num_rows:
                metadata = {**(item.schema.metadata or {}), b"file": part.path.encode()}
                batches.append(item.replace_schema_metadata(metadata))
                size += item.nbytes
        damaged = _damaged(part.path, letters)
        yield FeedBatch(batches, letters, [_receipt(part)], published, damaged, oldest)

    def _look(self) -> None:
        try:
            found = entries_of(self.feed.patterns)
        except OSError as error:
            raise OSError(str(error)) from None
        entries = {real(entry.path): entry for of_pattern in found for entry in of_pattern}
        parts: list[tuple[FileRange | BadFile, int]] = []
        for name in sorted(entries.keys() - self._known):
            entry = entries[name]
            published = int(1000 * (entry.last_updated_in_seconds or time.time()))
            for part in split_or_keep(sniff(absolute(entry.path), entry.size_in_bytes), RANGE_BYTES):
                # An empty file has no part, and may be about to be written.
                self._known.add(name)
                unread = self._unread(part)
                if _receipt(unread) not in self._done:
                    parts.append((unread, published))
        # Those that wait longer may be older.
        oldest = accumulate((published for _, published in reversed(parts)), min)
        self._waiting.extendleft((*part, least) for part, least in zip(reversed(parts), oldest, strict=True))

    def _unread(self, part: FileRange | BadFile) -> FileRange | BadFile:
        """A part without its beginning that is acknowledged: its file has been appended to since."""
        if isinstance(part, BadFile):
            return part
        start = end = part.start
        while end < part.stop and (part.path, end) in self._ends:
            start, end = end, self._ends[part.path, end]
        if end == part.stop:
            return part._replace(start=start)
        try:
            if end == part.start or (end < part.stop and _is_appended(part, end)):
                return part._replace(start=end)
        except (OSError, ValueError) as error:
            return BadFile(part.path, str(error))
        return BadFile(
            part.path,
            f"an earlier run read it up to byte {end:,}, and it was written anew since; write reports into a "
            "new file",
        )

    @property
    def state(self) -> FeedState:
        return FeedState({0: None if self._waiting else self._silent})

    def position(self) -> Position:
        return {}

    def acknowledge(self, receipts: Sequence[str]) -> None:
        if not receipts:
            return
        self._safe.update(receipts)
        FILES.write(self.feed.folder, sorted(self._safe))

    def close(self) -> None:
        self._waiting.clear()
        self._batches = iter(())


def _span_of(receipt: str) -> tuple[tuple[str, int], int] | None:
    """(path, start) and the end of the part of a receipt; None for that of a file that could not be read."""
    named = re.fullmatch(r"(.*)#(\d+)-(\d+)", receipt, re.DOTALL)
    return ((named[1], int(named[2])), int(named[3])) if named else None


def _receipt(part: FileRange | BadFile) -> str:
    return part.path if isinstance(part, BadFile) else f"{part.path}#{part.start}-{part.stop}"

"""The blocks of Avro container files, found by their sizes and sync markers.

This module finds them, not fastavro, so that a file can be split and a corrupt block does not affect others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from ldpbeam.schemas.encodings.avro_headers import SYNC_SIZE, Header

#: The reason of dead letters of blocks and row groups that do not decode.
CORRUPT_BLOCK = "corrupt_block"
#: Files are read in steps of this many bytes where a block's size says that more is needed.
STEP_BYTES = 2**20
#: The most bytes of a range that the first read takes.
FIRST_BYTES = 2**25
#: The most records of a block; a larger count is corrupt.
MOST_RECORDS = 2**24
#: The most bytes of a block, in the file and plain.
MOST_BLOCK_BYTES = 2**25
#: The bytes before a block's data: two integers of at most ten bytes each.
_LONGEST_PREFIX = 20


@dataclass(frozen=True)
class Block:
    """A block of a container file, or a corrupt range of the file.

    Attributes:
        position: the byte offset at which it starts in the file.
        reports: how many records it claims to have; 1 if that is unknown.
        data: its compressed bytes, without prefix and marker; all bytes of a corrupt range.
        problem: why the range is corrupt; empty for a block.
        reason: the reason of its dead letter.
    """

    position: int
    reports: int
    data: bytes
    problem: str = ""
    reason: str = CORRUPT_BLOCK


class _Window:
    """The part of a file that is in memory; all positions are byte offsets in the file."""

    def __init__(self, stream: IO[bytes], start: int) -> None:
        self._stream = stream
        self.start = start
        self.data = bytearray()
        stream.seek(start)

    @property
    def end(self) -> int:
        """The byte offset after the last byte that has been read."""
        return self.start + len(self.data)

    def grow(self, size: int = STEP_BYTES) -> bool:
        """Read up to ``size`` more bytes; False at the end of the file."""
        more = self._stream.read(size)
        self.data += more
        return bool(more)

    def let_go(self, before: int) -> None:
        """Release the bytes before an offset, if they are at least ``STEP_BYTES``."""
        if before - self.start >= STEP_BYTES:
            del self.data[: before - self.start]
            self.start = before

    def between(self, start: int, stop: int) -> bytes:
        """The bytes in [start, stop) that are in memory."""
        return bytes(memoryview(self.data)[max(0, start - self.start) : max(0, stop - self.start)])

    def find(self, marker: bytes, at: int, stop: int | None = None) -> int:
        """The offset of the first marker from ``at`` on; -1 if there is none before about ``stop``.

        Further bytes are read as needed. The earlier ones are released once they are more than any block has.
        """
        while True:
            at_marker = self.data.find(marker, at - self.start)
            if at_marker >= 0:
                return self.start + at_marker
            at = max(at, self.end - len(marker) + 1)
            if len(self.data) > MOST_BLOCK_BYTES + 2 * STEP_BYTES:
                self.let_go(at)
            if (stop is not None and self.end >= stop) or not self.grow():
                return -1


def read_blocks(stream: IO[bytes], header: Header, start: int, stop: int) -> Iterator[Block]:
    """The blocks of a seekable stream whose preceding sync marker ends in [start, stop).

    So each block belongs to exactly one range. A corrupt range belongs to the range of the marker before it.
    Blocks behind a damaged marker are found by their sizes where these are consistent.
    """
    if start <= header.size:
        window, at = _Window(stream, header.size), header.size
        window.grow(min(max(0, stop - window.start), FIRST_BYTES))
    else:
        window = _Window(stream, start - SYNC_SIZE)
        window.grow(min(max(0, stop - window.start), FIRST_BYTES))
        marker = window.find(header.sync, window.start, stop)
        if marker < 0:
            return
        at = marker + SYNC_SIZE
    nothing = bytes(2) + header.sync
    while at < stop:
        window.let_go(at)
        if at >= window.end and not window.grow():
            return
        if window.data.startswith(nothing, at - window.start):
            at += len(nothing)
            continue
        end = _end_of_segment(window, at, header.sync)
        yield from _segment(window, at, end, header.sync)
        at = end + SYNC_SIZE


def _end_of_segment(window: _Window, at: int, sync: bytes) -> int:
    """The offset of the next sync marker; the end of the file if there is none."""
    if window.end - at < _LONGEST_PREFIX:
        window.grow()
    _, data_at, size = _read_prefix(window, at)
    if 0 <= size <= MOST_BLOCK_BYTES:
        end = data_at + size
        # A corrupt size may be larger than the file: a sync marker before the claimed end proves it wrong.
        looked = at
        while window.end < end + SYNC_SIZE:
            if window.data.find(sync, looked - window.start) >= 0:
                break
            looked = max(at, window.end - SYNC_SIZE + 1)
            if not window.grow(min(end + SYNC_SIZE - window.end, STEP_BYTES)):
                break
        if window.data.startswith(sync, end - window.start):
            return end
    marker = window.find(sync, at)
    return marker if marker >= 0 else window.end


def _read_prefix(window: _Window, at: int) -> tuple[int, int, int]:
    """(record count, offset of the data, size in bytes) of a block; size -1 if the prefix is malformed."""
    count, offset = 0, at - window.start
    try:
        count, offset = _read_long(window.data, offset)
        size, offset = _read_long(window.data, offset)
    except IndexError:
        return count, window.start + offset, -1
    return count, window.start + offset, size if count >= 0 else -1


def _segment(window: _Window, at: int, end: int, sync: bytes) -> Iterator[Block]:
    """The blocks between two sync markers: one, unless a marker in between is damaged."""
    if window.start > at:
        problem = f"no sync marker follows within {MOST_BLOCK_BYTES // 2**20} MB, more than a block may have"
        yield Block(at, 1, b"", problem)
        return
    count, data_at, size = _read_prefix(window, at)
    whole = window.data.startswith(sync, end - window.start)
    if whole and size >= 0 and data_at + size == end:
        yield Block(at, count, window.between(data_at, end), _too_large(size))
        return
    damaged = whole and _ends_in_a_block(window, at, end)
    while damaged and data_at + size < end:
        after = data_at + size + SYNC_SIZE
        known = count if 0 < count <= after - at else 1
        yield Block(at, known, window.between(at, after), "not followed by the file's sync marker")
        at = after
        count, data_at, size = _read_prefix(window, at)
    if damaged:
        yield Block(at, count, window.between(data_at, end), _too_large(size))
        return
    problem = (
        "not followed by the file's sync marker"
        if whole
        else "the file ends inside a block, or its last block is corrupt"
    )
    known = count if 0 < count <= (end - at if whole else MOST_RECORDS) else 1
    yield Block(at, known, window.between(at, end), problem)


def _too_large(size: int) -> str:
    most = MOST_BLOCK_BYTES // 2**20
    return f"it has more than {most} MB: write smaller blocks" if size > MOST_BLOCK_BYTES else ""


def _ends_in_a_block(window: _Window, at: int, end: int) -> bool:
    """Whether consecutive blocks fill [at, end) exactly, by their sizes."""
    while at < end:
        _, data_at, size = _read_prefix(window, at)
        if size < 0 or data_at + size > end:
            return False
        if data_at + size == end:
            return True
        at = data_at + size + SYNC_SIZE
    return False


def _read_long(data: bytearray, at: int) -> tuple[int, int]:
    """Avro's zigzag integer at index ``at`` of the data, and the index after it."""
    value, shift = 0, 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise IndexError("an integer of more than 64 bits")

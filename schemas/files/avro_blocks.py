"""The blocks of Avro container files, found by their sizes and sync markers.

They are found here and not by fastavro so that files can be split, and a corrupt block costs only itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from ldpbeam.schemas.files.avro_headers import SYNC_SIZE, Header

#: Files are read in steps of this many bytes where a block's size says that more is needed.
STEP_BYTES = 2**20
#: Of a range, this many bytes are read at once.
FIRST_BYTES = 2**25
#: No block has more records; a larger count is a corrupt one.
MOST_RECORDS = 2**24
#: No block takes more bytes of a file.
MOST_BLOCK_BYTES = 2**27
#: Two integers of at most ten bytes each stand before a block's data.
_LONGEST_PREFIX = 20


@dataclass(frozen=True)
class Block:
    """A block of a container file, or a stretch of it that is none.

    Attributes:
        position: where it starts in the file.
        reports: how many records it says it has; 1 where that is not known.
        data: its bytes, as the codec left them; the whole stretch where it is corrupt.
        problem: why it is no block, else empty.
    """

    position: int
    reports: int
    data: bytes
    problem: str = ""


class _Window:
    """The part of a file that is being looked at; places are offsets in the file."""

    def __init__(self, stream: IO[bytes], start: int) -> None:
        self._stream = stream
        self.start = start
        self.data = bytearray()
        stream.seek(start)

    @property
    def end(self) -> int:
        """What has been read ends here."""
        return self.start + len(self.data)

    def grow(self, size: int = STEP_BYTES) -> bool:
        """Read on; whether there was anything."""
        more = self._stream.read(size)
        self.data += more
        return bool(more)

    def let_go(self, before: int) -> None:
        """Forget what lies before a place."""
        if before - self.start >= STEP_BYTES:
            del self.data[: before - self.start]
            self.start = before

    def between(self, start: int, stop: int) -> bytes:
        """Some of what has been read."""
        return bytes(memoryview(self.data)[max(0, start - self.start) : max(0, stop - self.start)])

    def find(self, marker: bytes, at: int, stop: int | None = None) -> int:
        """Where a marker stands from ``at`` on, reading on as far as needed; -1 if nowhere before ``stop``.

        Where the way is longer than any block, what lies before it is forgotten.
        """
        while True:
            found = self.data.find(marker, at - self.start)
            if found >= 0:
                return self.start + found
            at = max(at, self.end - len(marker) + 1)
            if len(self.data) > MOST_BLOCK_BYTES + 2 * STEP_BYTES:
                self.let_go(at)
            if (stop is not None and self.end >= stop) or not self.grow():
                return -1


def read_blocks(stream: IO[bytes], header: Header, start: int, stop: int) -> Iterator[Block]:
    """The blocks of a seekable stream whose preceding sync marker ends in [start, stop).

    Every block is in one such range, a corrupt stretch in that of the marker before it, with the blocks in it
    that can be told although a marker is damaged.
    """
    if start <= header.size:
        window, at = _Window(stream, header.size), header.size
        window.grow(min(max(0, stop - window.start), FIRST_BYTES))
    else:
        window = _Window(stream, start - SYNC_SIZE)
        window.grow(min(max(0, stop - window.start), FIRST_BYTES))
        found = window.find(header.sync, window.start, stop)
        if found < 0:
            return
        at = found + SYNC_SIZE
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
    """Where the next sync marker stands; the end of the file if there is none."""
    _, data_at, size = _prefix(window, at)
    if 0 <= size <= MOST_BLOCK_BYTES:
        end = data_at + size
        # A corrupt size may claim the rest of the disk: a marker on the way proves it wrong.
        looked = at
        while window.end < end + SYNC_SIZE:
            if window.data.find(sync, looked - window.start) >= 0:
                break
            looked = max(at, window.end - SYNC_SIZE + 1)
            if not window.grow(min(end + SYNC_SIZE - window.end, STEP_BYTES)):
                break
        if window.data.startswith(sync, end - window.start):
            return end
    found = window.find(sync, at)
    return found if found >= 0 else window.end


def _prefix(window: _Window, at: int) -> tuple[int, int, int]:
    """(count, where the data starts, size) of a block; size -1 where there is no such prefix."""
    if window.end - at < _LONGEST_PREFIX:
        window.grow()
    return _read_prefix(window, at)


def _read_prefix(window: _Window, at: int) -> tuple[int, int, int]:
    count, place = 0, at - window.start
    try:
        count, place = _read_long(window.data, place)
        size, place = _read_long(window.data, place)
    except IndexError:
        return count, window.start + place, -1
    return count, window.start + place, size if count >= 0 else -1


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
    """Whether blocks stand from there on, one behind the other, up to the end of their segment."""
    while at < end:
        _, data_at, size = _read_prefix(window, at)
        if size < 0 or data_at + size > end:
            return False
        if data_at + size == end:
            return True
        at = data_at + size + SYNC_SIZE
    return False


def refuse_damaged_marker(stream: IO[bytes], header: Header) -> None:
    """Refuse a file whose blocks all end with another sync marker than its header has.

    Only the first two blocks are looked at.

    Raises:
        ValueError: if both end with the same marker, and it is not the header's.
    """
    first, at = _marker_behind(stream, header.size)
    if first is not None and first != header.sync and _marker_behind(stream, at)[0] == first:
        raise ValueError("the sync marker in its header is damaged: its blocks end with another one")


def _marker_behind(stream: IO[bytes], at: int) -> tuple[bytes | None, int]:
    """What stands where a block's sync marker should be, and where that ends; None beyond the file's end."""
    window = _Window(stream, at)
    window.grow(_LONGEST_PREFIX)
    _, data_at, size = _read_prefix(window, at)
    if size < 0 or size >= 2**62:
        return None, at
    stream.seek(data_at + size)
    marker = stream.read(SYNC_SIZE)
    return (marker if len(marker) == SYNC_SIZE else None), data_at + size + SYNC_SIZE


def _read_long(data: bytearray, at: int) -> tuple[int, int]:
    """Avro's zigzag integer at a place of some bytes, and where it ends."""
    value, shift = 0, 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise IndexError("an integer of more than 64 bits")

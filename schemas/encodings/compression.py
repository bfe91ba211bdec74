"""Plain bytes of compressed data, in pieces, so that memory is bounded whatever the data says.

Every codec of Avro is here, and gzip. Callers stop when they have as much as they permit: nothing is
decompressed before it is asked for, except in snappy, which declares its length first.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Protocol

import cramjam
import pyarrow as pa

#: No piece has more bytes.
PIECE_BYTES = 2**20
#: Codecs get compressed data in chunks of this size, because some copy whatever they did not use yet.
CHUNK_BYTES = 2**14
#: A stream that needs a larger window (xz, zstandard) or that is one piece by nature (snappy) is refused.
MOST_MEMORY = 2**27
#: Snappy's longest copy has 64 bytes and takes 3.
_SNAPPY_RATIO = 22


class TooLargeError(ValueError):
    """The plain bytes would be more than is permitted."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it would be more than {most / 2**20:,.0f} MB")


def pieces(codec: str, data: bytes) -> Iterator[bytes]:
    """The plain bytes of a block of an Avro file, in pieces of at most ``PIECE_BYTES``.

    Raises:
        ValueError: if the codec is not known, the data is not what it wrote, or it ends too early;
            possibly after some pieces.
    """
    if codec in ("null", "snappy"):
        whole = data if codec == "null" else _snappy(data, MOST_MEMORY)
        for start in range(0, len(whole), PIECE_BYTES):
            yield whole[start : start + PIECE_BYTES]
    elif codec == "deflate":
        # Some writers leave zlib's checksum behind the stream, so what follows it does not matter.
        yield from _inflated(_chunks(data), wbits=-15, members=False)
    elif codec == "bzip2":
        yield from _streams(_chunks(data), bz2.BZ2Decompressor)
    elif codec == "xz":
        yield from _streams(_chunks(data), lambda: lzma.LZMADecompressor(memlimit=MOST_MEMORY))
    elif codec == "zstandard":
        yield from _zstandard(data)
    else:
        raise ValueError(f"codec {codec!r} is not one of null, deflate, snappy, bzip2, xz, zstandard")


def plain(codec: str, data: bytes, most: int) -> bytes:
    """The plain bytes of a block of an Avro file.

    Args:
        codec: as in :func:`pieces`.
        data: the compressed bytes.
        most: how many plain bytes are permitted.

    Raises:
        TooLargeError: if there are more.
        ValueError: as in :func:`pieces`.
    """
    if codec == "null" and len(data) <= most:
        return data
    if codec == "snappy":
        return _snappy(data, most)
    parts = list(at_most(most, pieces(codec, data)))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def at_most(most: int, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Some pieces as they are.

    Raises:
        TooLargeError: when they have more than so many bytes.
    """
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            raise TooLargeError(most)
        yield part


def of_size(size: int, parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of ``size`` bytes each; the last has the rest."""
    held: list[bytes] = []
    length = 0
    for part in parts:
        held.append(part)
        length += len(part)
        if length >= size:
            joined = b"".join(held)
            for start in range(0, length - size + 1, size):
                yield joined[start : start + size]
            length %= size
            held = [joined[len(joined) - length :]]
    if length:
        yield b"".join(held)


def gzip_pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """The plain bytes of a gzip stream of one or more members, in pieces of at most ``PIECE_BYTES``.

    A member's checksum is compared when its last piece has been handed out.

    Raises:
        ValueError: if the stream is damaged or ends too early; possibly after some pieces.
    """
    yield from _inflated(iter(lambda: stream.read(CHUNK_BYTES), b""), wbits=31, members=True)


def _chunks(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


def _inflated(chunks: Iterable[bytes], *, wbits: int, members: bool) -> Iterator[bytes]:
    """Deflate's plain bytes; with ``members``, of all streams, with zero bytes between them."""
    inflater: Any = zlib.decompressobj(wbits)
    begun = False
    try:
        for chunk in chunks:
            while chunk:
                if members and not begun and not (chunk := chunk.lstrip(b"\0")):
                    break
                begun = True
                if part := inflater.decompress(chunk, PIECE_BYTES):
                    yield part
                chunk = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
                if inflater.eof:
                    if not members:
                        return
                    inflater, begun = zlib.decompressobj(wbits), False
        # What is left without any input fits into a few bits, and so are at most some kilobytes.
        if part := inflater.flush():
            yield part
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from None
    if (begun or not members) and not inflater.eof:
        raise ValueError("it ends too early")


class _Decompressor(Protocol):
    """What ``bz2`` and ``lzma`` have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _streams(chunks: Iterable[bytes], new: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """The plain bytes of all streams; as in the libraries, other bytes behind them are ignored."""
    current, ended, begun = new(), 0, False
    try:
        for chunk in chunks:
            while chunk or (begun and not current.needs_input):
                begun = True
                part = current.decompress(chunk, PIECE_BYTES)
                chunk = b""
                if part:
                    yield part
                if current.eof:
                    chunk, current, ended, begun = current.unused_data, new(), ended + 1, False
    except (OSError, lzma.LZMAError) as error:
        if not ended:
            raise ValueError(f"it is damaged: {error}") from None
        return
    if begun or not ended:
        raise ValueError("it ends too early")


def _snappy(data: bytes, most: int) -> bytes:
    """The plain bytes of a block of snappy, whose checksum follows it."""
    packed, checksum = data[:-4], data[-4:]
    length = _declared(packed)
    if length > min(most, MOST_MEMORY):
        raise TooLargeError(min(most, MOST_MEMORY))
    if length > _SNAPPY_RATIO * len(packed):
        raise ValueError(f"it declares {length} bytes, more than {len(packed)} can hold")
    try:
        found = bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise ValueError(f"it is damaged: {error}") from None
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum does not fit")
    return found


def _declared(packed: bytes) -> int:
    """The length that a block of snappy begins with."""
    length = 0
    for place, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return length
    raise ValueError("it is damaged: it has no length")


def _zstandard(data: bytes) -> Iterator[bytes]:
    """The plain bytes of frames of zstandard; Arrow refuses windows of more than 128 MB."""
    stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    try:
        while part := stream.read(PIECE_BYTES):
            yield part
    except OSError as error:
        raise ValueError(f"it is damaged: {error}") from None

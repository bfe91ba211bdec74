"""Decompression in pieces with bounded memory: every codec of Avro, and gzip.

A piece is decompressed only when the caller asks for it, so a caller can stop at its limit. Snappy is
decompressed as a whole, after its declared length has been checked.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import cramjam
import pyarrow as pa

#: The most bytes of a piece.
PIECE_BYTES = 2**20
#: Codecs get compressed data in chunks of this size, because some copy all data that they have not used yet.
CHUNK_BYTES = 2**14
#: The most bytes of a decompression window (xz, zstandard), and of a block that is one piece (snappy).
MOST_MEMORY = 2**27
#: More than snappy's largest ratio: its longest copy gives 64 bytes and is encoded in 3.
_SNAPPY_RATIO = 22


class TooLargeError(ValueError):
    """There are more plain bytes than permitted."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it would be more than {most / 2**20:,.0f} MB")


def pieces(codec: str, data: bytes) -> Iterator[bytes]:
    """The plain bytes of a block of an Avro file, in pieces of at most ``PIECE_BYTES``.

    Raises:
        ValueError: if the codec is unknown, or the data is damaged or ends too early; possibly after some
            pieces.
    """
    if codec in ("null", "snappy"):
        whole = data if codec == "null" else _snappy(data, MOST_MEMORY)
        for start in range(0, len(whole), PIECE_BYTES):
            yield whole[start : start + PIECE_BYTES]
    elif codec == "deflate":
        # Some writers leave zlib's checksum behind the stream, so bytes after the stream are ignored.
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
        TooLargeError: if there are more plain bytes.
        ValueError: as in :func:`pieces`.
    """
    if codec == "null" and len(data) <= most:
        return data
    if codec == "snappy":
        return _snappy(data, most)
    parts = list(at_most(most, pieces(codec, data)))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def at_most(most: int, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Pass pieces on, unchanged.

    Raises:
        TooLargeError: when the pieces have more than ``most`` bytes together.
    """
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            raise TooLargeError(most)
        yield part


def gzip_pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """The plain bytes of a gzip stream of one or more members, in pieces of at most ``PIECE_BYTES``.

    A member's checksum is compared after its last piece has been yielded.

    Raises:
        ValueError: if the stream is damaged or ends too early; possibly after some pieces.
    """
    yield from _inflated(iter(lambda: stream.read(CHUNK_BYTES), b""), wbits=31, members=True)


def _chunks(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


def _inflated(chunks: Iterable[bytes], *, wbits: int, members: bool) -> Iterator[bytes]:
    """The plain bytes of one deflate stream; with ``members``, of all streams, without zeros between them."""
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
        # Only a few bits of input are left here, so these are at most some kilobytes.
        if part := inflater.flush():
            yield part
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from None
    if (begun or not members) and not inflater.eof:
        raise ValueError("it ends too early")


def _streams(chunks: Iterable[bytes], new: Callable[[], Any]) -> Iterator[bytes]:
    """The plain bytes of all streams; other bytes after a stream are ignored, as bz2 and lzma ignore them."""
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
    """The plain bytes of a snappy block, which ends with its CRC-32."""
    packed, checksum = data[:-4], data[-4:]
    length = _declared(packed)
    if length > min(most, MOST_MEMORY):
        raise TooLargeError(min(most, MOST_MEMORY))
    if length > _SNAPPY_RATIO * len(packed):
        raise ValueError(f"it declares {length} bytes, more than {len(packed)} can hold")
    try:
        unpacked = bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise ValueError(f"it is damaged: {error}") from None
    if zlib.crc32(unpacked) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum does not fit")
    return unpacked


def _declared(packed: bytes) -> int:
    """The plain length that a snappy block declares in its first bytes."""
    length = 0
    for index, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return length
    raise ValueError("it is damaged: it has no length")


def _zstandard(data: bytes) -> Iterator[bytes]:
    """The plain bytes of zstandard frames; Arrow refuses windows of more than 128 MB."""
    stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    try:
        while part := stream.read(PIECE_BYTES):
            yield part
    except OSError as error:
        raise ValueError(f"it is damaged: {error}") from None

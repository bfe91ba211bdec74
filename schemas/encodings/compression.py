"""Decompression with bounded memory: every codec of Avro, and gzip in pieces.

Snappy is decompressed after its declared length has been checked, and others up to the permitted length.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import cramjam
import pyarrow as pa

#: The most bytes of a piece.
PIECE_BYTES = 2**20
#: zlib gets compressed data in chunks of this size, because it copies all data that it has not used yet.
CHUNK_BYTES = 2**14
#: The most bytes of a decompression window (xz, zstandard), and of a block that is one piece (snappy).
MOST_MEMORY = 2**27
#: More than snappy's largest ratio: its longest copy gives 64 bytes and is encoded in 3.
_SNAPPY_RATIO = 22
#: Some writers leave zlib's checksum behind the stream, so bytes after a stream are ignored.
_STREAMS: Mapping[str, Callable[[], Any]] = {
    "deflate": lambda: zlib.decompressobj(-15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=MOST_MEMORY),
}


class TooLargeError(ValueError):
    """There are more plain bytes than permitted."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it would be more than {most / 2**20:,.0f} MB")


def plain(codec: str, data: bytes, most: int) -> bytes:
    """The plain bytes of a block of an Avro file.

    Args:
        codec: null, deflate, snappy, bzip2, xz or zstandard.
        data: the compressed bytes.
        most: how many plain bytes are permitted.

    Raises:
        TooLargeError: if there are more plain bytes.
        ValueError: if the codec is unknown, or the data is damaged or ends too early.
    """
    try:
        if codec == "snappy":
            return _snappy(data, most)
        if codec in _STREAMS:
            stream = _STREAMS[codec]()
            whole: bytes = stream.decompress(data, most + 1)
            if len(whole) <= most and not stream.eof:
                raise ValueError("it ends too early")
        elif codec == "zstandard":
            # Arrow refuses windows of more than 128 MB.
            whole = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(most + 1)
        elif codec == "null":
            whole = data
        else:
            raise ValueError(f"codec {codec!r} is not one of null, snappy, {', '.join(_STREAMS)}, zstandard")
    except (OSError, zlib.error, lzma.LZMAError, cramjam.DecompressionError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    if len(whole) > most:
        raise TooLargeError(most)
    return whole


def gzip_pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """The plain bytes of a gzip stream of one or more members, in pieces of at most ``PIECE_BYTES``.

    A member's checksum is compared after its last piece has been yielded.

    Raises:
        ValueError: if the stream is damaged or ends too early; possibly after some pieces.
    """
    inflater, begun = zlib.decompressobj(31), False
    try:
        while chunk := stream.read(CHUNK_BYTES):
            # There may be zeros between members.
            while chunk := chunk if begun else chunk.lstrip(b"\0"):
                begun = True
                if part := inflater.decompress(chunk, PIECE_BYTES):
                    yield part
                chunk = inflater.unconsumed_tail
                if inflater.eof:
                    chunk, inflater, begun = inflater.unused_data, zlib.decompressobj(31), False
        # Only a few bits of input are left here, so these are at most some kilobytes.
        if part := inflater.flush():
            yield part
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from None
    if begun and not inflater.eof:
        raise ValueError("it ends too early")


def _snappy(data: bytes, most: int) -> bytes:
    """The plain bytes of a snappy block, which ends with its CRC-32."""
    packed, checksum = data[:-4], data[-4:]
    length = cramjam.snappy.decompress_raw_len(packed)
    if length > min(most, MOST_MEMORY):
        raise TooLargeError(min(most, MOST_MEMORY))
    if length > _SNAPPY_RATIO * len(packed):
        raise ValueError(f"it declares {length} bytes, more than {len(packed)} can hold")
    unpacked = bytes(cramjam.snappy.decompress_raw(packed))
    if zlib.crc32(unpacked) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum does not fit")
    return unpacked

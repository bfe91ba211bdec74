"""Every codec gives what was compressed, and never more than is permitted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zlib
from collections.abc import Callable

import cramjam
import pytest
import zstandard

from ldpbeam.schemas.encodings import compression


def deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")


PACK: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes, "deflate": deflate, "snappy": snappy, "bzip2": bz2.compress, "xz": lzma.compress,
    "zstandard": zstandard.compress,
}  # fmt: skip
PLAIN = {
    "nothing": b"",
    "few bytes": b"a few bytes",
    "noise": random.Random(1).randbytes(300_000),
    "runs": random.Random(2).randbytes(1_000) + bytes(3 * 2**20 + 5) + b"the end",
}


@pytest.mark.parametrize("codec", PACK)
@pytest.mark.parametrize("kind", PLAIN)
def test_every_codec_gives_what_was_compressed(codec: str, kind: str) -> None:
    data = PLAIN[kind]
    assert compression.plain(codec, PACK[codec](data), len(data)) == data


@pytest.mark.parametrize("codec", PACK)
def test_no_codec_gives_more_than_is_permitted(codec: str) -> None:
    data = PLAIN["runs"]
    with pytest.raises(compression.TooLargeError, match=r"it would be more than \d+ MB"):
        compression.plain(codec, PACK[codec](data), len(data) - 1)


@pytest.mark.parametrize("codec", ["deflate", "snappy", "bzip2", "xz", "zstandard"])
@pytest.mark.parametrize("kept", [-1, -9, 200, 1])
def test_what_is_cut_short_or_is_something_else_is_a_value_error(codec: str, kept: int) -> None:
    packed = PACK[codec](PLAIN["noise"])
    for bad in (packed[:kept], b"\xff" * 100):
        with pytest.raises(ValueError, match=r"it ends too early|it is damaged|checksum|it declares"):
            compression.plain(codec, bad, 2**30)


def test_bytes_behind_a_deflate_stream_do_not_matter() -> None:
    assert (
        compression.plain("deflate", zlib.compress(b"some writers do this")[2:-1], 99)
        == b"some writers do this"
    )


def test_windows_of_more_than_128_mb_are_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**28}]
    with pytest.raises(ValueError, match=r"it is damaged: Memory usage limit exceeded"):
        compression.plain("xz", lzma.compress(b"small", filters=filters), 2**20)
    parameters = zstandard.ZstdCompressionParameters(window_log=30, compression_level=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = compressor.compress(bytes(2**21)) + compressor.flush()
    with pytest.raises(ValueError, match="too much memory"):
        compression.plain("zstandard", packed, 2**30)


def test_snappy_may_not_declare_more_than_it_can_hold() -> None:
    with pytest.raises(ValueError, match="it declares 100000000 bytes, more than 15 can hold"):
        compression.plain("snappy", b"\x80\xc2\xd7\x2f" + bytes(15), 2**30)
    with pytest.raises(compression.TooLargeError):
        compression.plain("snappy", b"\xff\xff\xff\xff\x0f" + bytes(15), 2**62)


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(
        ValueError, match="codec 'brotli' is not one of null, snappy, deflate, bzip2, xz, zstandard"
    ):
        compression.plain("brotli", b"", 1)


def test_gzip_members_follow_each_other_with_zeros_between_and_behind_them() -> None:
    data = PLAIN["runs"]
    stream = gzip.compress(data) + bytes(7) + gzip.compress(b"") + gzip.compress(b"more") + bytes(20_000)
    parts = list(compression.gzip_pieces(io.BytesIO(stream)))
    assert b"".join(parts) == data + b"more"
    assert all(0 < len(part) <= compression.PIECE_BYTES for part in parts)
    assert list(compression.gzip_pieces(io.BytesIO(b""))) == []


@pytest.mark.parametrize("wrong", ["cut", "checksum", "something else behind it"])
def test_a_damaged_gzip_stream_is_a_value_error(wrong: str) -> None:
    packed = bytearray(gzip.compress(PLAIN["noise"]))
    if wrong == "checksum":
        packed[-6] ^= 1
    else:
        packed = packed[:-3] if wrong == "cut" else packed + b"else"
    with pytest.raises(ValueError, match=r"it ends too early|it is damaged"):
        list(compression.gzip_pieces(io.BytesIO(bytes(packed))))

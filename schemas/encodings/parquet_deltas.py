"""How many lengths a page of texts declares: Arrow writes as many, whatever the page header says."""

from __future__ import annotations

import pyarrow as pa

#: How Arrow calls the codecs of Parquet.
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
#: A page of texts whose lengths are written as differences has at most so many.
MOST_VALUES = 2**22
#: Values and parts of a block of differences: 128 and 4 in all known writers.
_MOST_BLOCK = 2**16
_BITS = 32


def unpacked(data: bytes, codec: int, plain: int) -> bytes:
    """A page's plain bytes, of which there are as many as its header says.

    Raises:
        ValueError: if the codec is not known.
        OSError: if the bytes are not what the codec wrote, or are more.
    """
    if codec == 0:
        return data
    if codec not in _CODECS:
        raise ValueError(f"the codec {codec} is not read for pages of differences")
    if not plain:
        return b""
    return bytes(pa.Codec(_CODECS[codec]).decompress(data, decompressed_size=plain, asbytes=True))


def refuse_lengths(data: bytes, values: int, *, levels: bool, prefixes: bool) -> None:
    """See that a page has no more lengths than values.

    Args:
        data: the plain bytes of the page; without its levels if it is one of the second version.
        values: how many values its header says.
        levels: whether levels come first, behind their length.
        prefixes: whether the lengths of prefixes come before those of the values.

    Raises:
        ValueError: if it has more, or too many.
    """
    if values > MOST_VALUES:
        raise ValueError(f"a page would have {values:,} texts: at most {MOST_VALUES:,} are read")
    try:
        at = 4 + int.from_bytes(data[:4], "little") if levels else 0
        if prefixes:
            at = _skipped(data, at, values)
        _skipped(data, at, values)
    except IndexError:
        raise ValueError("a page ends inside its lengths") from None


def _skipped(data: bytes, at: int, values: int) -> int:
    """Where some packed differences end that begin somewhere."""
    if at == len(data) and not values:
        return at
    block, at = _varint(data, at)
    parts, at = _varint(data, at)
    count, at = _varint(data, at)
    _, at = _varint(data, at)
    if count > values or not 0 < block <= _MOST_BLOCK or not 0 < parts <= block or block % (32 * parts):
        raise ValueError(f"a page of {values:,} texts would have {count:,} lengths, in blocks of {block:,}")
    left = count - 1
    while left > 0:
        _, at = _varint(data, at)
        widths = data[at : at + parts]
        at += parts
        for width in widths[: -(-left * parts // block)]:
            if width > _BITS:
                raise ValueError(f"a difference would have {width} bits")
            at += block // parts * width // 8
        left -= block
    if at > len(data):
        raise IndexError
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of at most 64 bits, and where it ends."""
    found = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    raise ValueError("a number has too many bytes")

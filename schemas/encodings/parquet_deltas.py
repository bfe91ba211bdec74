"""Checks of delta-encoded pages of text, before Arrow decodes them.

Arrow writes as many lengths as the page's data declares, even if the page header declares fewer values.
"""

from __future__ import annotations

import pyarrow as pa

#: Arrow's names of Parquet's codecs.
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
#: The most values of a delta-encoded page of text.
MOST_VALUES = 2**22
#: The most values of a block of differences; all known writers have 128, in 4 parts.
_MOST_BLOCK = 2**16
_BITS = 32


def unpacked(data: bytes, codec: int, plain: int) -> bytes:
    """A page's plain bytes.

    Args:
        data: the page's compressed bytes.
        codec: the number of Parquet's codec.
        plain: the number of plain bytes that the page header declares.

    Raises:
        ValueError: if the codec is unknown.
        OSError: if the data is damaged, or has more plain bytes.
    """
    if codec == 0:
        return data
    if codec not in _CODECS:
        raise ValueError(f"the codec {codec} is not read for pages of differences")
    if not plain:
        return b""
    return bytes(pa.Codec(_CODECS[codec]).decompress(data, decompressed_size=plain, asbytes=True))


def refuse_lengths(data: bytes, values: int, *, levels: bool, prefixes: bool) -> None:
    """Check that a page has no more lengths than values.

    Args:
        data: the plain bytes of the page; for a page of version 2, without its levels.
        values: the number of values that the page header declares.
        levels: whether the data begins with the length of the levels and the levels.
        prefixes: whether the lengths of prefixes come before those of the values.

    Raises:
        ValueError: if the page has more lengths than values, more than :data:`MOST_VALUES` values, or ends
            inside its lengths.
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
    """The index after the packed differences that begin at ``at``.

    Raises:
        ValueError: if there are more than ``values`` differences, or their blocks are malformed.
        IndexError: if the data ends inside them.
    """
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
    """The unsigned variable-length integer at ``at``, and the index after it."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number has too many bytes")

"""Lengths of texts in differences are counted, and pages unpacked in bounds, before Arrow decodes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.parquet_bytes import deltas, varint

from ldpbeam.schemas.encodings.parquet_deltas import MOST_VALUES, refuse_lengths, unpacked


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=300))
def test_a_page_has_as_many_lengths_as_values_to_its_last_byte(lengths: list[int]) -> None:
    data, values = deltas(np.array(lengths)), len(lengths)
    for page, levels, prefixes in (
        (data, False, False),
        (data + data, False, True),
        (b"\3\0\0\0" + bytes(3) + data, True, False),
    ):
        refuse_lengths(page, values, levels=levels, prefixes=prefixes)
        with pytest.raises(ValueError, match=f"would have {values:,} lengths"):
            refuse_lengths(page, values - 1, levels=levels, prefixes=prefixes)
        with pytest.raises(ValueError, match="ends inside its lengths"):
            refuse_lengths(page[:-1], values, levels=levels, prefixes=prefixes)


@pytest.mark.parametrize(
    ("block", "parts", "behind", "sentence"),
    [
        (0, 1, b"", "in blocks of 0"),
        (128, 0, b"", "in blocks of 128"),
        (32, 64, b"", "in blocks of 32"),
        (100, 1, b"", "in blocks of 100"),
        (2**16 + 32, 1, b"", "in blocks of 65,568"),
        (128, 1, b"\0" + bytes([33]), "a difference would have 33 bits"),
        (128, 1, b"\xff" * 10, "a number has too many bytes"),
    ],
)
def test_blocks_that_no_writer_makes_are_refused(
    block: int, parts: int, behind: bytes, sentence: str
) -> None:
    data = varint(block) + varint(parts) + varint(9) + varint(0) + behind
    with pytest.raises(ValueError, match=sentence):
        refuse_lengths(data, 9, levels=False, prefixes=False)


def test_a_page_has_no_more_texts_than_are_read_and_may_have_none() -> None:
    with pytest.raises(ValueError, match="a page would have 4,194,305 texts"):
        refuse_lengths(b"", MOST_VALUES + 1, levels=False, prefixes=False)
    refuse_lengths(b"", 0, levels=False, prefixes=True)


@pytest.mark.parametrize(
    ("codec", "name"), [(1, "snappy"), (2, "gzip"), (4, "brotli"), (6, "zstd"), (7, "lz4_raw")]
)
def test_pages_are_unpacked_to_as_many_bytes_as_they_declare(codec: int, name: str) -> None:
    plain = bytes(range(256)) * 4
    packed = pa.compress(plain, name, asbytes=True)
    assert unpacked(packed, codec, len(plain)) == unpacked(plain, 0, len(plain)) == plain
    assert unpacked(packed, codec, 0) == b""
    with pytest.raises((OSError, ValueError)):
        unpacked(packed[:-9], codec, len(plain))
    with pytest.raises(ValueError, match="the codec 3 is not read"):
        unpacked(packed, 3, len(plain))

"""Whatever the pages and the footer of a Parquet file say, decoding adds at most 512 MB."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.bounded import Decoded, bounded, decode_file
from support.parquet_bytes import (
    CODES,
    DELTA,
    DELTA_LENGTH,
    FIXED_LENGTH,
    STRUCT,
    Column,
    deltas,
    dictionary,
    file_of,
    page,
    struct,
    varint,
    zeros,
)

GIGABYTE = 2**30


def decoded(data: bytes, folder: Path) -> Decoded:
    (folder / "file.parquet").write_bytes(data)
    return bounded(decode_file, folder / "file.parquet")


def refused(data: bytes, folder: Path, why: str) -> None:
    found = decoded(data, folder)
    assert found.reports == 0
    assert set(found.bad) <= {"bad_file", "corrupt_block"}
    assert why in found.problems[0]


def texts(*values: bytes) -> bytes:
    return b"".join(len(value).to_bytes(4, "little") + value for value in values)


def packed_bytes(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


@functools.cache
def packed(codec: str, size: int) -> bytes:
    """Zero bytes."""
    if codec == "gzip":
        return gzip.compress(bytes(size), 1)
    return pa.Codec(codec).compress(pa.py_buffer(bytes(size)), asbytes=True)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_page_that_inflates_to_a_gigabyte_is_damage(codec: str, version: int, tmp_path: Path) -> None:
    whole = page(packed(codec, GIGABYTE), 2**16, plain=GIGABYTE, version=version)
    refused(
        file_of([Column("user_id", whole, codec)], 2**16), tmp_path, "a page would have 1,073,741,824 bytes"
    )


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_dictionary_that_inflates_to_a_gigabyte_is_damage(codec: str, tmp_path: Path) -> None:
    pages = dictionary(packed(codec, GIGABYTE), 2**20, plain=GIGABYTE) + page(
        packed(codec, 2), 1, CODES, plain=2
    )
    refused(file_of([Column("user_id", pages, codec)], 1), tmp_path, "a page would have 1,073,741,824 bytes")


@pytest.mark.parametrize("plain", [2**31 - 1, -1])
def test_a_page_that_says_another_size_than_it_has_is_damage(plain: int, tmp_path: Path) -> None:
    whole = page(packed("zstd", 64), 16, plain=plain)
    refused(file_of([Column("user_id", whole, "zstd")], 16), tmp_path, "a page would have")
    less = page(packed("zstd", 2**28), 16, plain=64)
    refused(file_of([Column("user_id", less, "zstd")], 16), tmp_path, "it does not decode: ")


def test_pages_of_many_columns_are_not_large_together(tmp_path: Path) -> None:
    whole = page(packed("zstd", 2**25), 16, plain=2**25)
    columns = [Column(name, whole, "zstd") for name in ("user_id", "attribute", "service")]
    refused(file_of(columns, 16), tmp_path, "its largest pages would have")


def test_texts_that_each_repeat_the_one_before_are_read_few_at_a_time(tmp_path: Path) -> None:
    size, count = 2**16, 50_000
    lengths = np.array([size] + [0] * (count - 1))
    prefixes = np.array([0] + [size] * (count - 1))
    data = deltas(prefixes) + deltas(lengths) + b"a" * size
    found = decoded(file_of([Column("user_id", page(data, count, DELTA))], count), tmp_path)
    assert found == Decoded(count, {}, 0, [])


def test_many_lengths_of_few_values_are_damage(tmp_path: Path) -> None:
    bomb = zeros(GIGABYTE)
    why = "would have 1,073,741,824 lengths"
    for version in (1, 2):
        for encoding, data in ((DELTA_LENGTH, bomb), (DELTA, bomb), (DELTA, zeros(5) + bomb)):
            whole = page(data, 5, encoding, version=version)
            refused(file_of([Column("user_id", whole)], 5), tmp_path, why)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_texts_in_differences_are_read_as_written(
    encoding: str, version: str, codec: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    users = [None if rng.random() < 0.1 else "u" * int(rng.integers(300)) for _ in range(3_000)]
    pq.write_table(
        pa.table({"user_id": pa.array(users), "payload": np.zeros(3_000)}),
        tmp_path / "file.parquet",
        use_dictionary=False,
        column_encoding={"user_id": encoding, "payload": "PLAIN"},
        compression=codec,
        data_page_version=version,
    )
    assert bounded(decode_file, tmp_path / "file.parquet") == Decoded(3_000, {}, 0, [])


def test_small_pages_of_long_texts_are_not_one_batch(tmp_path: Path) -> None:
    whole = page(pa.compress(texts(bytes(2**16)), "zstd", asbytes=True), 1, plain=2**16 + 4)
    found = decoded(file_of([Column("user_id", whole * 20_000, "zstd")], 20_000), tmp_path)
    # More plain bytes than are permitted for so few compressed ones is damage; else it is read in parts.
    assert found.reports == 20_000 or "too many for" in found.problems[0]
    rng = np.random.default_rng(1)
    noise = texts(rng.bytes(100) + bytes(2**16))
    whole = page(pa.compress(noise, "zstd", asbytes=True), 1, plain=len(noise))
    found = decoded(file_of([Column("user_id", whole * 20_000, "zstd")], 20_000), tmp_path)
    assert found == Decoded(20_000, {}, 0, [])


def test_missing_values_of_a_wide_type_are_read_few_at_a_time(tmp_path: Path) -> None:
    levels = varint(10_000 << 1) + b"\0"
    # The bytes behind the levels are there so that the file has a byte for every eight reports.
    whole = page(len(levels).to_bytes(4, "little") + levels + bytes(1_250), 10_000)
    column = Column("user_id", whole, kind=FIXED_LENGTH, width=2**16, nullable=True)
    assert decoded(file_of([column], 10_000), tmp_path) == Decoded(10_000, {}, 0, [])
    column = column._replace(width=2**30)
    refused(file_of([column], 10_000), tmp_path, "its pages are too large for")


@pytest.mark.parametrize("size", [20_000_000, 67_000_000])
def test_a_text_as_large_as_a_page_may_be_is_read(size: int, tmp_path: Path) -> None:
    noise = texts(np.random.default_rng(1).bytes(100_000) + bytes(size - 100_000))
    whole = page(packed_bytes(noise), 1, plain=len(noise))
    found = decoded(file_of([Column("user_id", whole * 3, "zstd")], 3), tmp_path)
    assert found == Decoded(3, {}, 0, [])


def test_dictionaries_as_large_as_a_page_may_be_are_read(tmp_path: Path) -> None:
    code = bytes([1]) + varint(100_000 << 1) + b"\0" + np.random.default_rng(1).bytes(12_500)
    for values in ([bytes(60_000_000)], [b"%09d" % number for number in range(2_000_000)]):
        noise = texts(*values)
        pages = dictionary(packed_bytes(noise), len(values), len(noise)) + page(
            packed_bytes(code), 100_000, CODES, plain=len(code)
        )
        found = decoded(file_of([Column("user_id", pages, "zstd")], 100_000), tmp_path)
        if len(values) > 1:
            assert found == Decoded(100_000, {}, 0, [])
        else:
            assert found.bad["corrupt_block"] == 100_000
            assert "its values would have more than" in found.problems[0]


@pytest.mark.parametrize("store_schema", [True, False])
def test_a_dictionary_behind_other_pages_is_damage(store_schema: bool, tmp_path: Path) -> None:
    code = bytes([1]) + varint(2_000_000 << 1) + bytes(250_000)
    pages = page(texts(b"ann"), 1) + dictionary(texts(bytes(2**16)), 1) + page(code, 2_000_000, CODES)
    refused(file_of([Column("user_id", pages)], 2_000_001), tmp_path, "a dictionary page follows other pages")
    pages = dictionary(texts(bytes(2**16)), 1) + page(texts(b"ann"), 1) + page(code, 2_000_000, CODES)
    refused(file_of([Column("user_id", pages)], 2_000_001), tmp_path, "follows one that does not")


def test_a_footer_of_a_million_columns_is_damage(tmp_path: Path) -> None:
    chunks = struct({2: (6, 0), 3: (STRUCT, struct({1: (5, 1)}))}) * 2_000_000
    footer = struct({1: (5, 1), 3: (6, 0), 4: (9, b"\x1c\x19\xfc" + varint(2_000_000) + chunks + b"\0")})
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    refused(data, tmp_path, "too many parts")


def test_row_groups_that_share_their_pages_are_damage(tmp_path: Path) -> None:
    data = file_of([Column("user_id", page(texts(b"ann" * 100), 1))], 1, groups=100)
    refused(data, tmp_path, "more bytes than the file")

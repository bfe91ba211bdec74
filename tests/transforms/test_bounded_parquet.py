"""Whatever a Parquet file holds whose pages agree with its footer, decoding adds at most 512 MB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.bounded import Decoded, bounded, decode_file

from ldpbeam.schemas.reports.casts import binary_of_width

MEGABYTE = 10**6
RNG = np.random.default_rng(1)


def noise(count: int, size: int) -> pa.Array:
    return binary_of_width(RNG.integers(0, 256, (count, size), np.uint8))


def repeated(values: pa.Array, count: int) -> pa.Array:
    """So many of some values, in a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(count, dtype=np.int32) % len(values)), values)


def zeros(count: int, size: int) -> pa.Array:
    return pa.array([bytes(size) + b"%d" % number for number in range(count)], pa.binary())


def read(users: pa.Array, folder: Path, others: dict[str, Any] | None = None, **options: Any) -> Decoded:
    columns = {"user_id": users, "payload": np.zeros(len(users)), **(others or {})}
    pq.write_table(pa.table(columns), folder / "file.parquet", **{"row_group_size": 2**22, **options})
    return bounded(decode_file, folder / "file.parquet")


PLAIN = {"use_dictionary": False}
#: Some are read, and others are too large.
READ: dict[str, tuple[Any, Any]] = {
    "a row group of 120 MB": (lambda: noise(3_000_000, 40), PLAIN),
    "large values": (lambda: noise(20_000, 10_000), PLAIN),
    "large values that compress": (lambda: zeros(100, MEGABYTE), PLAIN),
    "a few large values among small ones": (
        lambda: pa.concat_arrays([noise(10**6, 16), zeros(50, 2 * MEGABYTE)]),
        PLAIN,
    ),
    "pages of 8 MB": (lambda: noise(500_000, 40), {**PLAIN, "data_page_size": 2**23}),
    "a dictionary of large values": (lambda: repeated(zeros(60, MEGABYTE), 1_000), {}),
    "texts that repeat the one before": (
        lambda: pa.array(["a" * 2**16 + str(number) for number in range(3_000)]),
        {**PLAIN, "column_encoding": {"user_id": "DELTA_BYTE_ARRAY"}},
    ),
    "missing values of a wide type": (
        lambda: pa.array([*[None] * 10_000, RNG.bytes(2**16)], pa.binary(2**16)),
        PLAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_large_files_are_read(name: str, tmp_path: Path) -> None:
    users, options = READ[name]
    assert read(column := users(), tmp_path, **options) == Decoded(len(column), {}, 0, [])


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a page of 100 MB": (lambda: noise(100, MEGABYTE), PLAIN, "a batch needs more than 64 MB"),
    "values that compress to nothing": (lambda: zeros(200, MEGABYTE), PLAIN, "more than in the file"),
    "a large dictionary": (lambda: repeated(zeros(100, MEGABYTE), 500), {}, "a dictionary would have"),
    "a large dictionary that does not compress": (
        lambda: repeated(noise(40, 2 * MEGABYTE), 1_000),
        {},
        "a dictionary would have",
    ),
    "a large value very often": (
        lambda: repeated(zeros(1, 50 * MEGABYTE), 1_000),
        {},
        "its values would have more than",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_too_large_is_damage(name: str, tmp_path: Path) -> None:
    users, options, why = REFUSED[name]
    column = users()
    found = read(column, tmp_path, **options)
    assert (found.reports, found.bad) == (0, {"corrupt_block": len(column)})
    assert why in found.problems[0]


def test_columns_that_nobody_reads_cost_nothing(tmp_path: Path) -> None:
    texts = pa.array(["x" * MEGABYTE] * 300).dictionary_encode()
    nested = pa.array([[{"a": "x" * 10_000}] * 3] * 300)
    others = {"text": texts, "nested": nested} | {f"c{number}": np.zeros(300) for number in range(2_000)}
    assert read(noise(300, 16), tmp_path, others) == Decoded(300, {}, 0, [])


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_texts_in_differences_are_read_as_written(
    encoding: str, version: str, codec: str, tmp_path: Path
) -> None:
    users = [None if RNG.random() < 0.1 else "u" * int(RNG.integers(300)) for _ in range(3_000)]
    options = {
        "use_dictionary": False,
        "column_encoding": {"user_id": encoding, "payload": "PLAIN"},
        "compression": codec,
        "data_page_version": version,
    }
    assert read(pa.array(users), tmp_path, **options) == Decoded(3_000, {}, 0, [])


def test_a_bit_of_a_footer_that_flips_ends_no_process(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user_id": ["ann"] * 5, "payload": [0.5] * 5}), tmp_path / "whole.parquet")
    data = (tmp_path / "whole.parquet").read_bytes()
    assert bounded(_flips, tmp_path / "file.parquet", data).letters > 0


def _flips(path: Path, data: bytes) -> Decoded:
    """What is found with one bit of a byte of the footer flipped, for each of its bytes."""
    reports = letters = 0
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for place in range(start, len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        found = decode_file(path)
        reports, letters = reports + found.reports, letters + found.letters
    return Decoded(reports, {}, letters, [])

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
    "large values that compress": (lambda: zeros(100, MEGABYTE), PLAIN),
    "a few large values among small ones": (
        lambda: pa.concat_arrays([noise(10**6, 16), zeros(50, 2 * MEGABYTE)]),
        PLAIN,
    ),
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

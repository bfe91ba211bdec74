"""Shards of keys: the same everywhere and always, evenly spread; splitting loses nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ldpbeam.transforms.reports.batches import shard_of, split_by

#: Of any width, and of one.
KEYS = st.lists(st.binary(min_size=1, max_size=40), max_size=30) | st.lists(
    st.binary(min_size=16, max_size=16), max_size=30
)
SHARDS = st.sampled_from([1, 2, 3, 64, 1000, 65536])


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


def one_by_one(key: bytes, shards: int) -> int:
    """The hash in Python's own integers, eight bytes at a time."""
    multiplier, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    mixed = len(key) * multiplier & mask
    for start in range(0, len(key), 8):
        word = int.from_bytes(key[start : start + 8], "little")
        mixed = (mixed ^ word) * multiplier & mask
        mixed ^= mixed >> 29
    return ((mixed * multiplier & mask) >> 33) % shards


@pytest.mark.parametrize(
    ("key", "of_65536", "of_64"),
    [
        (b"", 0, 0), (b"u1", 40780, 12), (b"user-17", 27763, 51), (b"12345678", 43141, 5),
        (b"123456789", 1921, 1), (bytes(16), 64288, 32), (bytes(range(16)), 17878, 22),
        ("zoë".encode(), 21395, 19), (b"x" * 40, 32284, 28),
    ],
)  # fmt: skip
def test_a_keys_shard_never_changes(key: bytes, of_65536: int, of_64: int) -> None:
    # Written down once: a worker of another version or machine must send a user to the same place.
    assert shard_of(binary([key]), 65536).tolist() == [of_65536]
    assert shard_of(binary([key]), 64).tolist() == [of_64]


@given(KEYS, SHARDS)
def test_a_keys_shard_is_that_of_plain_integer_arithmetic(keys: list[bytes], shards: int) -> None:
    expected = [one_by_one(key, shards) for key in keys]
    assert shard_of(binary(keys), shards).tolist() == expected


@given(KEYS, st.integers(0, 29), st.integers(0, 30))
def test_slices_of_an_array_have_the_shards_of_their_own_keys(
    keys: list[bytes], start: int, length: int
) -> None:
    whole = shard_of(binary(keys), 64)
    part = binary(keys).slice(start, length)
    assert shard_of(part, 64).tolist() == whole[start : start + length].tolist()


def random_bytes(n: int) -> list[bytes]:
    data = np.random.default_rng(5).bytes(16 * n)
    return [data[16 * i : 16 * (i + 1)] for i in range(n)]


KINDS: dict[str, Callable[[int], list[bytes]]] = {
    "names counted up": lambda n: [f"user-{i}".encode() for i in range(n)],
    "numbers as text": lambda n: [str(i).encode() for i in range(n)],
    "numbers in 16 bytes": lambda n: [i.to_bytes(16, "little") for i in range(n)],
    "numbers at the end of 16 bytes": lambda n: [i.to_bytes(16, "big") for i in range(n)],
    "random keys": random_bytes,
}


@pytest.mark.parametrize("shards", [8, 64, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_spread_evenly(kind: str, shards: int) -> None:
    # Chi-square against the even spread; one in 10,000 hashes that are even would fail. Keys are
    # fixed, so this passes always or never. Spreading more evenly than chance is no fault.
    counts = np.bincount(shard_of(binary(KINDS[kind](40_000)), shards), minlength=shards)
    assert len(counts) == shards
    assert stats.chisquare(counts).pvalue > 1e-4


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=50))
def test_splitting_keeps_every_row_once_and_in_order(codes: list[int]) -> None:
    batch = pa.RecordBatch.from_pydict({"row": list(range(len(codes)))}).replace_schema_metadata({"a": "b"})
    pieces = list(split_by(batch, np.array(codes)))
    assert [code for code, _ in pieces] == sorted(set(codes))
    for code, piece in pieces:
        assert piece.column("row").to_pylist() == [row for row, own in enumerate(codes) if own == code]
        assert piece.schema.metadata == {b"a": b"b"}

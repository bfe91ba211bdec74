"""Ids are told apart byte by byte, whatever their hashes are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldpbeam.schemas.reports.casts import binary_of_width
from ldpbeam.transforms.joining.gathered import column_or_nulls
from ldpbeam.transforms.joining.same_ids import MOST_BYTES, _by_sorting, in_order, numbers_of
from ldpbeam.transforms.reports.batches import mixed, shard_of

MULTIPLIER, BITS = 0x9E3779B97F4A7C15, 2**64


def told_apart(ids: list[bytes | None], kind: pa.DataType) -> None:
    """See that ids have equal numbers, from 0 on, exactly if they are equal, in a slice of an array, too.

    In the order of ids, the rows of each are together and ascend.
    """
    for start in (0, len(ids) // 2):
        given = pa.array(ids, kind)[start:]
        numbers = numbers_of(given).tolist()
        pairs = set(zip(ids[start:], numbers, strict=True))
        assert len(pairs) == len(set(ids[start:])) == len(set(numbers))
        assert sorted(set(numbers)) == list(range(len(pairs)))
        order, first = in_order(given)
        rows: dict[bytes | None, list[int]] = {}
        for row, each in enumerate(ids[start:]):
            rows.setdefault(each, []).append(row)
        runs = np.split(order, np.flatnonzero(first)[1:]) if len(order) else []
        assert sorted(run.tolist() for run in runs) == sorted(rows.values())


def after(word: int) -> int:
    """The hash of a key of 16 bytes after its first word."""
    step = (16 * MULTIPLIER ^ word) * MULTIPLIER % BITS
    return step ^ step >> 29


def collide(word: int) -> bytes:
    """An id whose hash is that of 16 zero bytes, with another first word."""
    words = (word, after(word) ^ after(0))
    return b"".join(each.to_bytes(8, "little") for each in words)


@given(st.lists(st.binary(max_size=9) | st.none()))
def test_ids_have_equal_numbers_exactly_if_they_are_equal(ids: list[bytes | None]) -> None:
    told_apart(ids, pa.binary())


@pytest.mark.parametrize("distinct", [1, 40_000])
@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(16)])
def test_many_ids_are_told_apart(distinct: int, kind: pa.DataType) -> None:
    rng = np.random.default_rng(0)
    some = [rng.bytes(16) for _ in range(distinct)]
    told_apart([some[place] for place in rng.integers(0, distinct, 150_000).tolist()], kind)


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(16)])
def test_different_ids_with_one_hash_are_told_apart(kind: pa.DataType) -> None:
    ids = [bytes(16), *map(collide, range(1, 50))]
    assert len({int(number) for number in mixed(pa.array(ids, kind))}) == 1
    told_apart([*ids, *reversed(ids), b"another person.."], kind)


def with_hashes(hashes: NDArray[np.uint64]) -> pa.Array:
    """Ids of eight bytes that have these hashes."""
    inverse = np.uint64(pow(MULTIPLIER, -1, BITS))
    step = hashes * inverse
    word = (step ^ step >> np.uint64(29) ^ step >> np.uint64(58)) * inverse ^ np.uint64(8 * MULTIPLIER % BITS)
    return binary_of_width(word.view(np.uint8).reshape(-1, 8))


def test_the_ids_of_one_of_many_shards_are_told_apart_by_sorting() -> None:
    # Random ids of shard 5 of 65,536. Some 84 pairs of 300,000 have their 45 high bits in common, because
    # these tell the shard, too. Of bits that are random 0.001 pairs would.
    rng, shards = np.random.default_rng(0), 2**16
    high = rng.integers(0, 2**15, 300_000, dtype=np.uint64) * np.uint64(shards) + np.uint64(5)
    hashes = high << np.uint64(33) | rng.integers(0, 2**33, 300_000, dtype=np.uint64)
    ids = with_hashes(hashes)
    assert (mixed(ids) == hashes).all() and (shard_of(ids, shards) == 5).all()
    assert _by_sorting(ids) is not None


def test_ids_that_end_in_zeros_or_are_long_are_told_apart() -> None:
    told_apart([b"a", b"a\0", b"a" + bytes(7), b"", b"\0", b"a"], pa.binary())
    told_apart([b"a" * MOST_BYTES, b"a" * (MOST_BYTES + 1), b"a", b"a" * (MOST_BYTES + 1)], pa.binary())


def test_ids_of_one_width_and_of_any_become_one_column() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"user": pa.array([b"sixteen bytes id"], kind)})
        for kind in (pa.binary(16), pa.binary())
    ]
    assert numbers_of(column_or_nulls(batches, "user", pa.binary())).tolist() == [0, 0]

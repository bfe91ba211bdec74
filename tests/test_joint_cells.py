"""Indexes of joint cells in one word and in several, against digits and counters."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.joint_cells import MOST_IN_WORD, added_up, columns, digits_of, indexes, words

SHAPES = [(3,), (257, 257, 3), (193,) * 7 + (3,) * 8, (255,) * 16, (2**40, 2**40, 5), (3,) * 62]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_words_hold_every_axis_in_order_and_as_many_as_fit(shape: tuple[int, ...]) -> None:
    held = words(shape)
    assert [axis for axes in held for axis in axes] == list(range(len(shape)))
    sizes = [math.prod(shape[axis] for axis in axes) for axes in held]
    assert all(size < MOST_IN_WORD for size in sizes)
    for size, axes in zip(sizes, held[1:], strict=False):
        assert size * shape[axes[0]] >= MOST_IN_WORD, "the next axis would have fitted"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_digits_are_the_inverse_of_indexes(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    digits = [np.append(rng.integers(0, size, 50), [0, size - 1]) for size in shape]
    cells = indexes(shape, digits)
    assert cells.shape == ((52,) if len(words(shape)) == 1 else (52, len(words(shape))))
    assert cells.dtype == np.int64
    assert cells.min() == 0
    for digit, again in zip(digits, digits_of(shape, cells), strict=True):
        assert digit.tolist() == again.tolist()


def test_an_index_of_one_word_counts_the_first_axis_fastest() -> None:
    assert indexes((3, 4, 5), [np.array([2]), np.array([1]), np.array([4])]).tolist() == [2 + 3 * (1 + 4 * 4)]


def test_no_cells_have_no_digits_on_every_axis() -> None:
    for shape in SHAPES:
        found = list(digits_of(shape, np.zeros(0, dtype=np.int64)))
        assert [len(digit) for digit in found] == [0] * len(shape)


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.tuples(st.lists(st.integers(0, 3), min_size=width, max_size=width), st.integers(-2, 2)),
            max_size=30,
        )
    )
)
def test_added_up_is_a_counter_in_ascending_order_without_zeros(rows: list[tuple[list[int], int]]) -> None:
    expected: Counter[tuple[int, ...]] = Counter()
    for cell, count in rows:
        expected[tuple(cell)] += count
    width = len(rows[0][0]) if rows else 1
    cells = np.array([cell for cell, _ in rows], dtype=np.int64).reshape(len(rows), width)
    found, counts = added_up(
        cells[:, 0] if width == 1 else cells, np.array([count for _, count in rows], dtype=np.int64)
    )
    wanted = sorted((cell, count) for cell, count in expected.items() if count)
    assert [tuple(cell) for cell in columns(found).tolist()] == [cell for cell, _ in wanted]
    assert counts.tolist() == [count for _, count in wanted]
    if not wanted:
        assert found.shape == (0,)

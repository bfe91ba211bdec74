"""Block Hadamard response: its blocks, its channel, and what it gains over HRR."""

from __future__ import annotations

import decimal
import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import hadamard

from ldpbeam.mechanisms import BlockHadamardResponse, HadamardRandomisedResponse, OptimisedUnaryEncoding
from ldpbeam.mechanisms.numbers.grid import DRAWS

#: Few and many categories, full and partly empty blocks, blocks of a single category.
SIZES = (2, 3, 5, 8, 12, 33, 100)
EPSILONS = (0.01, 0.5, 1.0, 2.0, 4.0, 8.0)


@functools.cache
def matrix(order: int) -> NDArray[np.int64]:
    """The Hadamard matrix."""
    return np.asarray(hadamard(order), dtype=np.int64)


def own_half(mechanism: BlockHadamardResponse, category: int) -> set[int]:
    """The likelier reports of a category, read off scipy's Hadamard matrix."""
    b = mechanism.order
    block, column = divmod(category, b - 1)
    signs = matrix(b)[:, column + 1].tolist()
    return {b * block + y for y in range(b) if signs[y] > 0}


@pytest.mark.parametrize(
    ("epsilon", "size", "blocks", "order"),
    [
        (0.5, 100, 1, 128), (0.5, 63, 1, 64), (0.5, 64, 1, 128), (1.0, 100, 2, 64), (2.0, 222, 4, 64),
        (4.0, 100, 32, 8), (4.0, 224, 32, 8), (4.0, 225, 32, 16), (8.0, 8, 8, 2), (20.0, 9, 16, 2),
    ],
)  # fmt: skip
def test_blocks_are_as_many_and_as_large_as_the_paper_says(
    epsilon: float, size: int, blocks: int, order: int
) -> None:
    # B = 2^(ceil(log2 min(E, 2k)) - 1) and b = 2^ceil(log2(k/B + 1)).
    assert blocks == 2 ** (math.ceil(math.log2(min(math.exp(epsilon), 2 * size))) - 1)
    assert order == 2 ** math.ceil(math.log2(size / blocks + 1))
    mechanism = BlockHadamardResponse(epsilon, size=size)
    assert (mechanism.blocks, mechanism.order, mechanism.cells(0)) == (blocks, order, blocks * order)
    assert len(set(mechanism.columns.tolist())) == size
    assert (mechanism.columns % order > 0).all()


@pytest.mark.parametrize(
    ("most", "blocks"), [(1, 1), (2, 2), (3, 2), (4, 4), (31, 16), (32, 32), (2**20, 32)]
)
def test_there_are_no_more_blocks_than_the_study_says(most: int, blocks: int) -> None:
    assert BlockHadamardResponse(4.0, size=100, most_blocks=most).blocks == blocks


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", SIZES)
def test_the_channel_is_the_papers(epsilon: float, size: int) -> None:
    mechanism = BlockHadamardResponse(epsilon, size=size)
    E, s, K = math.exp(epsilon), mechanism.order // 2, mechanism.cells(0)
    expected = np.full((K, size), 1 / (s * E + K - s))
    for category in range(size):
        half = own_half(mechanism, category)
        assert len(half) == s
        expected[sorted(half), category] *= E
    np.testing.assert_allclose(mechanism.channel(size, 0).dense(), expected, rtol=1e-12)
    assert (expected.max(axis=1) / expected.min(axis=1)).max() <= E * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1.1e-6, *EPSILONS, 20.0])
@pytest.mark.parametrize("size", [*SIZES, 100_000])
def test_a_report_has_at_most_exp_epsilon_times_as_many_draws_for_one_category_as_for_another(
    epsilon: float, size: int
) -> None:
    mechanism = BlockHadamardResponse(epsilon, size=size)
    half, cells = mechanism.order // 2, mechanism.cells(0)
    even, some = divmod(DRAWS - half * mechanism.excess, cells)
    assert mechanism.excess > 0 < even
    assert 0 <= some < cells
    budget = Fraction(decimal.Context(prec=80).exp(decimal.Decimal(epsilon)))
    assert Fraction(even + mechanism.excess, even) <= budget
    # And hardly fewer: as many as whole numbers of draws allow.
    share = (budget - 1) / (budget + 2 * mechanism.blocks - 1)
    assert abs(half * mechanism.excess - share * DRAWS) <= cells + 2 * half


def test_the_guides_variances_relative_to_hrr_and_oue_are_those_of_the_formulas() -> None:
    sizes = range(100, 1001, 3)
    for epsilon, shown in {1.0: (0.6, 0.8), 2.0: (0.9, 1.4), 3.0: (2.0, 2.8), 4.0: (4.9, 7.6)}.items():
        own, one_bit, unary = (
            np.array([build(epsilon, size=size).frequency_variance for size in sizes])
            for build in (BlockHadamardResponse, HadamardRandomisedResponse, OptimisedUnaryEncoding)
        )
        gain, loss = one_bit / own, own / unary
        assert (round(gain.min(), 1), round(gain.max(), 1)) == shown
        assert 1.5 <= round(loss.min(), 1) <= round(loss.max(), 1) <= 2.9

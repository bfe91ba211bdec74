"""Block Hadamard response: a report from the category's half of a block (Acharya et al., AISTATS 2019)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.categories.hadamard import hadamard_signs, walsh_hadamard
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.mechanism import Uniforms, WholeReports
from ldpbeam.mechanisms.numbers.grid import fitting_excess, remainder, whole_draws
from ldpbeam.mechanisms.registry import register
from ldpbeam.options import Range

#: The most blocks: as many as there may be categories, rounded up to a power of two.
MOST_BLOCKS = 2**20


class BlockHadamardChannel(Channel):
    """P(report | category): ``own`` for the half of the category's block with positive signs, else ``other``.

    Args:
        columns: each category's column among the columns of all blocks, shape (size,).
        blocks: the number of blocks.
        order: the number of reports of a block, and of its columns.
        own: the probability of each report of the category's half of its block.
        other: the probability of each other report.
    """

    def __init__(self, columns: Integers, blocks: int, order: int, own: float, other: float) -> None:
        super().__init__(blocks * order, len(columns))
        self.columns = columns
        self.blocks = blocks
        self.order = order
        self.own = own
        self.other = other

    def _halves(self, vector: Floats) -> Floats:
        """Each sum over the entries of a block whose sign in one row or column is positive."""
        sums = np.repeat(vector.reshape(self.blocks, self.order).sum(axis=1), self.order)
        return 0.5 * (sums + walsh_hadamard(vector, self.order))

    def _matvec(self, x: Floats) -> Floats:
        weights = np.zeros(self.shape[0])
        weights[self.columns] = np.ravel(x)
        return np.asarray(self.other * weights.sum() + (self.own - self.other) * self._halves(weights))

    def _rmatvec(self, x: Floats) -> Floats:
        counts = np.ravel(x)
        product: Floats = self.other * counts.sum() + (self.own - self.other) * self._halves(counts)
        return product[self.columns]

    def dense(self) -> Floats:
        """The matrix, each entry computed from the bits that report and column have in common."""
        reports = np.arange(self.shape[0])[:, None]
        together = reports // self.order == self.columns // self.order
        shared = np.bitwise_count(reports % self.order & self.columns % self.order)
        return np.where(together & (shared % 2 == 0), self.own, self.other)


@register
@dataclasses.dataclass(frozen=True)
class BlockHadamardResponse(WholeReports, CategoricalMechanism):
    """One of K = B b reports: those of the category's half of its block are E times likelier than all others.

    Here E = exp(epsilon), B is the number of blocks, and b is the order of the Hadamard matrix of a block.
    B is the largest power of two that is below E and below twice the number of categories; b is the smallest
    power of two for which B (b - 1) is at least the number of categories. The first b - 1 categories have the
    columns 1, 2, ... of block 0, the next b - 1 those of block 1, and so on; column 0, all +1, belongs to no
    category. Report y of a block is in a category's half if entry (y, column) is +1. Each of the b/2
    reports of the half has probability 2E / (b (E + 2B - 1)), and each other report of any block has
    2 / (b (E + 2B - 1)).

    Attributes:
        most_blocks: the largest B; 1 for Hadamard response with one block.
    """

    name = "block_hadamard"
    summary = "Block Hadamard response: short reports for many categories, from epsilon 2 on"

    most_blocks: Annotated[int, Range(least=1, most=MOST_BLOCKS)] = MOST_BLOCKS

    @functools.cached_property
    def blocks(self) -> int:
        """B, the number of blocks."""
        below = 1
        while 2 * below < min(math.exp(self.epsilon), 2 * self.size, self.most_blocks + 1):
            below *= 2
        return below

    @functools.cached_property
    def order(self) -> int:
        """The order b of a block's Hadamard matrix, which is the number of its reports."""
        return 1 << (-(-self.size // self.blocks)).bit_length()

    @functools.cached_property
    def columns(self) -> Integers:
        """Each category's column, counted through all blocks, shape (size,)."""
        block, column = np.divmod(np.arange(self.size), self.order - 1)
        return block * self.order + column + 1

    @property
    def probabilities(self) -> tuple[float, float]:
        """(p, q): the probabilities of each report of the category's half, and of each other report."""
        growth = math.exp(self.epsilon)
        q = 2.0 / (self.order * (growth + 2.0 * self.blocks - 1.0))
        return growth * q, q

    @functools.cached_property
    def excess(self) -> int:
        """By how many of 2^53 draws a report of the category's half exceeds any other report."""
        share = math.expm1(self.epsilon) / self._constant
        return fitting_excess(self.epsilon, share, self.order // 2, self.cells(0))

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per category index, shape (n,), drawn in whole numbers."""
        block, column = np.divmod(self.columns[np.asarray(values, dtype=np.int64)], self.order)
        draws = whole_draws(uniforms, block.size)
        # Reports are numbered without the column's lowest bit, which the sign then decides.
        bit = column & -column
        count = draws // self.excess
        report = count + count // bit * bit
        report += bit * (hadamard_signs(report, column) < 0)
        left_over = draws - self.order // 2 * self.excess
        cells = np.where(left_over < 0, block * self.order + report, remainder(left_over, self.cells(0)))
        return cells.astype(np.uint32)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: one per report, K = B b."""
        return self.blocks * self.order

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(report | category); its products use a fast Walsh-Hadamard transform of each block."""
        return BlockHadamardChannel(self.columns, self.blocks, self.order, *self.probabilities)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """(E + 2B - 1)/(E - 1) times the sum of each column's signs over the reports of its block, over n.

        The paper estimates 2 (c P(C) - 1)/(E - 1) - (c P(S) - 2)/(E - 1), where c = E + 2B - 1, P(C) is the
        share of the reports in the category's half, and P(S) that in its block. The sum of the signs, over n,
        is 2 P(C) - P(S).
        """
        scale = self._constant / (reports * math.expm1(self.epsilon))
        return scale * walsh_hadamard(histogram, self.order)[self.columns]

    def share_variances(self, shares: Floats, histogram: Integers) -> Floats:
        """(E + 2B - 1)^2 P(S) / (E - 1)^2 - f, where P(S) is the share of reports in the category's block.

        Reports of other blocks say nothing of the category. Each report of its block says
        (E + 2B - 1)/(E - 1) or minus that. P(S) is (2 + (E - 1) S)/(E + 2B - 1) on average, where S, the
        share of people in the block, is from f to 1.
        """
        of_blocks = histogram.reshape(self.blocks, self.order).sum(axis=1) / histogram.sum()
        growth = math.expm1(self.epsilon)
        people = (self._constant * of_blocks[self.columns // self.order] - 2.0) / growth
        squares: Floats = self._constant * (2.0 + growth * np.clip(people, shares, 1.0)) / growth**2
        return squares - shares

    @property
    def _constant(self) -> float:
        """The value E + 2B - 1."""
        return math.expm1(self.epsilon) + 2.0 * self.blocks

    @property
    def frequency_variance(self) -> float:
        """(E + 2B - 1)(2 + (E - 1) S) / (E - 1)^2, where S is the share of people in the category's block.

        Here S is the chance that two different categories are in one block.
        """
        growth = math.expm1(self.epsilon)
        held = np.bincount(self.columns // self.order)
        together = float(held @ (held - 1)) / (self.size * (self.size - 1.0))
        return self._constant * (2.0 + growth * together) / growth**2

    def output(self) -> str:
        """The encoding of block and report, in words."""
        reports = f"{self.order} times one of {self.blocks} blocks, plus one of its {self.order} reports"
        return f"{reports}, 0 to {self.cells(0) - 1}"

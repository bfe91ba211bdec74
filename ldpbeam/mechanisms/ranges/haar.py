"""HaarHRR: Haar coefficients by one-bit HRR (Kulkarni et al., VLDB 2019; square-wave paper, 4.2)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.categories.hadamard import hadamard_signs, walsh_hadamard
from ldpbeam.mechanisms.mechanism import Uniforms, WholeReports
from ldpbeam.mechanisms.ranges.binned import BinMechanism, check_leaves
from ldpbeam.mechanisms.registry import register


class HaarChannel(Channel):
    """P(level, row and sign | leaf), the levels equally likely.

    At a level, a leaf has the coefficient +1 if it is in the left half of its node, else -1. Hadamard
    response perturbs this one coefficient to a row and a sign.
    """

    def __init__(self, leaves: int, keep: float) -> None:
        super().__init__(2 * (leaves - 1), leaves)
        self.levels = leaves.bit_length() - 1
        self.lean = 2.0 * keep - 1.0

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        parts = []
        for level in range(self.levels):
            left, right = weights.reshape(1 << level, 2, -1).sum(axis=2).T
            lean = self.lean * walsh_hadamard(left - right)
            total = weights.sum()
            parts.append(np.column_stack((total - lean, total + lean)).ravel() / (2 << level))
        return np.concatenate(parts) / self.levels

    def _rmatvec(self, x: Floats) -> Floats:
        pairs = np.ravel(x).reshape(-1, 2)
        total = np.zeros(self.shape[1])
        for level in range(self.levels):
            rows = 1 << level
            minus, plus = pairs[rows - 1 : 2 * rows - 1].T
            lean = self.lean * walsh_hadamard(plus - minus)
            halves = (minus.sum() + plus.sum() + np.column_stack((lean, -lean)).ravel()) / (2 * rows)
            total += np.repeat(halves, self.shape[1] // (2 * rows))
        return total / self.levels

    def dense(self) -> Floats:
        """The matrix, each entry computed from the bits of leaf and row."""
        leaf = np.arange(self.shape[1])
        blocks = []
        for level in range(self.levels):
            node, right = leaf >> (self.levels - level), leaf >> (self.levels - level - 1) & 1
            shared = np.bitwise_count(np.arange(1 << level)[:, None] & node[None, :])
            plus_chance = np.where((shared + right) % 2 == 0, 0.5 + 0.5 * self.lean, 0.5 - 0.5 * self.lean)
            both = np.stack((1.0 - plus_chance, plus_chance), axis=1).reshape(2 << level, self.shape[1])
            blocks.append(both / (self.levels << level))
        return np.vstack(blocks)


@register
@dataclasses.dataclass(frozen=True)
class Haar(WholeReports, BinMechanism):
    """A report of the value's Haar coefficient at a uniformly drawn level of a binary tree, by HRR.

    At level l of 0 .. m - 1, with 2^m leaves, the value has the coefficient +1 (left half) or -1 (right half)
    at its node, and 0 at the 2^l - 1 other nodes. The client draws a row r of the Hadamard matrix of order
    2^l uniformly. It keeps the sign of entry (r, node) times the coefficient with probability E/(E+1), where
    E = exp(epsilon). The report is 2(2^l - 1 + r), plus one for a positive sign. The unbiased coefficient of
    a node is the mean of sign times entry over the reports of its level, times (E+1)/(E-1).

    Attributes:
        leaves: the number of equal bins, a power of two from 2 to 2^16.
    """

    name = "haar"
    summary = "HaarHRR: the sign of one Haar coefficient; range queries, short reports"
    of_levels = True

    leaves: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_leaves(self.leaves, 2)

    @property
    def bins(self) -> int:
        """The number of leaves."""
        return self.leaves

    @property
    def levels(self) -> int:
        """The number of levels: the base-two logarithm of the number of leaves."""
        return self.leaves.bit_length() - 1

    @property
    def keep(self) -> float:
        """The probability E / (E + 1) of keeping the sign."""
        return 1.0 / (1.0 + math.exp(-self.epsilon))

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,)."""
        leaf = self.bin_of(values)
        level = np.floor(uniforms.random(leaf.size) * self.levels).astype(np.int64)
        order = np.int64(1) << level
        rows = np.floor(uniforms.random(leaf.size) * order).astype(np.int64)
        kept = uniforms.random(leaf.size) < self.keep
        half = leaf >> (self.levels - level - 1)
        entry = hadamard_signs(rows, half >> 1) * (1 - 2 * (half & 1))
        plus = (entry > 0) == kept
        return np.asarray((2 * (order - 1 + rows) + plus).astype(np.uint32))

    def cells(self, resolution: int) -> int:
        """The number of report buckets: two per row, for the rows of all levels."""
        return 2 * (self.leaves - 1)

    def bin_channel(self, resolution: int) -> Channel:
        """P(report | leaf); its products use one fast Walsh-Hadamard transform per level."""
        return HaarChannel(self.leaves, self.keep)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """The inverse Haar transform of the unbiased coefficients, with a total of 1; shape (leaves,).

        A level without reports has coefficients of zero: the share of a node is divided equally between its
        two halves.
        """
        pairs = histogram.reshape(-1, 2)
        nodes = np.ones(1)
        for level in range(self.levels):
            minus, plus = pairs[(1 << level) - 1 : (2 << level) - 1].T
            level_reports = max(1, int(minus.sum() + plus.sum()))
            difference = walsh_hadamard(plus - minus) / (level_reports * (2.0 * self.keep - 1.0))
            nodes = np.column_stack((nodes + difference, nodes - difference)).ravel() / 2.0
        return nodes

    @property
    def frequency_variance(self) -> float:
        """(m/3) (1 - 4^-m) ((E+1)/(E-1))^2 with 2^m leaves.

        A leaf's share has the coefficient of level l halved m - l times; each level has 1/m of the reports.
        """
        halved = (1.0 - 4.0**-self.levels) / 3.0
        return self.levels * halved / math.tanh(self.epsilon / 2.0) ** 2

    def output(self) -> str:
        """The encoding of level, row and sign, in words."""
        last = 2 * self.leaves - 3
        return f"2 (2^level - 1 + row) + 1 for a positive sign, levels 0 to {self.levels - 1}: 0 to {last}"

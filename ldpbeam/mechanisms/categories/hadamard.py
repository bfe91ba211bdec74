"""HRR, one-bit Hadamard randomised response: the sign of a random row's entry (Kulkarni et al., VLDB 2019).

The square-wave paper's HaarHRR reports coefficients with it. The Hadamard response of Acharya et al. (AISTATS
2019) is another mechanism: ``block_hadamard``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.mechanism import Uniforms, WholeReports
from ldpbeam.mechanisms.registry import register


def walsh_hadamard(vector: ArrayLike, order: int | None = None) -> Floats:
    """The product of the Hadamard matrix and a vector of 2^m entries, in m 2^m steps.

    Its entry (row, column) is -1 to the power of the number of bits that row and column have in common.

    Args:
        vector: shape (n,), where n is a power of two or a multiple of ``order``.
        order: a power of two. The matrix of this order multiplies each block of this many entries of the
            vector. By default there is one block.
    """
    result = np.array(vector, dtype=np.float64)
    half = 1
    while half < (order or len(result)):
        pairs = result.reshape(-1, 2, half)
        result = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).ravel()
        half *= 2
    return result


def hadamard_signs(rows: Integers, columns: Integers) -> Integers:
    """The Hadamard matrix's entry, +1 or -1, for each pair of a row and a column, shape (n,)."""
    bits = rows & columns
    for shift in (32, 16, 8, 4, 2, 1):
        bits = bits ^ (bits >> shift)
    return 1 - 2 * (bits & 1)


class HadamardChannel(Channel):
    """P(row and sign | category): rows are equally likely, and the entry's sign is kept with ``keep``."""

    def __init__(self, size: int, order: int, keep: float) -> None:
        super().__init__(2 * order, size)
        self.order = order
        self.keep = keep

    def _matvec(self, x: Floats) -> Floats:
        weights = np.zeros(self.order)
        weights[: self.shape[1]] = np.ravel(x)
        lean = (2.0 * self.keep - 1.0) * walsh_hadamard(weights)
        total = weights.sum()
        return np.column_stack((total - lean, total + lean)).ravel() / (2.0 * self.order)

    def _rmatvec(self, x: Floats) -> Floats:
        minus, plus = np.ravel(x).reshape(-1, 2).T
        lean = (2.0 * self.keep - 1.0) * walsh_hadamard(plus - minus)[: self.shape[1]]
        return (np.sum(x) + lean) / (2.0 * self.order)

    def dense(self) -> Floats:
        """The matrix, each entry computed from the bits that row and category have in common."""
        rows, columns = np.indices((self.order, self.shape[1]))
        plus = np.where(np.bitwise_count(rows & columns) % 2 == 0, self.keep, 1.0 - self.keep) / self.order
        both = np.stack((1.0 / self.order - plus, plus), axis=1)
        return both.reshape(2 * self.order, self.shape[1])


@register
@dataclasses.dataclass(frozen=True)
class HadamardRandomisedResponse(WholeReports, CategoricalMechanism):
    """HRR: a uniformly drawn row r of K rows, and the sign of entry (r, category), kept with E/(E+1).

    K is the smallest power of two that is at least the number of categories, and E = exp(epsilon). The report
    is 2r, plus one for a positive sign. The unbiased frequency of category k is the mean of sign times entry
    (r, k), times (E+1)/(E-1); its variance is about ((E+1)/(E-1))^2 / n for a rare category.
    """

    name = "hadamard"
    summary = "HRR (one-bit Hadamard): a row's sign; short reports for many categories"

    @property
    def order(self) -> int:
        """K, the number of rows."""
        return 1 << (self.size - 1).bit_length()

    @property
    def keep(self) -> float:
        """The probability E / (E + 1) of keeping the sign."""
        return 1.0 / (1.0 + math.exp(-self.epsilon))

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per category index, shape (n,)."""
        index = np.asarray(values, dtype=np.int64)
        rows = np.floor(uniforms.random(index.size) * self.order).astype(np.int64)
        kept = uniforms.random(index.size) < self.keep
        plus = (hadamard_signs(rows, index) > 0) == kept
        return np.asarray((2 * rows + plus).astype(np.uint32))

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """The categories whose entry in the report's row has its sign."""
        rows, plus = np.divmod(payloads.astype(np.int64), 2)
        signs = hadamard_signs(rows[:, None], np.arange(self.size)[None, :])
        return np.asarray((signs > 0) == (plus[:, None] > 0))

    def cells(self, resolution: int) -> int:
        """The number of report buckets: two per row, 2K."""
        return 2 * self.order

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(row and sign | category); its products use the fast Walsh-Hadamard transform."""
        return HadamardChannel(self.size, self.order, self.keep)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """The transform of each row's sum of signs, divided by n (2p - 1), where p is ``keep``.

        Row 0 is +1 for every category, so its signs give only noise. Their expectation is used instead, so
        that the shares of all K columns sum to one.
        """
        minus, plus = histogram.reshape(-1, 2).T
        leans = (plus - minus) / (reports * (2.0 * self.keep - 1.0))
        leans[0] = 1.0 / self.order
        return walsh_hadamard(leans)[: self.size]

    @property
    def frequency_variance(self) -> float:
        """((E + 1) / (E - 1))^2 (1 - 1/K) - 1/K^2, because row 0 adds no noise."""
        return (1.0 - 1.0 / self.order) / math.tanh(self.epsilon / 2.0) ** 2 - 1.0 / self.order**2

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """A report supports the categories whose entry in its row has its sign."""
        return self.keep, 0.5

    def share_variances(self, shares: Floats, histogram: Integers) -> Floats:
        """The variance of a rare category, less (1 - 2/K) f.

        A report of row 0 says 1/K of every category; one of another row says 1/K plus or minus (E+1)/(E-1).
        """
        return self.frequency_variance - (1.0 - 2.0 / self.order) * shares

    @property
    def title(self) -> str:
        """The key of study files, and what it stands for."""
        return f"{self.name} (HRR, one-bit Hadamard randomised response)"

    def output(self) -> str:
        """The encoding of row and sign, in words."""
        return f"2 row + 1 for a positive sign, 0 to {2 * self.order - 1}"

"""Unary encoding: one bit per category (OUE and SUE; Wang et al., USENIX Security 2017)."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel, DenseChannel, DiagonalChannel, bits_channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.mechanism import Uniforms
from ldpbeam.mechanisms.registry import register
from ldpbeam.options import Range

#: The most categories for which a whole bit vector is a cell, as joins need.
MOST_WHOLE = 16
#: Bits are drawn and counted in blocks of about this many, which a core's cache holds.
BLOCK_BITS = 2**18
#: The largest number that a byte holds.
_BYTE = 255


@dataclasses.dataclass(frozen=True)
class UnaryEncoding(CategoricalMechanism):
    """One bit per category: the category's own bit is set with probability p, every other bit with q.

    The bits are packed: category k has bit k mod 8 (from the lowest) of byte k // 8, and the unused bits of
    the last byte are zero. A histogram counts the reports with each bit unset and set. These counts are not
    sufficient ({11, 00} and {10, 01} give the same counts), so EM on them maximises a composite likelihood:
    that of one uniformly drawn bit. Where services are joined by user, whole vectors are counted, of up to 16
    categories.
    """

    composite = True

    @property
    @abstractmethod
    def support_probabilities(self) -> tuple[float, float]:
        """(p, q): the probabilities that the category's own bit is set, and that another bit is set."""

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """The bytes of the packed bits."""
        return np.dtype(f"V{-(-self.size // 8)}")

    @property
    def bits(self) -> int:
        """One for each category."""
        return self.size

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per category index, shape (n,)."""
        index = np.asarray(values, dtype=np.int64)
        packed = np.zeros((index.size, self.payload_dtype.itemsize), dtype=np.uint8)
        step = max(1, BLOCK_BITS // self.size)
        for start in range(0, index.size, step):
            block = index[start : start + step]
            draws = uniforms.random(block.size * self.size).reshape(-1, self.size)
            bits = self._drawn_bits(block, draws)
            packed[start : start + step] = np.packbits(bits, axis=1, bitorder="little")
        return packed.view(self.payload_dtype).ravel()

    def _drawn_bits(self, index: Integers, draws: Floats) -> NDArray[np.bool_]:
        """The bits of each category index, from draws of shape (n, size), which may be overwritten."""
        p, q = self.support_probabilities
        bits: NDArray[np.bool_] = draws < q
        rows = np.arange(index.size)
        bits[rows, index] = draws[rows, index] < p
        return bits

    def _bytes(self, payloads: NDArray[Any]) -> NDArray[np.uint8]:
        width = self.payload_dtype.itemsize
        return np.ascontiguousarray(payloads).view(np.uint8).reshape(-1, width)

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """The categories whose bits are set."""
        bits = np.unpackbits(self._bytes(payloads), axis=1, count=self.size, bitorder="little")
        return bits.view(np.bool_)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have only zero bits after the last category's bit."""
        spare = 8 * self.payload_dtype.itemsize - self.size
        return np.asarray(self._bytes(payloads)[:, -1] < 2 ** (8 - spare))

    def cells(self, resolution: int) -> int:
        """The number of report buckets: one per bit vector, 2^size.

        Raises:
            ValueError: if there are more than 16 categories.
        """
        if self.size > MOST_WHOLE:
            raise ValueError(
                f"bit vectors of more than {MOST_WHOLE} categories cannot be joined by user, found "
                f"{self.size}; use grr, olh or hadamard for what is joined"
            )
        return 1 << self.size

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The number whose binary digits are the bits, category 0 lowest."""
        data = self._bytes(payloads).astype(np.int64)
        return data @ (np.int64(1) << (8 * np.arange(data.shape[1], dtype=np.int64)))

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(bit vector | category), the product over bits.

        Raises:
            ValueError: if there are more than 16 categories.
        """
        p, q = self.support_probabilities
        bits = np.arange(self.cells(resolution))[:, None] >> np.arange(self.size) & 1
        rest = np.where(bits, q, 1.0 - q)
        others = rest.prod(axis=1)[:, None] / rest
        return DenseChannel(others * np.where(bits, p, 1.0 - p))

    def histogram_cells(self, resolution: int) -> int:
        """The length of a histogram: two cells per category, for its bit unset and its bit set."""
        return 2 * self.size

    @property
    def cells_of_each(self) -> int:
        """Two: one for its bit unset, one for its bit set."""
        return 2

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The numbers of reports with each bit unset and set; the counts sum to size times the reports."""
        counts = np.zeros(self.size, dtype=np.int64)
        step = max(1, BLOCK_BITS // self.size)
        for start in range(0, len(payloads), step):
            bits = self.supported(payloads[start : start + step])
            # The sum of up to 255 bits fits into a byte, and NumPy adds bytes several times as fast.
            rest = len(bits) % _BYTE
            sums = bits[rest:].reshape(_BYTE, -1).sum(axis=0, dtype=np.uint8).reshape(-1, self.size)
            counts += sums.sum(axis=0, dtype=np.int64) + bits[:rest].sum(axis=0, dtype=np.int64)
        return np.column_stack((len(payloads) - counts, counts)).ravel()

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(bit, unset or set | category) for one uniformly drawn bit."""
        return bits_channel(self.size, *self.support_probabilities)

    @property
    def name_channel(self) -> DiagonalChannel:
        """P(bit | category) for a random set bit."""
        p, q = self.support_probabilities
        total = p + (self.size - 1) * q
        return DiagonalChannel(self.size, p / total, q / total)

    def named(self, histogram: Integers) -> Integers:
        """The counts of set bits, shape (size,)."""
        return histogram[1::2]

    def output(self) -> str:
        """The number of bits and bytes, in words."""
        size = self.payload_dtype.itemsize
        return f"{self.size} bits packed in {size} byte{'s' if size > 1 else ''}"


@register
@dataclasses.dataclass(frozen=True)
class OptimisedUnaryEncoding(UnaryEncoding):
    """OUE: p = 1/2, q = 1/(E+1); variance 4E/((E-1)^2 n) for a rare category.

    Attributes:
        own: the probability p that the bit of the person's category is set; 1/2 has the least variance.
    """

    name = "oue"
    summary = "OUE: a bit a category; OLH's accuracy, longer reports, less computing"

    own: Annotated[float, Range(above=0, below=1)] = 0.5

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """(p, 1/(1 + E (1-p)/p))."""
        return self.own, 1.0 / (1.0 + math.exp(self.epsilon) * ((1.0 - self.own) / self.own))


@register
@dataclasses.dataclass(frozen=True)
class SymmetricUnaryEncoding(UnaryEncoding):
    """SUE (basic RAPPOR): p = s/(s+1), q = 1/(s+1) with s = exp(epsilon/2)."""

    name = "sue"
    summary = "SUE: a bit a category, as in basic RAPPOR; OUE is more accurate"

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """(s/(s+1), 1/(s+1))."""
        half = math.exp(self.epsilon / 2.0)
        return half / (half + 1.0), 1.0 / (half + 1.0)


def epsilon_of_bits(own: float, other: float) -> float:
    """The epsilon of bits that are set with these probabilities: ln(p (1-q) / ((1-p) q)).

    Args:
        own: the probability that the bit of the person's category is set.
        other: the probability that another bit is set, below ``own``.
    """
    return math.log(own * (1.0 - other) / ((1.0 - own) * other))

"""The interface of channels, and the two basic ones: any matrix, and a constant plus a diagonal."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

Floats = NDArray[np.float64]


class Slots(NamedTuple):
    """The outcomes of the slots of a report, each of which a histogram counts.

    Attributes:
        size: the number of slots.
        own: P(outcome | value) in the slot of the report's own category, shape (outcomes, values).
        other: P(outcome) in every other slot, shape (outcomes,).
        dummies: whether a report may be about none of the slots.
    """

    size: int
    own: Floats
    other: Floats
    dummies: bool


class Channel(LinearOperator):
    """P(report bucket | value bucket), shape (report buckets, value buckets)."""

    #: The slots, if this is the channel of one uniformly drawn slot of a report.
    slots: Slots | None = None

    def __init__(self, report_buckets: int, value_buckets: int) -> None:
        super().__init__(np.dtype(np.float64), (report_buckets, value_buckets))  # type: ignore[call-arg]

    @abstractmethod
    def dense(self) -> Floats:
        """The whole matrix, from a formula that is independent of the products."""

    def rows(self, chosen: NDArray[np.int64]) -> Floats:
        """The rows with the chosen indexes, shape (chosen, value buckets)."""
        return self.dense()[chosen]


class DenseChannel(Channel):
    """A channel that is any matrix, for mechanisms without a structure to use, such as normal noise."""

    def __init__(self, matrix: Floats) -> None:
        super().__init__(*matrix.shape)
        self.matrix = matrix

    def _matvec(self, x: Floats) -> Floats:
        product: Floats = self.matrix @ np.ravel(x)
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        product: Floats = np.ravel(x) @ self.matrix
        return product

    def dense(self) -> Floats:
        """The matrix itself."""
        return self.matrix


class DiagonalChannel(Channel):
    """A channel with ``keep`` on the diagonal and ``other`` elsewhere (GRR)."""

    def __init__(self, size: int, keep: float, other: float) -> None:
        super().__init__(size, size)
        self.keep = keep
        self.other = other

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product: Floats = (self.keep - self.other) * weights + self.other * weights.sum()
        return product

    _rmatvec = _matvec

    def dense(self) -> Floats:
        """The matrix: ``keep`` on the diagonal, ``other`` elsewhere."""
        matrix = np.full(self.shape, self.other)
        np.fill_diagonal(matrix, self.keep)
        return matrix

"""The interface of channels, and the two basic ones: any matrix, and a constant plus a diagonal."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

Floats = NDArray[np.float64]


class Channel(LinearOperator):
    """P(report bucket | value bucket), shape (report buckets, value buckets)."""

    #: The slots, if this is the channel of one uniformly drawn slot of a report.
    slots: SlotChannel | None = None

    def __init__(self, report_buckets: int, value_buckets: int) -> None:
        super().__init__(np.dtype(np.float64), (report_buckets, value_buckets))  # type: ignore[call-arg]

    @abstractmethod
    def dense(self) -> Floats:
        """The whole matrix, from a formula that is independent of the products."""

    def gram(self, x: Floats) -> Floats:
        """The product of the matrix's transpose, the matrix and a vector, shape (value buckets,)."""
        return self.rmatvec(self.matvec(x))

    def rows(self, chosen: NDArray[np.int64]) -> Floats:
        """The rows with the chosen indexes, shape (chosen, value buckets)."""
        return self.dense()[chosen]

    def columns_of(self, chosen: NDArray[np.int64]) -> Floats:
        """The columns with the chosen indexes, shape (report buckets, chosen)."""
        columns = np.empty((self.shape[0], len(chosen)))
        for column, bucket in enumerate(chosen):
            weights = np.zeros(self.shape[1])
            weights[bucket] = 1.0
            columns[:, column] = self.matvec(weights)
        return columns


class DenseChannel(Channel):
    """A channel that is any matrix, for mechanisms whose structure does not help, such as normal noise."""

    def __init__(self, matrix: Floats) -> None:
        super().__init__(*matrix.shape)
        self.matrix = matrix

    def _matvec(self, x: Floats) -> Floats:
        return self.matrix @ np.ravel(x)

    def _rmatvec(self, x: Floats) -> Floats:
        return np.ravel(x) @ self.matrix

    def dense(self) -> Floats:
        """The matrix itself."""
        return self.matrix

    def columns_of(self, chosen: NDArray[np.int64]) -> Floats:
        """The columns with the chosen indexes, shape (report buckets, chosen)."""
        return self.matrix[:, chosen]


class DiagonalChannel(Channel):
    """A channel with ``keep`` on the diagonal and ``other`` elsewhere (GRR)."""

    def __init__(self, size: int, keep: float, other: float) -> None:
        super().__init__(size, size)
        self.keep = keep
        self.other = other

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        return np.asarray((self.keep - self.other) * weights + self.other * weights.sum())

    _rmatvec = _matvec

    def dense(self) -> Floats:
        """The matrix: ``keep`` on the diagonal, ``other`` elsewhere."""
        matrix = np.full(self.shape, self.other)
        np.fill_diagonal(matrix, self.keep)
        return matrix


class SlotChannel(Channel):
    """P(slot, outcome | column) for one slot drawn uniformly from the slots of a report; columns sum to one.

    Rows are (slot, outcome). Columns are (slot, value), and last "no slot" if a report may be about none.

    Args:
        size: the number of slots.
        own: P(outcome | value) in the slot of the report's own category or key, shape (outcomes, values).
        other: P(outcome) in every other slot, shape (outcomes,).
        dummies: whether a report may be about none of the slots.
    """

    def __init__(self, size: int, own: Floats, other: Floats, *, dummies: bool) -> None:
        super().__init__(size * own.shape[0], size * own.shape[1] + dummies)
        self.size, self.own, self.other, self.dummies = size, own, other, dummies
        self.slots = self

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        pairs = weights[: self.size * self.own.shape[1]].reshape(self.size, -1)
        rest = weights.sum() - pairs.sum(axis=1)
        return np.asarray((pairs @ self.own.T + rest[:, None] * self.other).ravel() / self.size)

    def _rmatvec(self, x: Floats) -> Floats:
        slots = np.ravel(x).reshape(self.size, -1)
        others = slots @ self.other
        pairs = (slots @ self.own + (others.sum() - others)[:, None]).ravel()
        return (np.append(pairs, others.sum()) if self.dummies else pairs) / self.size

    def dense(self) -> Floats:
        """The matrix: blocks ``own`` on the diagonal, ``other`` elsewhere, all over ``size``."""
        spread = np.outer(self.other, np.ones(self.own.shape[1]))
        blocks = np.kron(np.eye(self.size), self.own) + np.kron(1.0 - np.eye(self.size), spread)
        last = np.tile(self.other, self.size)[:, None]
        return (np.hstack((blocks, last)) if self.dummies else blocks) / self.size


def bits_channel(size: int, own: float, other: float, *, dummies: bool = False) -> SlotChannel:
    """The slots of one bit each: it is set with ``own`` in the report's own slot, else with ``other``."""
    return SlotChannel(size, np.array([[1.0 - own], [own]]), np.array([1.0 - other, other]), dummies=dummies)

"""The log-likelihood of a distribution over blocks of value buckets, exact or to second order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ldpbeam.domains import Floats, Integers

#: Probabilities are at least this: a channel of a large epsilon may have entries of zero.
LEAST = np.finfo(np.float64).tiny


class Likelihood(Protocol):
    """The log-likelihood of shares of blocks."""

    @property
    def sizes(self) -> Integers:
        """The number of value buckets of each block, shape (blocks,); 0 of a point, the block of an end."""
        ...

    def values(self, shares: Floats) -> Floats:
        """The log-likelihoods of distributions, shape (blocks, n) to (n,)."""
        ...

    def slopes(self, shares: Floats) -> Floats:
        """The slopes by share at distributions, shape (blocks, n) to (blocks, n)."""
        ...

    def expanded(self, shares: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """The slopes by share, shape (blocks,), and the information along some directions.

        Args:
            shares: a distribution, shape (blocks,).
            moves: directions in the space of shares, shape (blocks, m).

        Returns:
            (slopes, information), of shapes (blocks,) and (m, m).
        """
        ...


class Exact:
    """The likelihood of counts of kinds of observations, from the matrix P(kind | block)."""

    def __init__(self, matrix: Floats, counts: Floats, sizes: Integers) -> None:
        self.sizes = sizes
        self._matrix, self._counts, self._roots = matrix, counts, np.sqrt(counts)

    def values(self, shares: Floats) -> Floats:
        """The log-likelihoods of distributions, shape (blocks, n) to (n,)."""
        probabilities = self._matrix @ shares
        np.maximum(probabilities, LEAST, out=probabilities)
        return self._counts @ np.log(probabilities, out=probabilities)

    def slopes(self, shares: Floats) -> Floats:
        """The slopes by share at distributions, shape (blocks, n) to (blocks, n)."""
        probabilities = np.maximum(self._matrix @ shares, LEAST)
        return self._matrix.T @ (self._counts[:, None] / probabilities)

    def expanded(self, shares: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """The slopes by share, and the information along some directions."""
        probabilities = np.maximum(self._matrix @ shares, LEAST)
        ahead = self._matrix @ moves
        ahead *= (self._roots / probabilities)[:, None]
        return (self._counts / probabilities) @ self._matrix, ahead.T @ ahead


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The second-order expansion of a log-likelihood around a distribution.

    A report under local differential privacy says so little that the log-likelihood is nearly quadratic in
    the shares near the answer.

    Attributes:
        centre: the distribution, shape (blocks,).
        value: its log-likelihood.
        rises: the slopes of the log-likelihood by share, shape (blocks,).
        information: minus its second derivatives, shape (blocks, blocks).
        sizes: the number of value buckets of each block, shape (blocks,).
    """

    centre: Floats
    value: float
    rises: Floats
    information: Floats
    sizes: Integers

    def values(self, shares: Floats) -> Floats:
        """The log-likelihoods of distributions, shape (blocks, n) to (n,)."""
        away = shares - self.centre[:, None]
        bent = np.einsum("bn,bn->n", away, self.information @ away)
        return np.asarray(self.value + self.rises @ away - 0.5 * bent)

    def slopes(self, shares: Floats) -> Floats:
        """The slopes by share at distributions, shape (blocks, n) to (blocks, n)."""
        return self.rises[:, None] - self.information @ (shares - self.centre[:, None])

    def expanded(self, shares: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """The slopes by share, and the information along some directions."""
        slopes = self.rises - self.information @ (shares - self.centre)
        return slopes, moves.T @ (self.information @ moves)

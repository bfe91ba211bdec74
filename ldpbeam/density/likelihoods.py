"""The log-likelihood of a distribution over blocks of value buckets, exact or to second order.

Value buckets are put together into blocks if there are many; the distribution is even inside a block.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ldpbeam.channels import BandChannel, Channel, StackedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.linearised import block_starts

#: The most blocks of an exact likelihood, and the most rows of a band: neighbours are put together.
MOST_BLOCKS = 1_024
#: The most entries of an exact likelihood's matrix (64 MB).
MOST_ENTRIES = 2**23
#: Probabilities are at least this: a channel of a large epsilon may have entries of zero.
LEAST = np.finfo(np.float64).tiny


class Likelihood(Protocol):
    """The log-likelihood of shares of blocks.

    Attributes:
        sizes: the number of value buckets of each block, shape (blocks,).
    """

    sizes: Integers

    def values(self, shares: Floats) -> Floats:
        """The log-likelihoods of distributions, shape (blocks, n) to (n,)."""
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
        found: Floats = self._counts @ np.log(np.maximum(self._matrix @ shares, LEAST))
        return found

    def expanded(self, shares: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """The slopes by share, and the information along some directions."""
        probabilities = np.maximum(self._matrix @ shares, LEAST)
        ahead = (self._matrix @ moves) * (self._roots / probabilities)[:, None]
        return (self._counts / probabilities) @ self._matrix, ahead.T @ ahead


class Quadratic:
    """The second-order expansion of a log-likelihood around a distribution.

    A report under local differential privacy says so little that the log-likelihood is nearly quadratic in
    the shares near the answer.
    """

    def __init__(
        self, centre: Floats, value: float, slopes: Floats, information: Floats, sizes: Integers
    ) -> None:
        """Take the expansion.

        Args:
            centre: the distribution, shape (blocks,).
            value: its log-likelihood.
            slopes: the slopes of the log-likelihood by share, shape (blocks,).
            information: minus its second derivatives, shape (blocks, blocks).
            sizes: the number of value buckets of each block, shape (blocks,).
        """
        self.sizes = sizes
        self._centre, self._value, self._slopes, self._information = centre, value, slopes, information

    def values(self, shares: Floats) -> Floats:
        """The log-likelihoods of distributions, shape (blocks, n) to (n,)."""
        away = shares - self._centre[:, None]
        bent = np.einsum("bn,bn->n", away, self._information @ away)
        found: Floats = self._value + self._slopes @ away - 0.5 * bent
        return found

    def expanded(self, shares: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """The slopes by share, and the information along some directions."""
        slopes = self._slopes - self._information @ (shares - self._centre)
        return slopes, moves.T @ (self._information @ moves)


def blocks_of(value_buckets: int, most: int = MOST_BLOCKS) -> tuple[Integers, Integers]:
    """The first value bucket of each block and the number of its buckets, shape (blocks,) each."""
    starts = block_starts(value_buckets, min(value_buckets, most))
    return starts, np.diff(starts, append=value_buckets)


def of_channel(channel: Channel, counts: Integers) -> Exact | None:
    """The likelihood of counts of report buckets; None if its matrix would have too many entries."""
    starts, sizes = blocks_of(channel.shape[1])
    observed = counts.astype(np.float64)
    parts = channel.channels if isinstance(channel, StackedChannel) else (channel,)
    pieces = np.split(observed, np.cumsum([part.shape[0] for part in parts])[:-1])
    rows = sum(
        min(int(np.count_nonzero(own)), MOST_BLOCKS if isinstance(part, BandChannel) else part.shape[0])
        for part, own in zip(parts, pieces, strict=True)
    )
    if (
        rows * len(sizes) > MOST_ENTRIES
        or max(part.shape[0] for part in parts) * len(sizes) > 4 * MOST_ENTRIES
    ):
        return None
    folded = [_folded(part, own, starts, sizes) for part, own in zip(parts, pieces, strict=True)]
    matrix, kept = (np.concatenate(own) for own in zip(*folded, strict=True))
    return Exact(matrix, kept, sizes)


def _folded(channel: Channel, counts: Floats, starts: Integers, sizes: Integers) -> tuple[Floats, Floats]:
    """The rows of report buckets that have reports, by block of values, and their counts."""
    if len(sizes) == channel.shape[1]:
        matrix = channel.dense()
    else:
        matrix = np.stack(
            [_even(channel, start, size) for start, size in zip(starts, sizes, strict=True)], axis=1
        )
    if isinstance(channel, BandChannel) and len(counts) > MOST_BLOCKS:
        groups = block_starts(len(counts), MOST_BLOCKS)
        matrix, counts = np.add.reduceat(matrix, groups), np.add.reduceat(counts, groups)
    seen = counts > 0.0
    return matrix[seen], counts[seen]


def _even(channel: Channel, start: int, size: int) -> Floats:
    """The probabilities of the report buckets for values that are even in a block."""
    weights = np.zeros(channel.shape[1])
    weights[start : start + size] = 1.0 / size
    found: Floats = channel.matvec(weights)
    return found

"""Products with the likelihoods of kinds of observations, which iterative estimators need."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers

#: A channel with at most this many entries is multiplied as a plain matrix: one BLAS call is faster than the
#: several NumPy calls of a structured product.
DENSE_ENTRIES = 2**17


class Products(Protocol):
    """The likelihoods of kinds of observations, as a linear operator of shape (kinds, value buckets)."""

    def forward(self, weights: Floats, /) -> Floats:
        """The probability of each kind under a distribution, shape (kinds,)."""
        ...

    def backward(self, ratios: Floats, /) -> Floats:
        """The transpose of :meth:`forward`, shape (value buckets,)."""
        ...

    def evaluate(self, weights: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """(``forward(weights)``, ``backward(counts / forward(weights))``)."""
        probabilities = self.forward(weights)
        return probabilities, self.backward(counts / probabilities)


class ChannelProducts(NamedTuple):
    """The products with the rows of a channel whose report buckets have reports.

    Attributes:
        forward: from weights to the probability of each of these report buckets.
        backward: the transpose of ``forward``.
        columns: from value buckets to their probabilities of these report buckets, a column for each.
    """

    forward: Callable[[Floats], Floats]
    backward: Callable[[Floats], Floats]
    columns: Callable[[Integers], Floats]

    def evaluate(self, weights: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """(``forward(weights)``, ``backward(counts / forward(weights))``)."""
        return Products.evaluate(self, weights, counts)


def products(channel: Channel, seen: Integers) -> ChannelProducts:
    """The products with the rows of the report buckets ``seen``, ascending."""
    if channel.shape[0] * channel.shape[1] <= DENSE_ENTRIES:
        matrix = channel.dense()[seen]
        transpose = np.ascontiguousarray(matrix.T)
        return ChannelProducts(matrix.__matmul__, transpose.__matmul__, lambda chosen: matrix[:, chosen])

    if len(seen) == channel.shape[0]:
        return ChannelProducts(channel.matvec, channel.rmatvec, channel.columns_of)

    def forward(weights: Floats) -> Floats:
        return channel.matvec(weights)[seen]

    def backward(ratios: Floats) -> Floats:
        return channel.rmatvec(spread(channel, seen, ratios))

    return ChannelProducts(forward, backward, lambda chosen: channel.columns_of(chosen)[seen])


def spread(channel: Channel, seen: Integers, numbers: Floats) -> Floats:
    """Numbers of the report buckets ``seen`` as numbers of all, with zeros for the others."""
    every = np.zeros(channel.shape[0])
    every[seen] = numbers
    return every

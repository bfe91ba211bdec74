"""Channels that are composed of other channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldpbeam.channels.channel import Channel, DenseChannel, Floats
from ldpbeam.domains import Integers


def stacked(channels: Sequence[Channel]) -> Channel:
    """The channels, one or more, with their rows stacked; a single one as it is."""
    return channels[0] if len(channels) == 1 else StackedChannel(channels)


class StackedChannel(Channel):
    """Several channels with their rows stacked, for independent reports of one population.

    The columns sum to the number of channels. EM divides by the total of all counts, so that its weights
    still sum to one.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        super().__init__(sum(channel.shape[0] for channel in channels), channels[0].shape[1])
        self.channels = tuple(channels)
        self.ends = np.cumsum([channel.shape[0] for channel in channels])[:-1]

    def _matvec(self, x: Floats) -> Floats:
        return np.concatenate([channel.matvec(np.ravel(x)) for channel in self.channels])

    def _rmatvec(self, x: Floats) -> Floats:
        parts = np.split(np.ravel(x), self.ends)
        total = np.zeros(self.shape[1])
        for channel, part in zip(self.channels, parts, strict=True):
            total += channel.rmatvec(part)
        return total

    def dense(self) -> Floats:
        """The stacked matrices of all channels."""
        return np.vstack([channel.dense() for channel in self.channels])


class ChosenColumns(Channel):
    """Chosen columns of a channel, such as one for each value, which is in one of the channel's bins.

    Args:
        channel: the channel.
        chosen: the index of each column, shape (columns,).
    """

    def __init__(self, channel: Channel, chosen: Integers) -> None:
        super().__init__(channel.shape[0], len(chosen))
        self.channel = channel
        self.chosen = chosen
        self.slots = channel.slots

    def _matvec(self, x: Floats) -> Floats:
        weights = np.bincount(self.chosen, np.ravel(x), minlength=self.channel.shape[1])
        return np.asarray(self.channel.matvec(weights))

    def _rmatvec(self, x: Floats) -> Floats:
        return np.asarray(self.channel.rmatvec(np.ravel(x))[self.chosen])

    def dense(self) -> Floats:
        """The chosen columns of the matrix."""
        return self.channel.dense()[:, self.chosen]


class BinnedChannel(ChosenColumns):
    """A channel of bins as a channel of finer value buckets, the same number for each bin.

    Raises:
        ValueError: if the number of value buckets is not a multiple of the number of bins.
    """

    def __init__(self, channel: Channel, value_buckets: int) -> None:
        bins = channel.shape[1]
        if value_buckets < 1 or value_buckets % bins:
            raise ValueError(f"{bins} bins need a multiple of {bins} value buckets, found {value_buckets}")
        super().__init__(channel, np.repeat(np.arange(bins), value_buckets // bins))

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x).reshape(self.channel.shape[1], -1).sum(axis=1)
        return np.asarray(self.channel.matvec(weights))


class MixtureChannel(Channel):
    """Several channels; each report uses one of them, drawn with fixed probabilities, and names it.

    The rows are the stacked rows of the channels, times the channels' shares; the columns sum to one.
    """

    def __init__(self, channels: Sequence[Channel], shares: Sequence[float]) -> None:
        super().__init__(sum(channel.shape[0] for channel in channels), channels[0].shape[1])
        self.stacked = StackedChannel(channels)
        self.shares = np.repeat(shares, [channel.shape[0] for channel in channels])

    def _matvec(self, x: Floats) -> Floats:
        return np.asarray(self.shares * self.stacked.matvec(np.ravel(x)))

    def _rmatvec(self, x: Floats) -> Floats:
        return self.stacked.rmatvec(self.shares * np.ravel(x))

    def dense(self) -> Floats:
        """The stacked matrices, each row times its channel's share."""
        return self.shares[:, None] * self.stacked.dense()


class ReducedChannel(Channel):
    """A channel of components, each the mixture of its value buckets in equal shares.

    A product divides each component's weight equally among its buckets and uses the channel's own product.

    Args:
        channel: P(report bucket | value bucket).
        labels: the component of each value bucket, 0 .. components - 1.
    """

    def __init__(self, channel: Channel, labels: Integers) -> None:
        self.sizes: Integers = np.bincount(labels)
        super().__init__(channel.shape[0], len(self.sizes))
        self.channel = channel
        self.labels = labels
        self.slots = channel.slots

    def spread(self, weights: Floats) -> Floats:
        """The weights of value buckets, shape (value buckets,), from those of components."""
        return (weights / self.sizes)[self.labels]

    def _matvec(self, x: Floats) -> Floats:
        return self.channel.matvec(self.spread(np.ravel(x)))

    def _rmatvec(self, x: Floats) -> Floats:
        products = self.channel.rmatvec(np.ravel(x))
        return np.bincount(self.labels, products, minlength=self.shape[1]) / self.sizes

    def dense(self) -> Floats:
        """The matrix: the mean of the columns of each component's value buckets."""
        order = np.argsort(self.labels, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        return np.add.reduceat(self.channel.dense()[:, order], starts, axis=1) / self.sizes


def by_block(channel: Channel, sizes: Integers) -> Floats:
    """The mean column of each block of neighbouring value buckets, shape (report buckets, blocks).

    Args:
        channel: the channel.
        sizes: the number of value buckets of each block, shape (blocks,).
    """
    reduced = ReducedChannel(channel, np.repeat(np.arange(len(sizes)), sizes))
    # One product per block takes longer than reducing a matrix that already exists.
    return reduced.dense() if isinstance(channel, DenseChannel) else reduced.matmat(np.eye(len(sizes)))


def with_ends(columns: Floats, ends: Floats) -> Floats:
    """P(cell | value bucket) with the two ends of the range, shape (cells, value buckets + 2).

    Many people may be at an end itself, and not spread over the bucket beside it. The ends are the first and
    the last column.

    Args:
        columns: P(cell | value bucket), for all cells or some, shape (cells, value buckets).
        ends: P(cell | the low end), and of the high end, shape (cells, 2).
    """
    return np.column_stack((ends[:, 0], columns, ends[:, 1]))

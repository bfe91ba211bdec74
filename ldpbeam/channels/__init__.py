"""Channels: mechanisms as probabilities P(report bucket | value bucket).

A channel is a scipy ``LinearOperator`` of shape (report buckets, value buckets) whose columns sum to
one. A value is uniform inside its bucket, and densities are integrated exactly over both buckets, so
nothing is evaluated at midpoints only. Each class knows its structure: a product costs O(buckets),
and :meth:`Channel.dense` computes the same matrix from an independent closed form.

A channel that one mechanism uses stands beside that mechanism.
"""

from ldpbeam.channels.band import BandChannel
from ldpbeam.channels.channel import Channel, DenseChannel, DiagonalChannel
from ldpbeam.channels.composed import BinnedChannel, MixtureChannel, StackedChannel

__all__ = [
    "BandChannel",
    "BinnedChannel",
    "Channel",
    "DenseChannel",
    "DiagonalChannel",
    "MixtureChannel",
    "StackedChannel",
]

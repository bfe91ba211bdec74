"""Channels: mechanisms as probabilities P(report bucket | value bucket).

A channel is a scipy ``LinearOperator`` of shape (report buckets, value buckets) whose columns sum to one. A
value is uniform inside its bucket, and densities are integrated exactly over both buckets, not evaluated at
midpoints. Most classes use their structure, so that a product takes time O(buckets). :meth:`Channel.dense`
computes the same matrix from an independent closed form.

A channel that only one mechanism uses is in that mechanism's file.
"""

from ldpbeam.channels.band import Band, BandChannel
from ldpbeam.channels.channel import Channel, DenseChannel, DiagonalChannel, SlotChannel, bits_channel
from ldpbeam.channels.composed import (
    BinnedChannel,
    ChosenColumns,
    MixtureChannel,
    ReducedChannel,
    StackedChannel,
    by_block,
    stacked,
    with_ends,
)

__all__ = [
    "Band",
    "BandChannel",
    "BinnedChannel",
    "Channel",
    "ChosenColumns",
    "DenseChannel",
    "DiagonalChannel",
    "MixtureChannel",
    "ReducedChannel",
    "SlotChannel",
    "StackedChannel",
    "bits_channel",
    "by_block",
    "stacked",
    "with_ends",
]

"""Channels: mechanisms as probabilities P(report bucket | value bucket).

A channel is a scipy ``LinearOperator`` of shape (report buckets, value buckets) whose columns sum to one. A
value is uniform inside its bucket, and densities are integrated exactly over both buckets, not evaluated at
midpoints. Most classes use their structure, so that a product takes time O(buckets). :meth:`Channel.dense`
computes the same matrix from an independent closed form.

A channel that only one mechanism uses is in that mechanism's file.
"""

from ldpbeam.channels.band import Band as Band
from ldpbeam.channels.band import BandChannel as BandChannel
from ldpbeam.channels.channel import Channel as Channel
from ldpbeam.channels.channel import DenseChannel as DenseChannel
from ldpbeam.channels.channel import DiagonalChannel as DiagonalChannel
from ldpbeam.channels.channel import SlotChannel as SlotChannel
from ldpbeam.channels.channel import bits_channel as bits_channel
from ldpbeam.channels.composed import BinnedChannel as BinnedChannel
from ldpbeam.channels.composed import ChosenColumns as ChosenColumns
from ldpbeam.channels.composed import MixtureChannel as MixtureChannel
from ldpbeam.channels.composed import ReducedChannel as ReducedChannel
from ldpbeam.channels.composed import StackedChannel as StackedChannel
from ldpbeam.channels.composed import by_block as by_block
from ldpbeam.channels.composed import stacked as stacked
from ldpbeam.channels.composed import with_ends as with_ends

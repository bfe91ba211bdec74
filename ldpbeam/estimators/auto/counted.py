"""The likelihood of counts of report buckets, by block of value buckets, and at the two ends of the range.

If there are many value buckets, neighbours are put together into blocks; inside a block the distribution is
even. The two ends of the range are separate blocks without a width, because clients clip values: many people
may be at an end. If the domain has a step, blocks are values, and each end is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.channels import BandChannel, Channel, by_block, with_ends
from ldpbeam.density.likelihoods import Exact
from ldpbeam.domains import Floats, Integers, least_multiple, number_of_values
from ldpbeam.estimators.linearised import block_starts, blocks_of

#: With fewer value buckets, each is divided: inside a wide bucket a distribution is not even.
LEAST_BUCKETS = 256
#: The most blocks of an exact likelihood, and the most rows of a band: neighbours are put together.
MOST_BLOCKS = 1_024
#: The most entries of an exact likelihood's matrix (64 MB).
MOST_ENTRIES = 2**23


def fine_buckets(attribute: Attribute) -> int:
    """The number of equal parts of the range on which densities are found, a multiple of the value buckets.

    If the domain has a step, the parts are its values.
    """
    return number_of_values(attribute.domain) or least_multiple(attribute.value_buckets, LEAST_BUCKETS)


def of_channels(
    channels: Sequence[Channel], counts: Sequence[Floats], ends: Sequence[Floats] = ()
) -> Exact | None:
    """The likelihood of each channel's counts of report buckets; None if its matrix would be too large.

    Args:
        channels: P(report bucket | value bucket), for each kind of report.
        counts: the counts of the report buckets of each channel.
        ends: P(report bucket | value) at the two ends of the range, for each channel. If it is empty, the
            ends have no blocks.
    """
    buckets = channels[0].shape[1]
    _, sizes = blocks_of(buckets, min(buckets, MOST_BLOCKS))
    rows = sum(
        min(
            int(np.count_nonzero(of_buckets)),
            MOST_BLOCKS if isinstance(channel, BandChannel) else channel.shape[0],
        )
        for channel, of_buckets in zip(channels, counts, strict=True)
    )
    # While the matrix is built, it also has the rows without reports.
    whole = max(channel.shape[0] for channel in channels)
    if max(rows, whole / 4) * len(sizes) > MOST_ENTRIES:
        return None
    folded = [
        _folded(channel, of_buckets, sizes, at_ends)
        for channel, of_buckets, at_ends in zip_longest(channels, counts, ends)
    ]
    matrix, kept = (np.concatenate(arrays) for arrays in zip(*folded, strict=True))
    return Exact(matrix, kept, with_points(sizes) if ends else sizes)


def with_points(sizes: Integers) -> Integers:
    """The sizes of blocks with the two ends of the range, which are points of size 0, shape (blocks + 2,)."""
    return np.pad(sizes, 1)


def _folded(channel: Channel, counts: Floats, sizes: Integers, ends: Floats | None) -> tuple[Floats, Floats]:
    """(the rows of the report buckets that have reports, by block of values; their counts)."""
    matrix = channel.dense() if len(sizes) == channel.shape[1] else by_block(channel, sizes)
    matrix = matrix if ends is None else with_ends(matrix, ends)
    if isinstance(channel, BandChannel) and len(counts) > MOST_BLOCKS:
        groups = block_starts(len(counts), MOST_BLOCKS)
        matrix, counts = np.add.reduceat(matrix, groups), np.add.reduceat(counts, groups)
    seen = counts > 0.0
    return matrix[seen], counts[seen]

"""The likelihood of counts of report buckets, by block of value buckets.

Value buckets are put together into blocks if there are many; the distribution is even inside a block.
"""

from __future__ import annotations

import numpy as np

from ldpbeam.channels import BandChannel, Channel, StackedChannel, by_block
from ldpbeam.density.likelihoods import Exact
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.linearised import block_starts, blocks_of

#: The most blocks of an exact likelihood, and the most rows of a band: neighbours are put together.
MOST_BLOCKS = 1_024
#: The most entries of an exact likelihood's matrix (64 MB).
MOST_ENTRIES = 2**23


def of_channel(channel: Channel, counts: Floats) -> Exact | None:
    """The likelihood of counts of report buckets; None if its matrix would have too many entries."""
    _, sizes = blocks_of(channel.shape[1], min(channel.shape[1], MOST_BLOCKS))
    observed = np.asarray(counts, dtype=np.float64)
    parts = channel.channels if isinstance(channel, StackedChannel) else (channel,)
    pieces = np.split(observed, np.cumsum([part.shape[0] for part in parts])[:-1])
    rows = sum(
        min(int(np.count_nonzero(piece)), MOST_BLOCKS if isinstance(part, BandChannel) else part.shape[0])
        for part, piece in zip(parts, pieces, strict=True)
    )
    if (
        rows * len(sizes) > MOST_ENTRIES
        or max(part.shape[0] for part in parts) * len(sizes) > 4 * MOST_ENTRIES
    ):
        return None
    folded = [_folded(part, piece, sizes) for part, piece in zip(parts, pieces, strict=True)]
    matrix, kept = (np.concatenate(arrays) for arrays in zip(*folded, strict=True))
    return Exact(matrix, kept, sizes)


def _folded(channel: Channel, counts: Floats, sizes: Integers) -> tuple[Floats, Floats]:
    """The rows of report buckets that have reports, by block of values, and their counts."""
    matrix = channel.dense() if len(sizes) == channel.shape[1] else by_block(channel, sizes)
    if isinstance(channel, BandChannel) and len(counts) > MOST_BLOCKS:
        groups = block_starts(len(counts), MOST_BLOCKS)
        matrix, counts = np.add.reduceat(matrix, groups), np.add.reduceat(counts, groups)
    seen = counts > 0.0
    return matrix[seen], counts[seen]

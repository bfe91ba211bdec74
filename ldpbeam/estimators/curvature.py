"""The curvature of a channel's likelihood on blocks of value buckets, as Newton's method needs it."""

from __future__ import annotations

import math

import numpy as np

from ldpbeam.channels import BandChannel, Channel, StackedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.fixed_point import Curvature
from ldpbeam.estimators.linearised import block_starts

#: There are this many blocks times the square root of the value buckets, and at most so many: the details of
#: an estimate grow with that root.
BLOCKS_PER_ROOT, MOST_BLOCKS = 4, 512


def curvature_of(channel: Channel, seen: Integers) -> Curvature:
    """The curvature of a channel's likelihood, for the report buckets ``seen``.

    A band is computed from its formula with fewer buckets; report buckets are put together too, because it
    changes little between neighbours. Other channels are multiplied with each block.
    """
    buckets = channel.shape[1]
    blocks = max(1, min(MOST_BLOCKS, BLOCKS_PER_ROOT * math.isqrt(buckets), buckets // 2))
    likelihoods, groups = _by_block(channel, blocks)
    group_of, sizes = groups[seen], np.bincount(groups, minlength=len(likelihoods)).astype(np.float64)

    def curvature(of_kinds: Floats) -> Floats:
        of_groups = np.bincount(group_of, of_kinds, minlength=len(likelihoods)) / sizes**2
        means: Floats = likelihoods.T @ (of_groups[:, None] * likelihoods)
        return means

    return curvature


def _by_block(channel: Channel, blocks: int) -> tuple[Floats, Integers]:
    """The mean likelihood of groups of report buckets by block of values, and each report bucket's group.

    The shapes are (groups, blocks) and (report buckets,).
    """
    rows, buckets = channel.shape
    if isinstance(channel, StackedChannel):
        parts = [_by_block(part, blocks) for part in channel.channels]
        first = np.cumsum([0] + [len(likelihoods) for likelihoods, _ in parts])
        shifted = [groups + shift for (_, groups), shift in zip(parts, first, strict=False)]
        return np.vstack([likelihoods for likelihoods, _ in parts]), np.concatenate(shifted)
    if isinstance(channel, BandChannel):
        some = min(rows, 2 * blocks)
        groups = np.zeros(rows, np.int64)
        groups[block_starts(rows, some)[1:]] = 1
        return channel.coarser(blocks, some).dense(), np.cumsum(groups)
    starts = block_starts(buckets, blocks)
    sizes = np.diff(starts, append=buckets)
    likelihoods = np.empty((rows, blocks))
    for block, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        weights = np.zeros(buckets)
        weights[start : start + size] = 1.0 / size
        likelihoods[:, block] = channel.matvec(weights)
    return likelihoods, np.arange(rows)

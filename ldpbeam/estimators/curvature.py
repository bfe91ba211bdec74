"""The curvature of likelihoods on blocks of value buckets, as Newton's method needs it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ldpbeam.channels import BandChannel, Channel, StackedChannel, by_block
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.fixed_point import Curvature
from ldpbeam.estimators.joint_likelihood import JointProducts
from ldpbeam.estimators.linearised import block_starts, blocks_of

#: With at most this many kinds of observations the curvature is not smooth, and comes from their likelihoods.
FEW_KINDS = 32
#: Up to this many value buckets, the curvature is computed bucket by bucket.
FEW_BUCKETS = 128
#: With more, there are this many blocks times the square root of the value buckets, up to a maximum: the
#: details of an estimate grow with that root.
BLOCKS_PER_ROOT, MOST_BLOCKS = 4, 512
#: The number of blocks for users of several services, who differ more.
BLOCKS_OF_USERS = 128
#: The most kinds of users that the curvature is computed from, which give it to about a hundredth in every
#: direction, and the most entries of their likelihoods (128 MB).
SAMPLE, SAMPLE_ENTRIES = 20_000, 2**24


def curvature_of(channel: Channel, seen: Integers) -> Curvature:
    """The curvature of a channel's likelihood, for the report buckets ``seen``.

    A band is computed from its formula with fewer buckets. Report buckets are pooled too, because neighbours
    differ little. Other channels are multiplied with each block.
    """
    rows, buckets = channel.shape
    if len(seen) <= FEW_KINDS:
        ones = np.zeros((len(seen), rows))
        ones[np.arange(len(seen)), seen] = 1.0
        return Curvature(np.diag, np.array([channel.rmatvec(unit) for unit in ones]))
    few = buckets <= FEW_BUCKETS
    blocks = buckets if few else min(MOST_BLOCKS, BLOCKS_PER_ROOT * math.isqrt(buckets))
    likelihoods, groups = _by_block(channel, blocks)
    group_of, sizes = groups[seen], np.bincount(groups, minlength=len(likelihoods)).astype(np.float64)

    def curvature(of_kinds: Floats) -> Floats:
        of_groups = np.bincount(group_of, of_kinds, minlength=len(likelihoods)) / sizes**2
        return likelihoods.T @ (of_groups[:, None] * likelihoods)

    return Curvature(curvature, np.eye(buckets) if few else None)


def curvature_of_users(products: JointProducts, counts: Floats, value_buckets: int) -> Curvature:
    """The curvature of the likelihood of kinds of users, from an evenly spaced sample of them.

    Args:
        products: the products with the likelihoods of the kinds.
        counts: the number of users of each kind, shape (kinds,).
        value_buckets: the number of value buckets.
    """
    if len(counts) <= FEW_KINDS:
        return Curvature(np.diag, products.rows(np.arange(len(counts))))
    if value_buckets <= FEW_BUCKETS:
        return Curvature(
            sampled_curvature(products, counts, value_buckets, value_buckets), np.eye(value_buckets)
        )
    return Curvature(
        sampled_curvature(products, counts, value_buckets, min(BLOCKS_OF_USERS, value_buckets // 2))
    )


def sampled_curvature(
    products: JointProducts, counts: Floats, value_buckets: int, blocks: int
) -> Callable[[Floats], Floats]:
    """The means of the curvature of users over pairs of blocks of value buckets, for :class:`Curvature`."""
    size = min(len(counts), SAMPLE, max(1, SAMPLE_ENTRIES // blocks))
    sample: Integers = np.linspace(0, len(counts) - 1, size).astype(np.int64)
    starts, sizes = blocks_of(value_buckets, blocks)
    parts = np.array_split(sample, -(-size * value_buckets // SAMPLE_ENTRIES))
    likelihoods = np.concatenate(
        [np.add.reduceat(products.rows(part), starts, axis=1) / sizes for part in parts]
    )
    users_per_sampled = counts.sum() / counts[sample].sum()

    def means(of_kinds: Floats) -> Floats:
        scaled = likelihoods * np.sqrt(users_per_sampled * of_kinds[sample])[:, None]
        return np.asarray(scaled.T @ scaled)

    return means


def _by_block(channel: Channel, blocks: int) -> tuple[Floats, Integers]:
    """The mean likelihood of groups of report buckets by block of values, and the group of every bucket.

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
        return BandChannel(blocks, some, channel.band).dense(), np.cumsum(groups)
    return by_block(channel, blocks_of(buckets, blocks)[1]), np.arange(rows)

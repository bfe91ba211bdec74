"""How fine the buckets of reports must be to lose little of their information.

Information is the mutual information of value and report. The share of it that a resolution keeps depends on
the population, so it is computed for a few populations, and the lowest share counts.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy import special

from ldpbeam.domains import Floats
from ldpbeam.mechanisms import Mechanism

#: If a joint histogram keeps less than this share of a channel's information, there is a warning.
ENOUGH = 0.95
#: Resolutions are chosen to keep this share for each of :func:`populations`; in more concentrated
#: populations, :data:`ENOUGH` then remains.
AIMED = 0.98
#: The resolutions to choose from. With "no report", the finest fits in a byte.
RESOLUTIONS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 254)
#: The resolution of reports that stands for all their information.
FINEST = 2048
#: Information is computed with at most this many value buckets.
MOST_VALUES = 256


def mutual_information(channel: Floats, weights: Floats) -> float:
    """The mutual information of value and report bucket, in nats.

    Args:
        channel: P(report bucket | value bucket), shape (report buckets, value buckets).
        weights: the distribution of values, shape (value buckets,).
    """
    marginal_of_report = channel @ weights
    ratio = np.where(channel > 0, channel, 1.0) / marginal_of_report[:, None]
    return float((channel * np.log(ratio)).sum(axis=0) @ weights)


def is_resolved(mechanism: Mechanism) -> bool:
    """Whether a mechanism's report buckets depend on the resolution; for signs and categories they do not."""
    return mechanism.cells(2) != mechanism.cells(4)


@functools.cache
def populations(value_buckets: int) -> tuple[Floats, ...]:
    """An even population, two skewed ones, to either side, and one with two humps.

    Returns:
        Distributions of shape (``value_buckets``,).
    """
    edges = np.linspace(0.0, 1.0, value_buckets + 1)
    shapes = [(1.0, 1.0), (2.0, 5.0), (5.0, 2.0), (1.0, 8.0), (8.0, 1.0)]
    shapes_shares = [np.diff(special.betainc(a, b, edges)) for a, b in shapes]
    humps = [np.diff(special.betainc(a, b, edges)) for a, b in ((20.0, 80.0), (80.0, 20.0))]
    return (*shapes_shares, 0.5 * humps[0] + 0.5 * humps[1])


@functools.lru_cache(maxsize=1024)
def _information(mechanism: Mechanism, value_buckets: int, resolution: int) -> tuple[float, ...]:
    channel = mechanism.channel(value_buckets, resolution).dense()
    return tuple(mutual_information(channel, weights) for weights in populations(value_buckets))


def least_kept(mechanism: Mechanism, value_buckets: int, resolution: int) -> float:
    """The share of the information that a resolution keeps for the worst of :func:`populations`."""
    if not is_resolved(mechanism):
        return 1.0
    values = min(value_buckets, MOST_VALUES)
    coarse, fine = (_information(mechanism, values, n) for n in (resolution, FINEST))
    return min(min(1.0, a / b) for a, b in zip(coarse, fine, strict=True))


def enough_buckets(mechanism: Mechanism, value_buckets: int) -> int:
    """The first of :data:`RESOLUTIONS` that keeps :data:`AIMED` of the information, else the finest."""
    for resolution in RESOLUTIONS:
        if least_kept(mechanism, value_buckets, resolution) >= AIMED:
            return resolution
    return RESOLUTIONS[-1]

"""How far an estimate is from the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.domains import Floats


def wasserstein(estimate: ArrayLike, truth: ArrayLike, width: float = 1.0) -> float:
    """W1 between two distributions over equal buckets of a range of ``width``: mean |CDF gap| x width."""
    gap = np.cumsum(np.asarray(estimate, dtype=float) - np.asarray(truth, dtype=float))
    return float(np.abs(gap).mean() * width)


def kolmogorov_smirnov(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The largest gap between the two distribution functions."""
    return float(np.abs(np.cumsum(np.asarray(estimate, dtype=float) - np.asarray(truth, dtype=float))).max())


def jensen_shannon(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The square root of the Jensen-Shannon divergence, natural logarithm, in [0, sqrt(ln 2)].

    Against a sample's own histogram of n values it has a floor of about sqrt((buckets - 1) / (8 n)).
    """
    p = np.asarray(estimate, dtype=float)
    q = np.asarray(truth, dtype=float)
    middle = 0.5 * (p + q)

    def divergence(one: Floats) -> float:
        positive = one > 0
        return float(np.sum(one[positive] * np.log(one[positive] / middle[positive])))

    return float(np.sqrt(max(0.0, 0.5 * divergence(p) + 0.5 * divergence(q))))


def mean_absolute_error(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The mean of |estimate - truth| over all entries."""
    return float(np.mean(np.abs(np.asarray(estimate, float) - np.asarray(truth, float))))


def quantiles(distribution: ArrayLike, edges: ArrayLike, levels: Sequence[float]) -> Floats:
    """Quantiles of a distribution that is uniform inside each bucket, shape (levels,).

    Args:
        distribution: bucket masses, non-negative, of sum 1; shape (buckets,).
        edges: the buckets' edges, shape (buckets + 1,).
        levels: probabilities in (0, 1).
    """
    mass = np.asarray(distribution, dtype=float)
    cumulative = np.concatenate(([0.0], np.cumsum(mass)))
    where = np.asarray(edges, dtype=float)
    targets = np.asarray(levels, dtype=float) * cumulative[-1]
    bucket = np.clip(np.searchsorted(cumulative, targets, side="left") - 1, 0, len(mass) - 1)
    held = mass[bucket]
    inside = np.where(held > 0, (targets - cumulative[bucket]) / np.where(held > 0, held, 1.0), 0.0)
    return np.asarray(where[bucket] + np.clip(inside, 0.0, 1.0) * np.diff(where)[bucket])

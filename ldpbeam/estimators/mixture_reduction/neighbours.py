"""Which neighbours of a numeric range mixture reduction merges (Ye et al., NDSS 2025, Algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.iteration import smooth
from ldpbeam.estimators.mixture_reduction.merging import ReducedChannel

#: The bootstrap of numeric windows: as many draws, each estimated in as many equal buckets at most.
DRAWS, DRAWN_BUCKETS = 32, 64
#: Draws end like EMS, or here: a deviation needs no more digits.
DRAWN_ITERATIONS = 2_000


class Windows:
    """Algorithm 3: neighbours of a numeric range, in windows of half the buckets, a quarter, and so on.

    Of the windows of one width whose components are all single buckets, the one of least weight is merged
    where that is below tau, so many standard deviations of the window's weight. Each call goes on with the
    next width.

    The paper takes the deviation from the Cramer-Rao bound, of one bucket, and without the square that
    equations 12 and 13 lack; with the full information matrix it is above any weight, so that every window
    would be merged. Here it is that of parametric bootstrap draws.

    Args:
        draw: weights before the first merge, to cumulative weights of bootstrap draws at the buckets' edges,
            shape (value buckets + 1, draws).
        deviations: of tau.
    """

    def __init__(self, draw: Callable[[Floats], Floats], deviations: float) -> None:
        self.draw = draw
        self.deviations = deviations
        self.width = 0
        self.cumulative = np.zeros((0, 0))

    def __call__(self, weights: Floats, sizes: Integers, at_most: int) -> Integers:
        """The next window, empty where there is none."""
        if not self.width:
            self.width = len(weights)
            self.cumulative = self.draw(weights)
        edges = np.concatenate(([0], np.cumsum(sizes)))
        mass = np.concatenate(([0.0], np.cumsum(weights)))
        single = np.concatenate(([0], np.cumsum(sizes == 1)))
        while self.width > 2:
            self.width = -(-self.width // 2)
            width = min(self.width, at_most)
            whole = single[width:] - single[:-width] == width
            if not whole.any():
                continue
            sums = np.where(whole, mass[width:] - mass[:-width], np.inf)
            start = int(np.argmin(sums))
            drawn = self.cumulative[edges[start + width]] - self.cumulative[edges[start]]
            if sums[start] < self.deviations * np.std(drawn, ddof=1):
                return np.arange(start, start + width)
        return np.arange(0)


def bootstrap(
    channels: Sequence[Channel], reports: Sequence[int], weights: Floats, tolerance: float
) -> Floats:
    """Cumulative weights of bootstrap draws at the buckets' edges, shape (value buckets + 1, draws).

    The bootstrap is parametric: each draw has new reports of every channel from the weights. It is estimated
    by EMS, all draws at once, in equal buckets that are coarser: a window's weight is a difference of
    cumulative weights, which do not need the finest ones. The draws are the same at every call.

    Args:
        channels: of each service and version.
        reports: how many counts each has.
        weights: of value buckets.
        tolerance: of EMS.
    """
    rng = np.random.default_rng(0)
    buckets = len(weights)
    drawn, likelihoods = [], []
    coarse = min(DRAWN_BUCKETS, buckets)
    labels = np.arange(buckets) * coarse // buckets
    for channel, n in zip(channels, reports, strict=True):
        probabilities = np.maximum(channel.matvec(weights), 0.0)
        drawn.append(rng.multinomial(n, probabilities / probabilities.sum(), size=DRAWS).T)
        likelihoods.append(ReducedChannel(channel, labels).matmat(np.eye(coarse)))
    counts = np.vstack(drawn).astype(np.float64)
    seen = counts.any(axis=1)
    counts, matrix = counts[seen], np.vstack(likelihoods)[seen]
    estimates = np.full((coarse, DRAWS), 1.0 / coarse)
    last = np.full(DRAWS, -np.inf)
    for _ in range(DRAWN_ITERATIONS):
        probabilities = matrix @ estimates
        likelihood = np.einsum("ij,ij->j", counts, np.log(probabilities))
        if (likelihood - last < tolerance).all():
            break
        last = likelihood
        estimates = smooth(estimates * (matrix.T @ (counts / probabilities)))
        estimates /= estimates.sum(axis=0)
    ends = np.concatenate(([0], np.cumsum(np.bincount(labels))))
    cumulative = np.vstack((np.zeros(DRAWS), np.cumsum(estimates, axis=0)))
    at = np.arange(buckets + 1)
    return np.column_stack([np.interp(at, ends, column) for column in cumulative.T])

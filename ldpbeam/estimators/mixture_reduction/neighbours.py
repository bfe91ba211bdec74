"""The choice of the neighbours that mixture reduction merges in a numeric range (Algorithm 3).

The source is Ye et al., NDSS 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ldpbeam.channels import Channel, ReducedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.iteration import smooth

#: The number of bootstrap draws, and the most equal buckets that each draw is estimated in.
DRAWS, DRAWN_BUCKETS = 32, 64
#: EMS over the draws stops after this many iterations: a standard deviation needs no more digits.
DRAWN_ITERATIONS = 2_000


class NeighbourChoice:
    """Algorithm 3: choose neighbours to merge, in windows of half of all buckets, then a quarter, and so on.

    A window is a run of neighbouring components that are still single buckets. Of all windows of one width,
    the one with the least weight is merged if that weight is below tau, which is ``deviations`` times the
    weight's standard deviation. The next call tries windows of the next smaller width.

    The paper takes the standard deviation from the Cramer-Rao bound of a single bucket; its equations 12 and
    13 lack a square. With the full information matrix, the bound exceeds every weight, so that every window
    would be merged. This class uses the standard deviation over parametric bootstrap draws instead.

    Args:
        draw: maps the weights before the first merge to the cumulative weights of bootstrap draws at the
            buckets' edges, shape (value buckets + 1, draws).
        deviations: the number of standard deviations in tau.
    """

    def __init__(self, draw: Callable[[Floats], Floats], deviations: float) -> None:
        self.draw = draw
        self.deviations = deviations
        self.width = 0
        self.cumulative = np.zeros((0, 0))

    def __call__(self, weights: Floats, sizes: Integers, at_most: int) -> Integers:
        """The components of the next window to merge; empty if there is none.

        Args:
            weights: the weight of each component, shape (components,).
            sizes: the number of buckets of each component, shape (components,).
            at_most: the most components that may be merged at once.
        """
        if not self.width:
            self.width = len(weights)
            self.cumulative = self.draw(weights)
        edges = np.concatenate(([0], np.cumsum(sizes)))
        mass = np.concatenate(([0.0], np.cumsum(weights)))
        single = np.concatenate(([0], np.cumsum(sizes == 1)))
        while self.width > 2:
            self.width = -(-self.width // 2)
            width = min(self.width, at_most)
            unmerged = single[width:] - single[:-width] == width
            if not unmerged.any():
                continue
            sums = np.where(unmerged, mass[width:] - mass[:-width], np.inf)
            start = int(np.argmin(sums))
            drawn = self.cumulative[edges[start + width]] - self.cumulative[edges[start]]
            if sums[start] < self.deviations * np.std(drawn, ddof=1):
                return np.arange(start, start + width)
        return np.arange(0)


def bootstrap(
    channels: Sequence[Channel], reports: Sequence[int], weights: Floats, tolerance: float
) -> Floats:
    """Cumulative weights of bootstrap draws at the buckets' edges, shape (value buckets + 1, draws).

    The bootstrap is parametric: each draw simulates new reports of every channel from the weights. EMS
    estimates all draws at once, in coarser equal buckets, which suffice because a window's weight is the
    difference of two cumulative weights. The seed is fixed, so every call has the same draws.

    Args:
        channels: the channel of each service and version.
        reports: the number of reports of each channel.
        weights: the weights of value buckets, shape (value buckets,).
        tolerance: the tolerance of EMS.
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

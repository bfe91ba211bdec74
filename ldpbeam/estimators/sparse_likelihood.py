"""The maximum-likelihood distribution of numbers, which is sparse, by Newton steps on its support.

Without smoothing, the log-likelihood is concave in the weights, and few buckets have weight at its maximum;
EM shrinks the others forever. This solver adds the buckets with the greatest slope of the likelihood, solves
the quadratic approximation for non-negative weights on that support, and drops buckets of weight zero. It is
the constrained Newton method of Wang (J. R. Stat. Soc. B 2007).
"""

from __future__ import annotations

import numpy as np
import scipy

from ldpbeam.channels import BandChannel, Channel, StackedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.fixed_point import LARGEST_CHANGE
from ldpbeam.estimators.iteration import Fit, Trace
from ldpbeam.estimators.products import ChannelProducts

#: The buckets of the first support, evenly spaced.
FIRST_SUPPORT = 16
#: How strongly the quadratic problem demands weights that sum to one.
SUM_TO_ONE = 1e3
#: The relative rounding error of a slope.
ROUNDING = 1e-13
#: After this many iterations without a gain, any further gain is a rounding error.
MOST_STUCK = 3
#: The halvings of a step before it is given up.
HALVINGS = 40


def sparsest(
    products: ChannelProducts, counts: Floats, buckets: int, trace: Trace, *, tolerance: float
) -> Fit:
    """The weights of greatest likelihood.

    The log-likelihood is concave, so it is within n (greatest slope / n - 1) of its maximum. An iteration
    makes one product with ``backward``, and takes the columns of the buckets that are new in the support.

    Args:
        products: the products with the likelihoods of the kinds of observations.
        counts: the number of observations of each kind, shape (kinds,), all above zero.
        buckets: the number of value buckets.
        trace: counts the iterations; once it is full, the solver ends, not converged.
        tolerance: the solver stops when the log-likelihood is within this of its maximum and a plain update
            changes no share by more than 1e-8, or when both are rounding errors.
    """
    total = float(counts.sum())
    support = np.unique(np.linspace(0, buckets - 1, min(buckets, FIRST_SUPPORT)).astype(np.int64))
    columns = products.columns(support)
    weights = np.full(len(support), 1.0 / len(support))
    converged, stuck, last = False, 0, -np.inf
    while not converged and not trace.is_full:
        probabilities = columns @ weights
        likelihood = float(counts @ np.log(probabilities))
        trace.tell(likelihood)
        slopes = products.backward(counts / probabilities) / total
        change = np.abs(weights * (slopes[support] - 1.0)).max()
        gap = float(slopes.max()) - 1.0
        converged = gap <= max(tolerance / total, ROUNDING) and change <= LARGEST_CHANGE
        if converged:
            break
        new = np.setdiff1d(_peaks(slopes), support)
        support = np.concatenate((support, new))
        columns = np.hstack((columns, products.columns(new)))
        weights = np.concatenate((weights, np.zeros(len(new))))
        stuck, last = stuck + 1 if likelihood <= last else 0, likelihood
        moved = _step(columns, weights, counts, probabilities, likelihood) if stuck < MOST_STUCK else None
        if moved is None:
            break
        kept = moved > 0.0
        support, columns, weights = support[kept], columns[:, kept], moved[kept]
    shares = np.zeros(buckets)
    shares[support] = weights
    return trace.fit(shares / shares.sum(), converged)


def is_of_bands(channel: Channel) -> bool:
    """Whether the maximum is unique in general, as it is for square waves and the piecewise mechanism.

    Other channels may be blind to many changes of the weights. The maximum that EM reaches from uniform
    weights is then better than a sparse one.
    """
    if isinstance(channel, StackedChannel):
        return all(map(is_of_bands, channel.channels))
    return isinstance(channel, BandChannel)


def _peaks(slopes: Floats) -> Integers:
    """The buckets whose slope is above one and no less than that of both neighbours."""
    framed = np.concatenate(([-np.inf], slopes, [-np.inf]))
    peaks = (slopes > 1.0) & (slopes >= framed[:-2]) & (slopes > framed[2:])
    return np.flatnonzero(peaks)


def _step(
    columns: Floats, weights: Floats, counts: Floats, probabilities: Floats, likelihood: float
) -> Floats | None:
    """The weights after a step to the maximum of the quadratic approximation, or None if it is no better."""
    scale = np.sqrt(counts / counts.sum()) / probabilities
    system = np.vstack((columns * scale[:, None], np.full((1, len(weights)), SUM_TO_ONE)))
    right = np.append(2.0 * scale * probabilities, SUM_TO_ONE)
    orthogonal, triangular = np.linalg.qr(system)
    solution, _ = scipy.optimize.nnls(triangular, orthogonal.T @ right, maxiter=50 * len(weights))
    step = solution / solution.sum() - weights
    ahead, slack = columns @ step, ROUNDING * abs(likelihood)
    for halvings in range(HALVINGS):
        length = 0.5**halvings
        there = probabilities + length * ahead
        if there.min() > 0.0 and counts @ np.log(there) >= likelihood - slack:
            moved = np.maximum(weights + length * step, 0.0)
            return np.asarray(moved / moved.sum())
    return None

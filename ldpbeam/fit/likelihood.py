"""The least deviance of counts from any distribution of values, as precisely as a test needs it."""

from __future__ import annotations

import numpy as np

from ldpbeam.channels import Channel, DiagonalChannel
from ldpbeam.domains import Floats
from ldpbeam.estimators.conjugate import is_nearly_orthogonal, most_likely
from ldpbeam.estimators.frequencies import maximum_likelihood
from ldpbeam.estimators.iteration import Fit, Trace, accelerate
from ldpbeam.estimators.products import ChannelProducts, products
from ldpbeam.estimators.sparse_likelihood import sparsest
from ldpbeam.fit.deviance import checked, deviance, moments

#: No run flags a p-value above this, so the search for a better distribution ends.
CLEAR = 0.1
#: The most updates of EM, and the updates between two looks at the deviance.
MOST_UPDATES, UPDATES = 60, 4
#: The log-likelihood reaches its maximum to within this.
TOLERANCE = 0.01
#: The most iterations of the solver that finds the maximum.
MOST_ITERATIONS = 300


def misfit_p_value(channel: Channel, counts: Floats, *, sparse: bool) -> float:
    """An upper bound of the p-value under the distribution that explains the counts best.

    No distribution has a smaller deviance than the best one, so the search ends at the first one whose
    deviance is no surprise. Otherwise it continues to the maximum of the likelihood, and subtracts from the
    deviance what may be missing to it.

    Args:
        channel: P(cell | value bucket); the columns sum to one.
        counts: the counts, shape (cells,), with sum above zero.
        sparse: whether few value buckets have weight at the maximum, as for numbers.
    """
    if isinstance(channel, DiagonalChannel):
        return _p_value(channel, maximum_likelihood(counts, channel), counts, 0.0)
    seen = np.flatnonzero(counts)
    forward, backward, _ = with_rows = products(channel, seen)
    observed, n = counts[seen], float(counts.sum())
    weights = np.full(channel.shape[1], 1.0 / channel.shape[1])
    if forward(weights).min() <= 0.0:
        return 0.0
    if is_nearly_orthogonal(channel):
        fit = most_likely(channel, counts, Trace(MOST_ITERATIONS), tolerance=TOLERANCE)
    else:
        for update in range(MOST_UPDATES):
            if update and update % UPDATES == 0:
                p_value = _p_value(channel, weights / weights.sum(), counts, 0.0, check=False)
                if p_value > CLEAR:
                    return p_value
            weights = weights * backward(observed / forward(weights)) / n
        fit = _most_likely(with_rows, observed, weights / weights.sum(), sparse)
    gap = n * (float((backward(observed / forward(fit.weights)) / n).max()) - 1.0)
    return _p_value(channel, fit.weights, counts, 2.0 * max(gap, 0.0))


def _most_likely(products: ChannelProducts, counts: Floats, start: Floats, sparse: bool) -> Fit:
    """Weights at or near the greatest likelihood: by the sparse solver, or by larger updates."""
    if sparse:
        try:
            return sparsest(products, counts, len(start), Trace(MOST_ITERATIONS), tolerance=TOLERANCE)
        except (RuntimeError, np.linalg.LinAlgError):
            # Its quadratic problem cannot be solved because of rounding; larger updates have no such problem.
            pass
    trace = Trace(MOST_ITERATIONS)
    return accelerate(products, counts, start, trace, smoothing=False, tolerance=0.1 * TOLERANCE)


def _p_value(channel: Channel, weights: Floats, counts: Floats, missing: float, check: bool = True) -> float:
    """The p-value of counts under given weights, whose deviance is up to ``missing`` above the least one."""
    probabilities = np.maximum(channel.matvec(weights), 0.0)
    probabilities = probabilities / probabilities.sum()
    observed = max(deviance(counts, probabilities) - missing, 0.0)
    p_value = moments(float(counts.sum()), probabilities).p_value(observed)
    return checked(p_value, observed, counts, probabilities) if check else p_value

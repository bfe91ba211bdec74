"""The fixed point of EM and EMS over kinds of users of several services.

Let L be the likelihoods of the kinds of users, c their counts, n the number of users, w the weights, and
g = L' (c / L w) / n. A plain update replaces w by w g, or by S (w g) scaled to sum 1 where S smooths. Each
step evaluates g exactly, over all kinds. The curvature H = L' diag(c / (n (L w)^2)) L comes from a sample of
the kinds. The fixed point does not depend on the sample, which only decides how far a step gets.

With smoothing, the solver is that of one service (:mod:`ldpbeam.estimators.fixed_point`). Without smoothing,
the fixed point is the likeliest distribution, which has many weights of zero. A step maximises the quadratic
approximation of the likelihood over weights of zero or more (Kim, Carbonetto, Stephens and Anitescu, J.
Comput. Graph. Stat. 2020).
"""

from __future__ import annotations

import numpy as np
import scipy
from scipy.linalg import cholesky, solve_triangular

from ldpbeam.domains import Floats
from ldpbeam.estimators.curvature import curvature_of_users, sampled_curvature
from ldpbeam.estimators.fixed_point import LARGEST_CHANGE, fixed_point
from ldpbeam.estimators.iteration import LEAST_SMOOTHED, Fit, Trace
from ldpbeam.estimators.joint_likelihood import JointProducts

#: Without smoothing, the slopes of weights that are zero are at most this much above one in the end.
LARGEST_SLOPE = 1e-4
#: Added to the diagonal of the curvature, relative to its mean, so that it is regular.
RIDGE = 1e-10


def fit_users(
    products: JointProducts, counts: Floats, value_buckets: int, trace: Trace, *, smoothing: bool
) -> Fit:
    """The fixed point of EM or EMS over kinds of users, from the uniform distribution.

    Args:
        products: the products with the likelihoods of the kinds.
        counts: the number of users of each kind, shape (kinds,), all above zero.
        value_buckets: the number of value buckets; without smoothing, time grows with its cube.
        trace: counts the evaluations of all users; once it is full, the solver ends, not converged.
        smoothing: whether to smooth each update (EMS), if there are three buckets or more.
    """
    start = np.full(value_buckets, 1.0 / value_buckets)
    if not smoothing or value_buckets < LEAST_SMOOTHED:
        return _likeliest(products, counts, start, trace)
    curvature = curvature_of_users(products, counts, value_buckets)
    return fixed_point(products, counts, start, trace, curvature=curvature)


def _likeliest(products: JointProducts, counts: Floats, weights: Floats, trace: Trace) -> Fit:
    """The likeliest weights."""
    curvature = sampled_curvature(products, counts, len(weights), len(weights))
    total, best = counts.sum(), -np.inf
    before, step = weights, np.zeros_like(weights)
    while not trace.is_full:
        probabilities, slopes = products.evaluate(weights, counts)
        slopes /= total
        likelihood = float(counts @ np.log(probabilities))
        trace.tell(likelihood)
        change = np.abs(weights * slopes - weights).max()
        if change <= LARGEST_CHANGE and slopes.max() <= 1.0 + LARGEST_SLOPE:
            return trace.fit(weights, True)
        if likelihood >= best:
            best, before = likelihood, weights
            hessian = curvature(counts / probabilities**2 / total)
            step = _quadratic_maximum(hessian, weights, slopes) - weights
        else:
            step = step / 4.0
        weights = np.maximum(before + step, 0.0)
        weights = weights / weights.sum()
    return trace.fit(weights, False)


def _quadratic_maximum(hessian: Floats, weights: Floats, slopes: Floats) -> Floats:
    """The distribution y that maximises g' y - 1' y - (y - w)' H (y - w) / 2."""
    linear = hessian @ weights - 1.0 + slopes
    hessian[np.diag_indices(len(hessian))] += RIDGE * np.trace(hessian) / len(hessian)
    root = cholesky(hessian)
    solution, _ = scipy.optimize.nnls(
        root, solve_triangular(root, linear, trans="T"), maxiter=30 * len(weights)
    )
    return np.asarray(solution / solution.sum())

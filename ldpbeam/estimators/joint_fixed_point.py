"""The fixed point of EM over kinds of users, by Newton steps with the curvature of a sample of the kinds.

Let L be the likelihoods of the kinds of users, c their counts, n the number of users, w the weights, and
g = L' (c / L w) / n. A plain update replaces w by w g, or by S (w g) scaled to sum 1 where S smooths. Each
step evaluates g exactly, with all kinds. The curvature H = L' diag(c / (n (L w)^2)) L need not be exact, so a
sample of the kinds stands for all. The fixed point does not depend on the sample, which only decides how much
closer a step comes; 20,000 kinds give H to about a hundredth in every direction.

Without smoothing the fixed point is the likeliest distribution, in which many weights are zero. A step
maximises the quadratic approximation of the likelihood over weights of zero or more (Kim, Carbonetto,
Stephens and Anitescu, J. Comput. Graph. Stat. 2020). With smoothing no weight is zero, and a step solves the
linearised equation in the logarithms of the weights before they are smoothed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, solve, solve_triangular
from scipy.optimize import nnls

from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.iteration import LEAST_SMOOTHED, Fit
from ldpbeam.estimators.joint_likelihood import Products
from ldpbeam.estimators.question import Progress

#: A further plain update changes no share by more than the first of these, nor by more than the second
#: divided by the number of value buckets.
SETTLED, SETTLED_TIMES_BUCKETS = 1e-8, 1e-6
#: The curvature is computed from this many kinds of users, and at most this many entries (128 MB).
SAMPLE, SAMPLE_ENTRIES = 20_000, 2**24
#: With smoothing, the curvature is the same within each of this many blocks of value buckets.
BLOCKS = 128
#: With smoothing, a step lowers and raises the logarithm of a weight by at most this.
LOWERED, RAISED = 5.0, 1.5
#: Weights before they are smoothed are not below this.
SMALLEST = 1e-100
#: The least damping of a step after one that had to be taken back.
DAMPING = 1e-3
#: Is added to the diagonal of the curvature, relative to its mean, so that it is regular.
RIDGE = 1e-10

#: (weights) -> (log-likelihood, L w, g)
Evaluate = Callable[[Floats], tuple[float, Floats, Floats]]


class Curvature:
    """The matrix H at some weights, from a sample of the kinds of users and blocks of value buckets."""

    def __init__(self, products: Products, counts: Floats, value_buckets: int, blocks: int) -> None:
        size = min(len(counts), SAMPLE, max(1, SAMPLE_ENTRIES // blocks))
        self._sample: Integers = np.linspace(0, len(counts) - 1, size).astype(np.int64)
        self._starts: Integers = np.arange(blocks) * value_buckets // blocks
        self._sizes: Integers = np.diff(self._starts, append=value_buckets)
        parts = np.array_split(self._sample, -(-size * value_buckets // SAMPLE_ENTRIES))
        self._means: Floats = np.concatenate(
            [np.add.reduceat(products.rows(own), self._starts, axis=1) / self._sizes for own in parts]
        )
        self._roots: Floats = np.sqrt(counts[self._sample] / counts[self._sample].sum())

    def at(self, probabilities: Floats) -> Floats:
        """The means of H over pairs of blocks, shape (blocks, blocks), where L w are the probabilities."""
        scaled = self._means * (self._roots / probabilities[self._sample])[:, None]
        product: Floats = scaled.T @ scaled
        return product

    def times(self, means: Floats, matrix: Floats) -> Floats:
        """H times a matrix, where H is the same within each pair of blocks."""
        summed = np.add.reduceat(matrix, self._starts, axis=0)
        return np.repeat(means @ summed, self._sizes, axis=0)


def fixed_point(
    products: Products,
    counts: Floats,
    value_buckets: int,
    *,
    smoothing: bool,
    max_iterations: int,
    progress: Progress | None = None,
) -> Fit:
    """The fixed point of EM or EMS over kinds of users, from the uniform distribution.

    Args:
        products: the products with the likelihoods of the kinds.
        counts: the number of users of each kind, shape (kinds,), all above zero.
        value_buckets: the number of value buckets; time grows with its cube.
        smoothing: whether each update is smoothed (EMS).
        max_iterations: it stops after this many evaluations of all users, not converged.
        progress: called after every evaluation.
    """
    total, trace = float(counts.sum()), list[float]()

    def evaluate(weights: Floats) -> tuple[float, Floats, Floats]:
        probabilities, slopes = products.evaluate(weights, counts)
        trace.append(float(counts @ np.log(probabilities)))
        if progress is not None:
            progress(len(trace), trace[-1])
        return trace[-1], probabilities, slopes / total

    settled = min(SETTLED, SETTLED_TIMES_BUCKETS / value_buckets)
    start = np.full(value_buckets, 1.0 / value_buckets)
    blocks = min(value_buckets, BLOCKS) if smoothing else value_buckets
    curvature = Curvature(products, counts, value_buckets, blocks)
    run = _smoothed if smoothing else _likeliest
    weights, converged = run(evaluate, curvature, start, settled, max_iterations)
    return Fit(weights, np.array(trace), converged)


def _likeliest(
    evaluate: Evaluate, curvature: Curvature, weights: Floats, settled: float, most: int
) -> tuple[Floats, bool]:
    """(the likeliest weights, whether they are settled)."""
    best, before, step = -np.inf, weights, np.zeros_like(weights)
    for _ in range(most):
        likelihood, probabilities, slopes = evaluate(weights)
        # The slopes of weights that are zero must be at most one, or a plain update would raise them.
        if np.abs(weights * slopes - weights).max() <= settled and slopes.max() <= 1.0 + 1e-4:
            return weights, True
        if likelihood >= best:
            best, before = likelihood, weights
            step = _quadratic_maximum(curvature.at(probabilities), weights, slopes) - weights
        else:
            step = step / 4.0
        weights = np.maximum(before + step, 0.0)
        weights = weights / weights.sum()
    return weights, False


def _quadratic_maximum(hessian: Floats, weights: Floats, slopes: Floats) -> Floats:
    """The distribution y that maximises g' y - 1' y - (y - w)' H (y - w) / 2."""
    linear = hessian @ weights - 1.0 + slopes
    hessian[np.diag_indices(len(hessian))] += RIDGE * np.trace(hessian) / len(hessian)
    root = cholesky(hessian)
    found, _ = nnls(root, solve_triangular(root, linear, trans="T"), maxiter=30 * len(weights))
    result: Floats = found / found.sum()
    return result


def _smoothed(
    evaluate: Evaluate, curvature: Curvature, start: Floats, settled: float, most: int
) -> tuple[Floats, bool]:
    """(the weights of EMS, whether they are settled).

    Let u be weights before they are smoothed, and w = S u / s with s = sum(S u). At the fixed point u = w g.
    A step d of log u solves (J + damping) d = log(w g) - log u, with

        J = I - (diag(1/w) - diag(1/g) H) D,    D = S diag(u) / s - w m',

    where m are the column sums of S diag(u) / s. If the right side grew, the step is taken back and damped
    more.
    """
    smoothing = _smoothing_matrix(len(start))
    before, accepted, shortest, damping = start, start, np.inf, 0.0
    jacobian, right, weights = np.eye(len(start)), np.zeros_like(start), start
    for _ in range(most):
        summed = smoothing @ before
        weights = summed / summed.sum()
        _, probabilities, slopes = evaluate(weights)
        updated = smoothing @ (weights * slopes)
        if np.abs(updated / updated.sum() - weights).max() <= settled:
            return weights, True
        gap = np.log(weights * slopes) - np.log(before)
        length = float(weights @ gap**2)
        if length <= shortest:
            accepted, shortest, right, damping = before, length, gap, damping / 10.0
            spread = smoothing * (before / summed.sum())
            spread -= np.outer(weights, spread.sum(axis=0))
            jacobian = curvature.times(curvature.at(probabilities), spread) / slopes[:, None]
            jacobian -= spread / weights[:, None]
            jacobian[np.diag_indices(len(start))] += 1.0
        else:
            damping = max(10.0 * damping, DAMPING)
        step = solve(jacobian + damping * np.eye(len(start)), right)
        moved = accepted * np.exp(np.clip(step, -LOWERED, RAISED))
        before = np.maximum(moved / moved.sum(), SMALLEST)
    return weights, False


def _smoothing_matrix(buckets: int) -> Floats:
    """The matrix of :func:`~ldpbeam.estimators.iteration.smooth`, without the scaling to sum 1."""
    if buckets < LEAST_SMOOTHED:
        return np.eye(buckets)
    matrix = np.diag(np.full(buckets, 0.5))
    matrix += np.diag(np.full(buckets - 1, 0.25), 1) + np.diag(np.full(buckets - 1, 0.25), -1)
    matrix[0, :2] = matrix[-1, :-3:-1] = 2.0 / 3.0, 1.0 / 3.0
    return matrix

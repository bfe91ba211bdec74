"""HH-ADMM: the nearest distribution to all levels of a hierarchy (square-wave paper, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.frequencies import norm_sub, spread_evenly
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms.ranges.hierarchy import (
    Hierarchy,
    constrained_inference,
    level_precisions_from_below,
    parents,
)
from ldpbeam.options import AboveZero, Iterations

#: The factor of over-relaxation; ADMM's authors advise 1.5 to 1.8.
RELAXATION = 1.7
#: Computing the distance from the optimum costs a product, so it happens once in this many iterations.
CHECK_EVERY = 10


@dataclass(frozen=True)
class Nearest:
    """The result of ADMM.

    Attributes:
        leaves: the leaves' shares, a distribution, shape (leaves,).
        distance: an upper bound on their Euclidean distance from the optimum.
        n_iterations: the number of iterations.
        converged: whether the distance reached the tolerance within the maximal number of iterations.
    """

    leaves: Floats
    distance: float
    n_iterations: int
    converged: bool


def _scaled(leaves: Floats, factors: Floats, branching: int) -> Floats:
    """Leaves with the part of each level multiplied by that level's factor, without their common part.

    The part of level l is constant within the nodes of level l, and sums to zero within the nodes above.
    """
    sums = [leaves]
    for _ in factors:
        sums.append(parents(sums[-1], branching))
    # A level's means contain its own part and those of all levels above; differences of factors undo that.
    steps = np.diff(factors, prepend=0.0, append=0.0)[::-1]
    result = np.zeros(1)
    for above in range(len(factors), -1, -1):
        result = result - steps[above] * sums[above] / float(branching) ** above
        if above:
            result = np.repeat(result, branching)
    return result


def nearest_distribution(
    shares: Sequence[Floats],
    weights: ArrayLike,
    branching: int,
    *,
    tolerance: float,
    max_iterations: int,
) -> Nearest:
    """The distribution over leaves that minimises the sum over levels of w_l ||A_l x - f_l||^2.

    Let y be the leaves of constrained inference, and the part of level l be as in :func:`_scaled`. The
    objective is a constant plus the sum over levels of P_l times the squared norm of the part of x - y, where
    P_l is B^(h-l) times the level's precision from below. ADMM (Boyd et al., 2011) alternates between x and
    z. x minimises the objective with a total of 1, separately in each part. z is the distribution nearest to
    x plus the sum of the differences so far. The paper splits the problem differently (Algorithm 2), with the
    same optimum, and is slower.

    The result is z, which is a distribution at every iteration. The objective is strongly convex. So the
    distance is at most the gradient at z, without the part that active constraints cancel, divided by the
    smallest P_l. If the deepest levels have no weight, a node's share is divided equally among its leaves.

    Args:
        shares: the shares of each level's nodes, from the level below the root to the leaves.
        weights: the precision of each level, shape (levels,).
        branching: the number of children of a node.
        tolerance: stop when the distance from the optimum is at most this.
        max_iterations: stop after this many iterations, not converged.
    """
    level_weights = np.asarray(weights, dtype=np.float64)
    deepest = int(np.flatnonzero(level_weights)[-1]) + 1
    below = branching ** (len(level_weights) - deepest)
    shares, level_weights = list(shares)[:deepest], level_weights[:deepest]
    centre = constrained_inference(shares, level_weights, branching)
    spread = float(branching) ** np.arange(deepest - 1, -1, -1)
    # Only ratios of weights matter: the first part's is 1.
    curvatures = spread * level_precisions_from_below(level_weights, branching)
    curvatures /= curvatures[0]
    # ADMM's penalty changes how many iterations there are, not the result.
    step = math.sqrt(curvatures.min() * curvatures.max())
    fixed = _scaled(centre, curvatures / (curvatures + step), branching) + 1.0 / len(centre)
    z = norm_sub(centre)
    dual = np.zeros_like(z)
    distance = math.inf
    for iteration in range(1, max_iterations + 1):
        x = fixed + _scaled(z - dual, step / (curvatures + step), branching)
        dual += RELAXATION * x + (1.0 - RELAXATION) * z
        z = norm_sub(dual)
        dual -= z
        if iteration % CHECK_EVERY == 0 or iteration == max_iterations:
            gradient = _scaled(z - centre, curvatures, branching) + step * (dual - dual.mean())
            distance = float(np.linalg.norm(gradient) / curvatures.min())
            if distance <= tolerance:
                return Nearest(np.repeat(z / below, below), distance, iteration, True)
    return Nearest(np.repeat(z / below, below), distance, max_iterations, False)


def admm(question: Question, *, tolerance: AboveZero = 1e-8, max_iterations: Iterations = 10_000) -> Estimate:
    """HH-ADMM (square-wave paper, section 4.3): non-negative least squares over all levels, with total 1.

    A level's weight is its precision: its reports divided by the variance of a node's share. That is maximum
    likelihood under normal noise, the paper's reason for least squares. The paper weights all nodes equally
    (equation 2), which is the same if all levels are equally precise. Several services, or versions of one,
    are averaged level by level, weighted by precision.

    Args:
        question: what to estimate.
        tolerance: stop when the Euclidean distance of the leaves' shares from the optimum is at most this.
        max_iterations: stop after this many iterations, with a warning.
    """
    hierarchy: Hierarchy = question.mechanism(question.versions[0])
    sums = [np.zeros(oracle.size) for oracle in hierarchy.reporters]
    weights = np.zeros(len(sums))
    reports = np.zeros(len(sums), dtype=np.int64)
    for index in question.versions:
        mechanism: Hierarchy = question.mechanism(index)
        histogram = question.statistic.histograms[index]
        precisions = mechanism.level_precisions(histogram)
        for total, level_shares, precision in zip(
            sums, mechanism.level_shares(histogram), precisions, strict=True
        ):
            total += precision * level_shares
        weights += precisions
        reports += mechanism.level_reports(histogram)
    shares = [total / (weight or 1.0) for total, weight in zip(sums, weights, strict=True)]
    solution = nearest_distribution(
        shares,
        weights,
        hierarchy.branching,
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
    warnings: tuple[str, ...] = ()
    if not solution.converged:
        warnings = (
            f"not converged after {solution.n_iterations} iterations (up to {solution.distance:.3g} from the "
            f"optimum, tolerance {tolerance:.3g}): raise max_iterations, or tolerance",
        )
    return question.answer_distribution(
        "admm",
        spread_evenly(solution.leaves, question.attribute),
        converged=solution.converged,
        n_iterations=solution.n_iterations,
        warnings=warnings,
        details={
            "distance": solution.distance,
            "level_reports": reports.tolist(),
            "level_precisions": weights.tolist(),
        },
    )


def check_hierarchy(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that every channel is a hierarchy, and that all have the same tree.

    Raises:
        ValueError: if a channel is not a hierarchy, or the trees differ.
    """
    trees: dict[tuple[int, int], str] = {}
    problem = (
        "does not report nodes of a tree, which admm is for; use ems, em or norm_sub, or mechanism hierarchy"
    )
    mechanisms = attribute.mechanisms_of(services, Hierarchy, problem)
    for index, mechanism in zip(attribute.versions_of(services), mechanisms, strict=True):
        trees.setdefault((mechanism.branching, mechanism.leaves), attribute.versions[index].label)
    if len(trees) > 1:
        trees_text = ", ".join(f"{label} branching {b} and leaves {d}" for (b, d), label in trees.items())
        raise ValueError(f"the services' trees differ ({trees_text}); name services of one tree")

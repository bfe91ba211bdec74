"""HH-ADMM: the nearest distribution to all levels of a hierarchy (square-wave paper, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.frequencies import norm_sub
from ldpbeam.estimators.options import AboveZero, Iterations
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms.ranges.hierarchy import (
    Hierarchy,
    constrained_inference,
    level_precisions_from_below,
    parents,
)

#: Each step goes this much further than ADMM's own; 1.5 to 1.8 is what its authors advise.
RELAXATION = 1.7
#: The distance from the optimum costs a product, so it is looked at after so many iterations.
CHECK_EVERY = 10


@dataclass(frozen=True)
class Nearest:
    """Where ADMM ended.

    Attributes:
        leaves: the leaves' shares, a distribution; shape (leaves,).
        distance: they are at most this far from the optimum (Euclidean).
        n_iterations: how many there were.
        converged: whether the distance fell to the tolerance before the iterations ran out.
    """

    leaves: Floats
    distance: float
    n_iterations: int
    converged: bool


def _scaled(leaves: Floats, factors: Floats, branching: int) -> Floats:
    """Leaves, their part of each level times that level's factor; what all leaves share drops out.

    The part of level l is even within its nodes and sums to zero within the nodes above.
    """
    sums = [leaves]
    for _ in factors:
        sums.append(parents(sums[-1], branching))
    # A level's means have its own part and all above: steps of the factors undo that.
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
    penalty: float,
    tolerance: float,
    max_iterations: int,
) -> Nearest:
    """The distribution over leaves that minimises the sum over levels of w_l ||A_l x - f_l||^2.

    The objective is one constant and, with the part of level l as in :func:`_scaled`, the sum over levels of
    P_l times the squared part of x less constrained inference's leaves; P_l is B^(h-l) times that level's
    precision from below. ADMM (Boyd et al., 2011) alternates between x, which minimises that with a total of
    1 and splits into its parts, and z, the nearest distribution to x plus what they differed by so far. The
    paper's own splits (its Algorithm 2) have the same optimum, and are slower.

    The answer is z, so it is a distribution at every iteration. The objective is strongly convex, so its
    gradient at z, less what the constraints there can take up, over the smallest P_l bounds the distance.
    The deepest levels without weight say nothing: their nodes' shares are split evenly.
    """
    own = np.asarray(weights, dtype=np.float64)
    deepest = int(np.flatnonzero(own)[-1]) + 1
    below = branching ** (len(own) - deepest)
    shares, own = list(shares)[:deepest], own[:deepest]
    centre = constrained_inference(shares, own, branching)
    spread = float(branching) ** np.arange(deepest - 1, -1, -1)
    # Only ratios of weights matter: the first part's is 1.
    curvatures = spread * level_precisions_from_below(own, branching)
    curvatures /= curvatures[0]
    step = penalty * math.sqrt(curvatures.min() * curvatures.max())
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


def admm(
    question: Question,
    *,
    penalty: AboveZero = 1.0,
    tolerance: AboveZero = 1e-8,
    max_iterations: Iterations = 10_000,
) -> Estimate:
    """HH-ADMM (square-wave paper, section 4.3): least squares over all levels, not negative, of total 1.

    A level is weighted by its precision: its reports over the variance of a node's share. That is maximum
    likelihood under normal noise, which the paper gives as its reason; it weights all nodes alike (equation
    2), which is the same where all levels have equal precision. Several services, or versions of one, are
    averaged level by level, by their precisions.

    Args:
        question: what to estimate.
        penalty: ADMM's, in units of the geometric mean of the objective's smallest and largest curvature. It
            decides how fast it converges, not where to.
        tolerance: on the Euclidean distance of the leaves' shares from the optimum.
        max_iterations: give up here, with a warning.
    """
    hierarchy = cast(Hierarchy, question.attribute.versions[question.versions[0]].mechanism)
    sums = [np.zeros(oracle.size) for oracle in hierarchy.reporters]
    weights = np.zeros(len(sums))
    reports = np.zeros(len(sums), dtype=np.int64)
    for index in question.versions:
        mechanism = cast(Hierarchy, question.attribute.versions[index].mechanism)
        histogram = question.statistic.histograms[index]
        precisions = mechanism.level_precisions(histogram)
        for total, own, precision in zip(sums, mechanism.level_shares(histogram), precisions, strict=True):
            total += precision * own
        weights += precisions
        reports += mechanism.level_reports(histogram)
    shares = [total / (weight or 1.0) for total, weight in zip(sums, weights, strict=True)]
    found = nearest_distribution(
        shares,
        weights,
        hierarchy.branching,
        penalty=penalty,
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
    warnings: tuple[str, ...] = ()
    if not found.converged:
        warnings = (
            f"not converged after {found.n_iterations} iterations (up to {found.distance:.3g} from the "
            f"optimum, tolerance {tolerance:.3g}): raise max_iterations, or tolerance",
        )
    per_leaf = question.attribute.value_buckets // hierarchy.leaves
    return question.answer_distribution(
        "admm",
        np.repeat(found.leaves / per_leaf, per_leaf),
        converged=found.converged,
        n_iterations=found.n_iterations,
        warnings=warnings,
        details={
            "distance": found.distance,
            "level_reports": reports.tolist(),
            "level_precisions": weights.tolist(),
        },
    )


def check_hierarchy(attribute: Attribute, services: Sequence[str]) -> None:
    """Every channel is of one and the same tree."""
    trees: dict[tuple[int, int], str] = {}
    for index in attribute.versions_of(services):
        version = attribute.versions[index]
        if not isinstance(version.mechanism, Hierarchy):
            raise ValueError(
                f"service {version.label} ({version.mechanism.name}) reports no nodes of a tree; it is for "
                "mechanism hierarchy, others take ems, em or norm_sub"
            )
        trees.setdefault((version.mechanism.branching, version.mechanism.leaves), version.label)
    if len(trees) > 1:
        found = ", ".join(f"{label} branching {b} and leaves {d}" for (b, d), label in trees.items())
        raise ValueError(f"the services' trees differ ({found}); name services of one tree")

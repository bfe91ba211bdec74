"""Alternate EM and merges of components: the core of mixture reduction (Ye et al., NDSS 2025)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.channels import Channel, ReducedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.iteration import Fit, Trace, accelerate, maximise
from ldpbeam.estimators.products import products
from ldpbeam.estimators.question import Progress

#: The names of the rules that choose the categories that a step merges.
Strategy = Literal["halving", "greedy", "pool"]

#: A function of the components' weights, their numbers of value buckets, and the most components that may be
#: merged. It returns the components to merge; fewer than two end the reduction.
Choice = Callable[[Floats, Integers, int], Integers]


@dataclass(frozen=True)
class Stage:
    """The result of EM between two merges.

    Attributes:
        labels: the component of each value bucket, shape (value buckets,).
        fit: the result of EM; its weights are those of components.
        bic: -2 log L + (components - 1) ln(reports); smaller is better.
    """

    labels: Integers
    fit: Fit
    bic: float


@dataclass(frozen=True)
class Reduction:
    """The result of the reduction.

    Attributes:
        weights: the distribution, shape (value buckets,), with sum 1.
        labels: the component of each value bucket, shape (value buckets,).
        stages: the results of EM before the first merge and after each merge, including one that was undone.
        undone: whether the last merge was undone because it increased the BIC.
    """

    weights: Floats
    labels: Integers
    stages: tuple[Stage, ...] = field(repr=False)
    undone: bool

    @property
    def log_likelihoods(self) -> Floats:
        """The log-likelihood before each update of all stages; it never falls within a stage of plain EM."""
        return np.concatenate([stage.fit.log_likelihoods for stage in self.stages])

    @property
    def components(self) -> tuple[int, ...]:
        """The number of components of each stage."""
        return tuple(len(stage.fit.weights) for stage in self.stages)


def reduce_mixture(
    channel: Channel,
    counts: ArrayLike,
    choose: Choice,
    *,
    reports: int,
    least: int,
    smoothing: bool,
    tolerance: float,
    max_iterations: int,
    accelerated: bool = False,
    labels: Integers | None = None,
    progress: Progress | None = None,
) -> Reduction:
    """Alternate EM and merges of components (Algorithm 1 of the paper).

    A merged component is the mixture of its value buckets in equal shares. EM continues from the merged
    weights. The reduction ends at ``least`` components, or when ``choose`` returns fewer than two, or when a
    merge increases the BIC; that merge is undone. (As printed, Algorithm 3 stops when the BIC decreases.)

    Args:
        channel: P(report bucket | value bucket).
        counts: the reports in each report bucket, with sum above zero.
        choose: the choice of the components to merge.
        reports: the number of reports, for the BIC.
        least: the least number of components.
        smoothing: whether EM is EMS, over components and their neighbours.
        tolerance: the tolerance of each stage's EM.
        max_iterations: the most iterations of each stage's EM.
        accelerated: whether EM continues to its fixed point by SQUAREM.
        labels: the first component of each value bucket, shape (value buckets,); by default each bucket is
            one component.
        progress: called after every iteration; iterations are numbered over all stages.
    """
    observed = np.asarray(counts, dtype=np.float64)
    seen = np.flatnonzero(observed)
    iterate = accelerate if accelerated else maximise
    stages: list[Stage] = []
    done = 0

    def fit(labels: Integers, start: Floats) -> Stage:
        fit = iterate(
            products(ReducedChannel(channel, labels), seen),
            observed[seen],
            start,
            Trace(max_iterations, progress, done),
            smoothing=smoothing,
            tolerance=tolerance,
        )
        bic = -2.0 * float(fit.log_likelihoods[-1]) + (len(start) - 1) * math.log(reports)
        stages.append(Stage(labels, fit, bic))
        return stages[-1]

    def ended(stage: Stage, undone: bool) -> Reduction:
        weights = ReducedChannel(channel, stage.labels).spread(stage.fit.weights)
        return Reduction(weights / weights.sum(), stage.labels, tuple(stages), undone)

    buckets = channel.shape[1]
    first = np.arange(buckets) if labels is None else labels
    stage = fit(first, np.bincount(first).astype(np.float64) / buckets)
    while True:
        weights = stage.fit.weights
        spare = len(weights) - least
        chosen = choose(weights, np.bincount(stage.labels), spare + 1) if spare > 0 else np.arange(0)
        if len(chosen) < 2:
            return ended(stage, False)
        renumbered = merged_labels(len(weights), chosen)
        done += len(stage.fit.log_likelihoods)
        start = np.bincount(renumbered, weights).astype(np.float64)
        merged = fit(renumbered[stage.labels], start)
        if merged.bic > stage.bic:
            return ended(stage, True)
        stage = merged


def merged_labels(components: int, chosen: Integers) -> Integers:
    """The new number of each component, shape (components,); all chosen ones get the same number."""
    first = np.arange(components)
    first[chosen] = chosen.min()
    return np.asarray(np.unique(first, return_inverse=True)[1], dtype=np.int64)


def smallest(threshold: float, strategy: str) -> Choice:
    """A choice of the components of smallest weight among those below a threshold.

    With "halving" and "greedy", the weight of a merged component is a sum. It soon exceeds the threshold, so
    noise ends up in several merged components. With "pool", the weight is divided by the number of
    categories, so noise ends up in one growing component.

    Args:
        threshold: the threshold tau.
        strategy: "halving" merges half of the components below tau; "greedy" merges the two smallest; "pool"
            merges half of those whose weight per category is below tau.
    """

    def choose(weights: Floats, sizes: Integers, at_most: int) -> Integers:
        shares = weights / sizes if strategy == "pool" else weights
        below = np.flatnonzero(shares < threshold)
        many = 2 if strategy == "greedy" else max(2, -(-len(below) // 2))
        order = np.argsort(shares[below], kind="stable")
        return below[order[: min(many, at_most)]]

    return choose

"""EM and merges of components by turns: the core of mixture reduction (Ye et al., NDSS 2025)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.em import products
from ldpbeam.estimators.iteration import Fit, accelerate, maximise
from ldpbeam.estimators.question import Progress

#: Which categories a step merges.
Strategy = Literal["halving", "greedy", "pool"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)

#: Weights, value buckets of each component, and how many components may become one, to those which shall;
#: fewer than two of them end the reduction.
Choice = Callable[[Floats, Integers, int], Integers]


class ReducedChannel(Channel):
    """A channel of components, each the mixture of its value buckets in equal shares.

    A product spreads each component's weight evenly over its buckets, so a structured channel stays one.

    Args:
        channel: P(report bucket | value bucket).
        labels: the component of each value bucket, 0 .. components - 1.
    """

    def __init__(self, channel: Channel, labels: Integers) -> None:
        self.sizes: Integers = np.bincount(labels)
        super().__init__(channel.shape[0], len(self.sizes))
        self.channel = channel
        self.labels = labels

    def spread(self, weights: Floats) -> Floats:
        """The weights of value buckets, shape (value buckets,)."""
        spread: Floats = (weights / self.sizes)[self.labels]
        return spread

    def _matvec(self, x: Floats) -> Floats:
        product: Floats = self.channel.matvec(self.spread(np.ravel(x)))
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        products = self.channel.rmatvec(np.ravel(x))
        return np.bincount(self.labels, products, minlength=self.shape[1]) / self.sizes

    def dense(self) -> Floats:
        """The mean of each component's columns."""
        order = np.argsort(self.labels, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        means: Floats = np.add.reduceat(self.channel.dense()[:, order], starts, axis=1) / self.sizes
        return means


@dataclass(frozen=True)
class Stage:
    """EM between two merges.

    Attributes:
        labels: the component of each value bucket.
        fit: where its iteration ended, the weights being those of components.
        bic: -2 log L + (components - 1) ln(reports); smaller is better.
    """

    labels: Integers
    fit: Fit
    bic: float


@dataclass(frozen=True)
class Reduction:
    """Where the reduction ended.

    Attributes:
        weights: the distribution, shape (value buckets,), of sum 1.
        labels: the component of each value bucket.
        stages: EM before the first merge and after each one, the undone one too.
        undone: whether the last merge was undone, as it raised the BIC.
    """

    weights: Floats
    labels: Integers
    stages: tuple[Stage, ...] = field(repr=False)
    undone: bool

    @property
    def log_likelihoods(self) -> Floats:
        """Before each update, all stages one after another; they never fall within a stage of plain EM."""
        return np.concatenate([stage.fit.log_likelihoods for stage in self.stages])

    @property
    def components(self) -> tuple[int, ...]:
        """How many components each stage had."""
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
    """EM and merges by turns (Algorithm 1 of the paper).

    A merged component is the mixture of its value buckets in equal shares. EM goes on from the weights that
    were merged. The reduction ends with ``least`` components, or where no components are chosen, or where a
    merge raises the BIC, which is then undone; as printed, Algorithm 3 stops where the BIC falls.

    Args:
        channel: P(report bucket | value bucket).
        counts: of the report buckets, of sum above zero.
        choose: which components to merge.
        reports: how many there are, for the BIC.
        least: stop at this many components.
        smoothing: whether EM is EMS, over components and their neighbours.
        tolerance: of each stage's EM.
        max_iterations: of each stage's EM.
        accelerated: whether EM goes to its fixed point by SQUAREM.
        labels: the component of each value bucket at first; by default each is one.
        progress: told of every iteration, numbered over all stages.
    """
    observed = np.asarray(counts, dtype=np.float64)
    seen = np.flatnonzero(observed)
    iterate = accelerate if accelerated else maximise
    stages: list[Stage] = []
    done = 0

    def tell(iteration: int, likelihood: float) -> None:
        if progress is not None:
            progress(done + iteration, likelihood)

    def fit(labels: Integers, start: Floats) -> Stage:
        fit = iterate(
            *products(ReducedChannel(channel, labels), seen),
            observed[seen],
            start,
            smoothing=smoothing,
            tolerance=tolerance,
            max_iterations=max_iterations,
            progress=tell,
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
    """New numbers of the components, the chosen ones being one, at the place of the first of them."""
    first = np.arange(components)
    first[chosen] = chosen.min()
    return np.asarray(np.unique(first, return_inverse=True)[1], dtype=np.int64)


def smallest(threshold: float, strategy: str) -> Choice:
    """The components of smallest weight, of those below a threshold.

    Args:
        threshold: tau.
        strategy: "halving", half of those below; "greedy", the two smallest; "pool", half of those below, a
            component's weight being that of each of its categories. By their sum what was merged is soon
            above the threshold, and noise is merged in layers; pooled it stays one component, which grows.
    """

    def choose(weights: Floats, sizes: Integers, at_most: int) -> Integers:
        shares = weights / sizes if strategy == "pool" else weights
        below = np.flatnonzero(shares < threshold)
        many = 2 if strategy == "greedy" else max(2, -(-len(below) // 2))
        order = np.argsort(shares[below], kind="stable")
        return below[order[: min(many, at_most)]]

    return choose

"""MR, mixture reduction: EM that merges the components which noise hides (Ye et al., NDSS 2025)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.channels import Channel
from ldpbeam.domains import Categories, Floats, Integers, Numeric
from ldpbeam.estimators.em import DENSE_ENTRIES, Fit, accelerate, convergence_warnings, maximise, smooth
from ldpbeam.estimators.estimate import Estimate, Progress, Question
from ldpbeam.estimators.frequencies import check_frequencies, unbiased_shares

#: Which categories a step merges.
STRATEGIES = ("halving", "greedy", "pool")
#: The bootstrap of numeric windows: as many draws, each estimated in as many equal buckets at most.
DRAWS, DRAWN_BUCKETS = 32, 64
#: Draws end like EMS, or here: a deviation needs no more digits.
DRAWN_ITERATIONS = 2_000

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


def _products(
    channel: Channel, seen: Integers
) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]:
    """Weights to the probability of each report bucket that was seen, and the transpose."""
    if channel.shape[0] * channel.shape[1] <= DENSE_ENTRIES:
        matrix = channel.dense()[seen]
        transpose = np.ascontiguousarray(matrix.T)
        return matrix.__matmul__, transpose.__matmul__

    def forward(weights: Floats) -> Floats:
        product: Floats = channel.matvec(weights)[seen]
        return product

    def backward(ratios: Floats) -> Floats:
        spread = np.zeros(channel.shape[0])
        spread[seen] = ratios
        product: Floats = channel.rmatvec(spread)
        return product

    return forward, backward


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
            *_products(ReducedChannel(channel, labels), seen),
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


def mr(
    question: Question,
    *,
    strategy: str = "halving",
    pre_merge: bool = False,
    keep: float = 0.25,
    deviations: float | None = None,
    tolerance: float | None = None,
    max_iterations: int = 10_000,
    accelerated: bool | None = None,
) -> Estimate:
    """Mixture reduction: EM that merges the components whose weights may be noise.

    Of categories, those of the smallest weights are merged, below tau, two standard deviations of a rare
    category's unbiased share (Algorithm 1). Of a numeric range, windows of neighbours are (Algorithm 3), tau
    being three standard deviations of a window's weight, and EM is EMS over components. The final weight of a
    component is spread evenly over its categories or buckets. Services and versions are stacked as in ``em``.

    EM between merges is stopped early, as ``em`` and ``ems`` are: that is part of this estimator.

    Args:
        question: what to estimate.
        strategy: of categories: "halving" merges half of the weights below tau at once, "greedy" two; "pool"
            is halving that keeps what is noise in one component (ours).
        pre_merge: of categories: whether those of negative unbiased shares are merged before the first EM.
        keep: the least share of components, of the categories or buckets; as published a quarter. Where most
            categories are alike, it is what limits the gain: with "pool", try 0.01.
        deviations: standard deviations in tau; by default two, as published, and for numbers three: the
            bootstrap's are smaller than the paper's.
        tolerance: on each stage's gain of the summed log-likelihood; by default 1e-3 exp(epsilon), for
            numbers 1e-3, as published for EM and EMS.
        max_iterations: of each stage.
        accelerated: whether categories' EM goes to its fixed point by SQUAREM; by default where it is of
            unary encodings.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy is one of {', '.join(STRATEGIES)}, found {strategy!r}")
    attribute, versions = question.attribute, question.versions
    mechanisms = [attribute.versions[index].mechanism for index in versions]
    histograms = [question.statistic.histograms[index] for index in versions]
    composite = any(mechanism.composite for mechanism in mechanisms)
    numeric = isinstance(attribute.domain, Numeric)
    buckets = attribute.value_buckets
    least = math.ceil(keep * buckets)
    if tolerance is None:
        tolerance = 1e-3 if numeric else 1e-3 * math.exp(max(m.epsilon for m in mechanisms))
    if deviations is None:
        deviations = 3.0 if numeric else 2.0
    details: dict[str, object] = {"deviations": deviations}
    labels = None
    choose: Choice
    if numeric:
        channels = [attribute.channel(index) for index in versions]
        counted = [int(histogram.sum()) for histogram in histograms]
        limit = tolerance
        choose = Windows(lambda weights: bootstrap(channels, counted, weights, limit), deviations)
    else:
        shares, variance = unbiased_shares(question)
        threshold = deviations * math.sqrt(variance)
        details["threshold"] = threshold
        choose = smallest(threshold, strategy)
        if pre_merge:
            negative = np.flatnonzero(shares < 0.0)
            lowest = negative[np.argsort(shares[negative], kind="stable")[: buckets - least + 1]]
            labels = merged_labels(buckets, lowest) if len(lowest) > 1 else None
    reduction = reduce_mixture(
        attribute.stacked_channel(versions),
        np.concatenate(histograms),
        choose,
        reports=question.reports,
        least=least,
        smoothing=numeric,
        tolerance=tolerance,
        max_iterations=max_iterations,
        accelerated=(composite if accelerated is None else accelerated) and not numeric,
        labels=labels,
        progress=question.progress,
    )
    details |= {
        "tolerance": tolerance,
        "tolerance_per_report": tolerance / question.reports,
        "components": list(reduction.components),
        "stage_iterations": [len(stage.fit.log_likelihoods) for stage in reduction.stages],
        "undone": reduction.undone,
    }
    if len({attribute.versions[index].service for index in versions}) > 1:
        details["likelihood"] = "composite: reports of one user to several services as independent"
    if composite:
        details["likelihood"] = "composite: the counts of a report as independent"
    ended = [stage.fit for stage in reduction.stages if not stage.fit.converged]
    return question.answer_distribution(
        "mr",
        reduction.weights,
        converged=not ended,
        n_iterations=len(reduction.log_likelihoods),
        log_likelihoods=reduction.log_likelihoods,
        warnings=convergence_warnings(ended[0], tolerance) if ended else (),
        details=details,
    )


def check_mr(attribute: Attribute, services: Sequence[str]) -> None:
    """Weights of categories are compared to the deviation of unbiased shares; windows need an order."""
    if isinstance(attribute.domain, Categories):
        check_frequencies(attribute, services)
    elif not isinstance(attribute.domain, Numeric):
        raise ValueError("mixture reduction is of categories or of a numeric range")

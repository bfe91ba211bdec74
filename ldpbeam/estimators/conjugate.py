"""Maximum-likelihood shares where columns are nearly orthogonal, by conjugate gradients with bounds.

The log-likelihood of reports is concave in the shares. Under local hashing and randomised response, its
Hessian on changes that sum to zero is nearly diagonal, so conjugate gradients in a diagonal metric need about
fifteen steps where EM needs thousands. A share that falls below zero is set to zero, and stays there as long
as the gradient keeps it there.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

from ldpbeam.channels import Channel, DiagonalChannel, StackedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.iteration import Fit, Trace
from ldpbeam.estimators.products import products, spread

#: The iteration ends when the next step changes no share by more than this. EM's update is a shorter step.
LARGEST_STEP = 1e-9
#: The relative rounding error of a gradient; a smaller gradient is taken for zero.
ROUNDING = 1e-13
#: The metric is computed before these iterations, and before every tenth one.
RENEWED, PERIOD = (0, 1, 4), 10
#: The least entry of the metric relative to the largest, and the least value of the largest: reports may say
#: nothing about some categories, or about any.
LEAST_METRIC, LEAST_LARGEST = 1e-6, 1e-12
#: If at most one in this many categories has a share, the solver leaves out the others until the end.
FEW = 8
#: The most Newton steps along a direction, and the relative change that ends them.
LINE_STEPS, NEARLY_BEST = 30, 1e-3


@runtime_checkable
class NearlyOrthogonal(Protocol):
    """The methods of a channel that :func:`most_likely` needs."""

    def squares_rmatvec(self, x: Floats) -> Floats:
        """The product of the transpose with squared entries and a vector, shape (value buckets,)."""
        ...

    def of_categories(self, chosen: Integers) -> Channel:
        """The channel of some categories: the chosen columns."""
        ...


def is_nearly_orthogonal(channel: Channel) -> bool:
    """Whether :func:`most_likely` solves this channel."""
    if isinstance(channel, StackedChannel):
        return all(map(is_nearly_orthogonal, channel.channels))
    return isinstance(channel, NearlyOrthogonal | DiagonalChannel)


def _squares(channel: Channel, x: Floats) -> Floats:
    """The product of the transpose with squared entries and a vector."""
    if isinstance(channel, StackedChannel):
        parts = zip(channel.channels, np.split(x, channel.ends), strict=True)
        total = np.zeros(channel.shape[1])
        for part, piece in parts:
            total += _squares(part, piece)
        return total
    if isinstance(channel, DiagonalChannel):
        return DiagonalChannel(len(x), channel.keep**2, channel.other**2).rmatvec(x)
    assert isinstance(channel, NearlyOrthogonal)
    return channel.squares_rmatvec(x)


def _of_categories(channel: Channel, chosen: Integers) -> Channel | None:
    """The channel of some categories; None if a part of it exists only for all categories."""
    if isinstance(channel, StackedChannel):
        parts = [_of_categories(part, chosen) for part in channel.channels]
        conjugates = [part for part in parts if part is not None]
        return StackedChannel(conjugates) if len(conjugates) == len(parts) else None
    return channel.of_categories(chosen) if isinstance(channel, NearlyOrthogonal) else None


class Likelihood:
    """The log-likelihood of counts under a channel, without the report buckets that have no report.

    Attributes:
        channel: P(report bucket | category).
        seen: the report buckets with reports.
        counts: the number of reports in each of ``seen``.
        forward: from shares to the probability of each of ``seen``.
        total: the number of reports.
        metric: the latest metric; None before the first.
    """

    def __init__(self, channel: Channel, seen: Integers, counts: Floats) -> None:
        self.channel, self.seen, self.counts = channel, seen, counts
        self.forward, self._backward, _ = products(channel, seen)
        self.total = float(counts.sum())
        self.metric: Floats | None = None

    def ratios(self, probabilities: Floats) -> Floats:
        """The gradient / n. EM's update multiplies each weight by its ratio."""
        return self._backward(self.counts / probabilities) / self.total

    def renew(self, probabilities: Floats, ratios: Floats) -> None:
        """Compute the metric: second derivatives of -log-likelihood / n, from w to all weight on a category.

        For the entries a of the category's column it is the sum of count (a - probability)^2 / probability^2,
        which is never negative.
        """
        squares = _squares(self.channel, spread(self.channel, self.seen, self.counts / probabilities**2))
        squares /= self.total
        metric = squares - 2.0 * ratios + 1.0
        self.metric = np.maximum(metric, LEAST_METRIC * max(float(metric.max()), LEAST_LARGEST))

    def of_categories(self, chosen: Integers) -> Likelihood | None:
        """The likelihood with all other shares at zero; None if the channel has no such part."""
        channel = _of_categories(self.channel, chosen)
        return None if channel is None else Likelihood(channel, self.seen, self.counts)


def most_likely(channel: Channel, counts: Floats, trace: Trace, *, tolerance: float) -> Fit:
    """The shares of greatest likelihood, from uniform ones.

    An iteration makes one product with the channel and one with its transpose; one more with the channel if
    shares reach zero, and one more with the transpose if it computes the metric. A category's ratio is the
    gradient of the log-likelihood over n, so that EM's update is share times ratio. The log-likelihood is
    concave, so it is within n (greatest ratio - 1) of its maximum.

    Args:
        channel: P(report bucket | category), for which :func:`is_nearly_orthogonal`.
        counts: the reports in each report bucket, shape (report buckets,), with sum above zero.
        trace: counts the iterations; once it is full, the solver ends, not converged.
        tolerance: the solver ends when the log-likelihood is within this of its maximum and the next step
            changes no share by more than 1e-9, or when both are rounding errors.
    """
    seen = np.flatnonzero(counts)
    whole = Likelihood(channel, seen, counts[seen])
    weights = np.full(channel.shape[1], 1.0 / channel.shape[1])
    weights, ratios, converged = _ascend(whole, weights, trace, tolerance, until_few=True)
    while not converged and not trace.is_full:
        # Most categories have no share: solve for those that have one, then check all.
        many = 2 * int(np.count_nonzero(weights))
        likely = np.argsort(np.where(weights > 0.0, -np.inf, -ratios), kind="stable")[:many]
        chosen = np.sort(likely)
        part = whole.of_categories(chosen)
        if part is not None:
            inner, _, _ = _ascend(part, weights[chosen], trace, tolerance, until_few=False)
            weights = np.zeros_like(weights)
            weights[chosen] = inner
        if not trace.is_full:
            weights, ratios, converged = _ascend(whole, weights, trace, tolerance, until_few=part is not None)
    return trace.fit(weights, converged)


def _ascend(
    likelihood: Likelihood, weights: Floats, trace: Trace, tolerance: float, *, until_few: bool
) -> tuple[Floats, Floats, bool]:
    """Iterate to the maximum or, with ``until_few``, until few categories have a share.

    Returns:
        The weights, the ratios before the last step, and whether the weights are the maximum.
    """
    probabilities = likelihood.forward(weights)
    direction, before = None, np.zeros_like(weights)
    done = 0
    while True:
        ratios = likelihood.ratios(probabilities)
        metric = likelihood.metric
        if metric is None or (done and (done in RENEWED or done % PERIOD == 0)):
            likelihood.renew(probabilities, ratios)
            metric = likelihood.metric
            assert metric is not None
        trace.tell(float(likelihood.counts @ np.log(probabilities)))
        step = nearest_shares(weights + (ratios - 1.0) / metric, metric) - weights
        settled = np.abs(step) <= np.maximum(LARGEST_STEP, ROUNDING / metric)
        gap = likelihood.total * (float(ratios.max()) - 1.0)
        if settled.all() and gap <= max(tolerance, likelihood.total * ROUNDING):
            return weights, ratios, True
        few = until_few and done >= 2 and FEW * np.count_nonzero(weights) <= len(weights)
        if few or trace.is_full:
            return weights, ratios, False
        direction = _conjugate(step, before, direction, weights, metric)
        before = step
        weights, probabilities, direction = _moved(likelihood, weights, probabilities, direction)
        done += 1


def nearest_shares(values: Floats, metric: Floats) -> Floats:
    """The shares, with sum 1, that are nearest by the sum of metric (shares - values)^2; by sorting."""
    scaled = values * metric
    order = np.argsort(-scaled)
    excess = (np.cumsum(values[order]) - 1.0) / np.cumsum(1.0 / metric[order])
    last = np.flatnonzero(scaled[order] > excess)[-1]
    return np.asarray(np.maximum(values - excess[last] / metric, 0.0))


def _conjugate(
    step: Floats, before: Floats, direction: Floats | None, weights: Floats, metric: Floats
) -> Floats:
    """The step, made conjugate to the last direction (Polak and Ribiere), among shares that may move."""
    if direction is None:
        return step
    length = float((before * metric) @ before)
    share = max(0.0, float((step * metric) @ (step - before)) / length) if length > 0.0 else 0.0
    # A share stays at zero if the step leaves it there; the changes of the others sum to zero.
    free = (weights > 0.0) | (step > 0.0)
    joined = step + share * direction
    while True:
        inverse = np.where(free, 1.0 / metric, 0.0)
        joined = np.where(free, joined, 0.0)
        joined -= joined.sum() / inverse.sum() * inverse
        falling = free & (weights <= 0.0) & (joined < 0.0)
        if not falling.any():
            break
        free &= ~falling
    return joined if float((joined * metric) @ step) > 0.0 else step


def _moved(
    likelihood: Likelihood, weights: Floats, probabilities: Floats, direction: Floats
) -> tuple[Floats, Floats, Floats]:
    """The weights after the best step along a direction, their probabilities, and the step."""
    counts, change = likelihood.counts, likelihood.forward(direction)
    length = best_length(counts, probabilities, change)
    moved = weights + length * direction
    if moved.min() < 0.0:
        # Set negative shares to zero. If that is no ascent, end the step where the first share reaches zero.
        cut = np.maximum(moved, 0.0)
        cut /= cut.sum()
        reached = likelihood.forward(cut)
        if counts @ np.log(reached) > counts @ np.log(probabilities):
            return cut, reached, cut - weights
        falling = direction < 0.0
        length = min(length, float((weights[falling] / -direction[falling]).min()))
        moved = np.maximum(weights + length * direction, 0.0)
    return moved, probabilities + length * change, length * direction


def best_length(counts: Floats, probabilities: Floats, change: Floats) -> float:
    """The length at which counts @ log(probabilities + length change) is greatest, to a thousandth."""
    falling = change < 0.0
    most = float((probabilities[falling] / -change[falling]).min()) if falling.any() else math.inf
    low, high, length = 0.0, most, min(1.0, 0.99 * most)
    for _ in range(LINE_STEPS):
        relative = change / (probabilities + length * change)
        slope, curvature = float(counts @ relative), float(counts @ relative**2)
        low, high = (length, high) if slope > 0.0 else (low, length)
        better = length + slope / curvature if curvature > 0.0 else length
        if not low <= better < high:
            better = 0.5 * (low + high) if high < math.inf else 2.0 * length
        if abs(better - length) <= NEARLY_BEST * length:
            break
        length = better
    return length

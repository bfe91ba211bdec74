"""Distances between an estimate and the truth, and quantiles and shares of an estimated distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.domains import Floats, Numeric, on_steps

#: Numbers of steps from near 0 that differ by less are equal up to rounding.
ROUNDING = 1e-6


def wasserstein(
    estimate: ArrayLike, truth: ArrayLike, width: float = 1.0, buckets: Floats | None = None
) -> float:
    """W1 between two distributions over buckets of a range of ``width``: mean |CDF gap| x width.

    The buckets are equal, or as wide in proportion as ``buckets``.
    """
    gap = np.cumsum(np.asarray(estimate, dtype=float) - np.asarray(truth, dtype=float))
    return float(np.average(np.abs(gap), weights=buckets) * width)


def kolmogorov_smirnov(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The largest absolute gap between the distribution functions of two distributions over buckets."""
    return float(np.abs(np.cumsum(np.asarray(estimate, dtype=float) - np.asarray(truth, dtype=float))).max())


def jensen_shannon(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The square root of the Jensen-Shannon divergence with natural logarithms, in [0, sqrt(ln 2)].

    If the truth is the histogram of n sampled values, even a perfect estimate of the population has a
    distance of about sqrt((buckets - 1) / (8 n)).
    """
    p = np.asarray(estimate, dtype=float)
    q = np.asarray(truth, dtype=float)
    middle = 0.5 * (p + q)

    def divergence(shares: Floats) -> float:
        positive = shares > 0
        return float(np.sum(shares[positive] * np.log(shares[positive] / middle[positive])))

    return float(np.sqrt(max(0.0, 0.5 * divergence(p) + 0.5 * divergence(q))))


def mean_absolute_error(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The mean of |estimate - truth| over all entries."""
    return float(np.mean(np.abs(np.asarray(estimate, float) - np.asarray(truth, float))))


def quantiles(
    distribution: ArrayLike, edges: ArrayLike, levels: Sequence[float], step: float | None = None
) -> Floats:
    """Quantiles of distributions that are uniform inside each bucket, shape (..., levels).

    With a step, a quantile is the first value such that at least this share of people have it or less.

    Args:
        distribution: bucket masses, shape (..., buckets). Masses may be negative, as unbiased ones can be; a
            quantile is then the first point at which the masses below it add up to the level.
        edges: the buckets' edges, shape (buckets + 1,).
        levels: probabilities in (0, 1).
        step: the step of the values; buckets then begin and end halfway between values. None if people may
            have any value.
    """
    cumulative, where = _cumulative(distribution), np.asarray(edges, dtype=float)
    targets = np.asarray(levels, dtype=float) * np.maximum(cumulative[..., -1:], 0.0)
    reached = np.maximum.accumulate(cumulative, axis=-1)
    short = np.count_nonzero(reached[..., None, :] < targets[..., None], axis=-1)
    bucket = np.clip(short - 1, 0, len(where) - 2)
    before = np.take_along_axis(cumulative, bucket, -1)
    held = np.take_along_axis(cumulative, bucket + 1, -1) - before
    inside = np.where(held > 0, (targets - before) / np.where(held > 0, held, 1.0), 0.0)
    places = np.asarray(where[bucket] + np.clip(inside, 0.0, 1.0) * np.diff(where)[bucket])
    return places if step is None else value_below(places, where[0], step)


def quantiles_in(domain: Numeric, distribution: ArrayLike, levels: Sequence[float]) -> Floats:
    """Quantiles of distributions over equal buckets of a domain, which are even on its scale in each."""
    buckets = np.shape(distribution)[-1]
    if domain.scale is None:
        return quantiles(distribution, domain.edges(buckets), levels, domain.step)
    return domain.from_unit(quantiles(distribution, np.linspace(0.0, 1.0, buckets + 1), levels))


def share_in(domain: Numeric, distribution: ArrayLike, low: float, high: float) -> Floats:
    """The shares in a range, for distributions over equal buckets of a domain, even on its scale in each."""
    buckets = np.shape(distribution)[-1]
    if domain.scale is None:
        return range_share(distribution, domain.edges(buckets), low, high, domain.step)
    return range_share(
        distribution, np.linspace(0.0, 1.0, buckets + 1), *domain.to_unit([low, high]).tolist()
    )


def value_below(places: Floats, start: float, step: float) -> Floats:
    """The value whose part of the range contains each place, or ends there.

    Args:
        places: places above ``start``.
        start: the start of the first value's part, half a step below it.
        step: the step of the values.
    """
    parts = np.maximum(np.ceil((places - start) / step - _rounding(start, step)), 1.0)
    return on_steps(start + step * (parts - 0.5), step)


def range_share(
    distribution: ArrayLike, edges: ArrayLike, low: float, high: float, step: float | None = None
) -> Floats:
    """The shares of distributions, uniform inside each bucket, that lie in a range: (..., buckets) to (...).

    People exactly at ``low`` count, and people exactly at ``high`` do not, unless it is the end of the
    domain: value buckets include their lower ends, too. With a step, all values from ``low`` to ``high``
    count, both included.
    """
    cumulative, where = _cumulative(distribution), np.asarray(edges, dtype=float)
    if step is not None:
        low, high = map(float, around_values(low, high, where[0], step))
    ends = np.clip([low, high], where[0], where[-1])
    bucket = np.clip(np.searchsorted(where, ends, "right") - 1, 0, len(where) - 2)
    before, widths = cumulative[..., bucket], np.diff(where)[bucket]
    up_to = (cumulative[..., bucket + 1] - before) / widths * (ends - where[bucket]) + before
    return np.asarray(up_to[..., 1] - up_to[..., 0])


def _cumulative(distribution: ArrayLike) -> Floats:
    """The masses below each edge, shape (..., buckets) to (..., buckets + 1)."""
    masses = np.asarray(distribution, dtype=float)
    return np.concatenate((np.zeros((*masses.shape[:-1], 1)), np.cumsum(masses, axis=-1)), axis=-1)


def around_values(low: ArrayLike, high: ArrayLike, start: float, step: float) -> tuple[Floats, Floats]:
    """The starts and the ends of the parts of the range of the values from ``low`` to ``high``.

    Args:
        low: the least number of each range of values, of any shape.
        high: the greatest number, of the same shape.
        start: the start of the part of the domain's first value, half a step below it.
        step: the step of the values.
    """
    first, after = values_within(low, high, start, step)
    return on_steps(start + step * first, step), on_steps(start + step * after, step)


def values_within(low: ArrayLike, high: ArrayLike, start: float, step: float) -> tuple[Floats, Floats]:
    """(the index of the first value in each range, that of the first value after it)."""
    rounding = _rounding(start, step)
    first = np.ceil((np.asarray(low) - start) / step - 0.5 - rounding)
    last = np.floor((np.asarray(high) - start) / step - 0.5 + rounding)
    return first, np.maximum(last + 1.0, first)


def _rounding(start: float, step: float) -> float:
    """How far equal numbers of steps above ``start`` may differ, as numbers have fifteen digits."""
    return ROUNDING + 1e-14 * abs(start) / step

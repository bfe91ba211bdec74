"""The result of every estimator, and the intervals of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldpbeam.domains import Floats


@dataclass(frozen=True, eq=False)
class StrictIntervals:
    """Intervals that hold whatever people's values are, each with its low end first.

    Attributes:
        quantiles: of the quantiles that were wanted, in the attribute's unit, shape (quantiles, 2).
        ranges: of the shares of people in the ranges that were wanted, shape (ranges, 2).
        at: where the distribution function is bounded, in the attribute's unit, shape (places,).
        cdf: of the share of people with at most each of these values, shape (places, 2).
        mean: of the mean, in the attribute's unit, if the domain has a scale; sums of reports bound others.
    """

    quantiles: Floats
    ranges: Floats
    at: Floats
    cdf: Floats
    mean: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class AnyLook:
    """Intervals that hold at every look at reports that become more, each with its low end first.

    Attributes:
        reports: near this many reports they are narrowest, beside those of one look.
        mean: the ends for the mean of a number, in the attribute's unit.
        distribution: the ends for the share of each category, shape (categories, 2).
    """

    reports: int
    mean: tuple[float, float] | None = None
    distribution: Floats | None = None


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of one estimate. Each has two ends, the low one first, in the unit of what it is for.

    Attributes:
        level: the share of all samples in which an interval holds the truth.
        simultaneous: as in :class:`ldpbeam.intervals.WantedIntervals`.
        mean: the ends for the mean of a number.
        variance: the ends for the variance of a number.
        quantiles: the ends for each quantile that was wanted, shape (quantiles, 2).
        ranges: the ends for the share of each range that was wanted, shape (ranges, 2).
        distribution: the ends for the share of each value bucket or category, shape (value buckets, 2).
        cdf: values, in ascending order, and the ends for the share of people with at most each of them,
            shape (values, 3).
        frequencies: the ends for the share of people who have each key, shape (keys, 2).
        largest: the ends for the share of each category or key that hold for all at once, and so for the
            largest, shape (categories, 2).
        key_means: the ends for the mean of each key, shape (keys, 2).
        strict: the intervals of a number that assume nothing of its density; None where there are none.
        any_look: the intervals of sums over reports that hold at every look; None where there are none.
        methods: how the intervals were computed, by the name of the attribute above.
        flags: why an interval may hold the truth less often than its level, or says little, by the name of
            the attribute above, or that and the name of one number, as ``quantiles 0.5``. All but one, that
            the estimate lies outside, do not depend on the estimator.
    """

    level: float
    simultaneous: bool = False
    mean: tuple[float, float] | None = None
    variance: tuple[float, float] | None = None
    quantiles: Floats | None = None
    ranges: Floats | None = None
    distribution: Floats | None = None
    cdf: Floats | None = None
    frequencies: Floats | None = None
    largest: Floats | None = None
    key_means: Floats | None = None
    strict: StrictIntervals | None = None
    any_look: AnyLook | None = None
    methods: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Axis:
    """Groups of the values of an attribute of a pair.

    Attributes:
        attribute: the attribute.
        edges: where groups of numbers begin and end, in its unit, shape (groups + 1,); None of categories.
        categories: the names of categories; None of numbers.
    """

    attribute: str
    edges: Floats | None = None
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Measured:
    """Numbers of a pair, and their intervals; None without intervals. All have one shape."""

    value: Floats
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True, eq=False)
class Conditional:
    """What the people in each group of one attribute have of the other.

    Attributes:
        given: the groups.
        of: groups of the other attribute.
        shares: the share of each of these in each group, shape (groups, groups of the other).
        means: the mean of the other attribute in each group, in its unit; None of categories.
    """

    given: Axis
    of: Axis
    shares: Measured
    means: Measured | None


@dataclass(frozen=True, eq=False)
class PairAnswer:
    """The answer for a pair of attributes.

    Attributes:
        axes: the value buckets of each attribute.
        table: the share of people in each pair of buckets, shape (first buckets, second buckets).
        p_value: the chance of so much dependence between reports of independent values.
        weights: how much of the table is independence, a dependence of one parameter, and a free table.
        correlation: of two numbers, shape (1,); None with categories.
        mutual_information: in nats, shape (1,).
        given: the second attribute given the first, and the first given the second.
    """

    axes: tuple[Axis, Axis]
    table: Floats
    p_value: float
    weights: Mapping[str, float]
    correlation: Measured | None
    mutual_information: Measured
    given: tuple[Conditional, Conditional]


@dataclass(frozen=True)
class Estimate:
    """The answer of one estimator for one attribute, window and group.

    Attributes:
        estimator: the estimator's name.
        services: the services whose reports were used.
        reports: the number of reports that were used.
        users: the number of users who sent them; None if reports are not grouped by user.
        distribution: the share of each value bucket or category, shape (value buckets,); None if the
            estimator gives a mean only, and for keys with values. Unbiased shares may be negative.
        frequencies: the share of people who have each key, shape (keys,); the shares need not sum to one.
        key_means: the mean value of the people who have each key, in the attribute's unit, shape (keys,).
        mean: the mean of the numeric values, in the attribute's unit.
        standard_error: the standard error of the mean, in the attribute's unit, from the perturbation alone:
            relative to the mean of the people who reported. None if it is not known.
        variance: the variance of the numeric values, in the attribute's unit squared.
        converged: whether the stopping rule was met; true if the estimator does not iterate.
        n_iterations: the number of iterations; 0 if the estimator does not iterate.
        log_likelihoods: the log-likelihood at each iteration, summed over reports or users.
        warnings: plain sentences that say what the user should change.
        details: further results of the estimator, by name.
        intervals: the confidence intervals of the fields above; None if they were not asked for.
        pair: the answer for a pair of attributes, which has none of the fields above but the first four.
    """

    estimator: str
    services: tuple[str, ...]
    reports: int
    users: int | None
    distribution: Floats | None = None
    frequencies: Floats | None = None
    key_means: Floats | None = None
    mean: float | None = None
    standard_error: float | None = None
    variance: float | None = None
    converged: bool = True
    n_iterations: int = 0
    log_likelihoods: Floats = field(default_factory=lambda: np.zeros(0))
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    intervals: Intervals | None = None
    pair: PairAnswer | None = None

"""Which intervals are wanted, and the intervals that were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ldpbeam.domains import Floats


@dataclass(frozen=True)
class WantedIntervals:
    """Which intervals an estimate is to have.

    Attributes:
        level: the share of all samples in which an interval holds the truth, above 0 and below 1.
        simultaneous: whether all shares of an estimate (and all frequencies, and all means of keys) lie in
            their intervals at once in that share of all samples; otherwise each lies in its own.
        quantiles: the levels of the quantiles of a number that get an interval, each above 0 and below 1.
        ranges: the ranges (low, high) of a number whose shares get an interval, in the attribute's unit.
    """

    level: float = 0.95
    simultaneous: bool = False
    quantiles: tuple[float, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of one estimate. Each has two ends, the low one first, in the unit of what it is for.

    Attributes:
        level: the share of all samples in which an interval holds the truth.
        simultaneous: as in :class:`WantedIntervals`.
        mean: the ends for the mean of a number.
        variance: the ends for the variance of a number.
        quantiles: the ends for each quantile that was wanted, shape (quantiles, 2).
        ranges: the ends for the share of each range that was wanted, shape (ranges, 2).
        distribution: the ends for the share of each value bucket or category, shape (value buckets, 2).
        frequencies: the ends for the share of people who have each key, shape (keys, 2).
        key_means: the ends for the mean of each key, shape (keys, 2).
        methods: how the intervals were computed, by the name of the attribute above.
        flags: why an interval may hold the truth less often than its level, or says little, by the name of
            the attribute above. Flags come from the reports alone.
    """

    level: float
    simultaneous: bool = False
    mean: tuple[float, float] | None = None
    variance: tuple[float, float] | None = None
    quantiles: Floats | None = None
    ranges: Floats | None = None
    distribution: Floats | None = None
    frequencies: Floats | None = None
    key_means: Floats | None = None
    methods: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)


class Parts(NamedTuple):
    """The intervals that one statistic gives, for all estimates that are computed from it.

    Attributes:
        ends: the ends, by the attribute of :class:`Intervals` that they are for.
        methods: how each was computed, in words.
        flags: why some may be wrong.
    """

    ends: dict[str, Any]
    methods: dict[str, str]
    flags: dict[str, str]

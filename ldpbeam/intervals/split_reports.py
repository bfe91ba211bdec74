"""Reports in two halves: one half chooses a function of reports, and the other half gives its mean.

A share of people is bounded by the mean of a function of the reports (:mod:`ldpbeam.intervals.certain`). If
the same reports chose the function and gave its mean, the bound would hold too seldom. So one half of the
reports chooses the function, and the other half gives its mean; then they swap roles, and the bound is the
mean of both, so that no report is spent on the choice alone. Half of few reports says little. With few
reports, the mean is over all of them, and the function is the best one for evenly spread people, which
depends only on the number of reports.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from ldpbeam.domains import Floats, Integers, Numeric, greatest_divisor
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.certain import Noise, functions, noise
from ldpbeam.intervals.liars import moved
from ldpbeam.mechanisms import NumericMechanism

#: With this many reports or fewer, functions are those for evenly spread people. Many windows share them:
#: they are computed once for the next number of reports that is a power of the root of two.
EVENLY = 3_000
#: A service with fewer reports is left out, because their mean is not normal enough.
FEWEST = 100
#: The reports of all services together are counted in about CELLS cells; with FEW reports or fewer, in half
#: as many, unless they determine a mean to this VARIANCE.
CELLS, FEW, VARIANCE = 64, 10_000, 1e-4
#: Reports that determine a mean to this variance, or a smaller one, are counted in twice as many cells:
#: SMALL_VARIANCE if people may have any value, OF_POINTS if values are few points, whose bounds are faster.
SMALL_VARIANCE, OF_POINTS = 1e-6, 1e-5
#: At most this many mechanisms are used: the most informative ones.
MECHANISMS = 4
#: The number of points if a mechanism's probabilities are not piecewise linear in the value.
POINTS = 129
#: Up to this many values of a domain with a step are points; with more, people may be anywhere.
MOST_VALUES = 257
#: Mechanisms are left out if more of their reports may be false.
MOST_FALSE = 0.5
#: The minimum of a function is about this many standard deviations below its mean.
LEAST_BELOW = 2.0
#: EM stops when the deviance is this many times the number of cells: closer shares follow the noise.
EXPLAINED = 1.3
#: It also stops after STEPS steps. The part EVEN of the shares stays evenly spread.
STEPS, EVEN = 200, 1e-3
#: A function is evaluated at this many equal steps between two points.
WITHIN = 8
#: Values of [0, 1] that differ by less are one point.
DECIMALS = 12


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest possible shares of people, up to noise.

    Attributes:
        ends: the low and the high end of each share, in [0, 1], without an allowance for noise, shape
            (shares, 2).
        errors: the standard error of each end, shape (shares, 2).
    """

    ends: Floats
    errors: Floats

    def within(self, deviations: float) -> Floats:
        """The ends with an allowance for noise, within [0, 1], shape (shares, 2).

        Args:
            deviations: the standard deviations of noise to allow for.
        """
        return np.clip(self.ends + deviations * np.array([-1.0, 1.0]) * self.errors, 0.0, 1.0)


@dataclass(frozen=True)
class Part:
    """The reports over which the means of functions are taken.

    Attributes:
        totals: the number of reports of each mechanism, shape (mechanisms,).
        counts: the share of the mechanism's reports in each cell, shape (cells,).
        noise: how far shares of the points can be from those that the other half suggests; None if reports
            are too few for halves.
    """

    totals: Floats
    counts: Floats
    noise: Noise | None


@dataclass(frozen=True)
class SplitReports:
    """The reports of all services that have enough of them.

    Attributes:
        points: the values in [0, 1] at which shares of people stand for all values, ascending, shape
            (points,).
        values: the points, and then the midpoints between them if probabilities are not linear there; shape
            (values,).
        channel: P(cell | value), with the cells of the mechanisms stacked, shape (cells, values).
        starts: the first cell of each mechanism, shape (mechanisms,).
        parts: the two halves of the reports, or all reports if there are few.
        deviations: the standard deviations of noise for which bounds are narrowest.
        rounding: the greatest distance by which clients round values.
        at_points: whether people can only have values that are points.
        false: the share of each mechanism's reports that liars may have sent, shape (mechanisms,).
    """

    points: Floats
    values: Floats
    channel: Floats
    starts: Integers
    parts: tuple[Part, ...]
    deviations: float
    rounding: float
    at_points: bool
    false: Floats

    def shares(self, starts: Floats, stops: Floats, wanted: NDArray[np.bool_] | None = None) -> Bounds:
        """The bounds of the shares of people from each start to its stop.

        People exactly at an end may or may not count; but they do at an end of the domain, and everywhere if
        values are points. All starts and stops in [0, 1] must be points. ``wanted`` tells which ends to
        compute, shape (shares, 2): the others are 0 or 1.
        """
        starts, stops = as_points(starts), as_points(stops)
        # Nobody is beyond an end of the domain.
        starts, stops = np.where(starts <= 0.0, -np.inf, starts), np.where(stops >= 1.0, np.inf, stops)
        a, b, at = self._moved(starts, -1), self._moved(stops, 1), self.values
        with_ends = (a[:, None] <= at) & (at <= b[:, None])
        a, b = self._moved(starts, 1), self._moved(stops, -1)
        without = with_ends if self.at_points else (a[:, None] < at) & (at < b[:, None])
        both, sign = np.stack((-1.0 * without, with_ends)), np.array([[-1.0], [1.0]])
        asked = np.ones(both.shape[:2], dtype=bool) if wanted is None else wanted.T
        ends, errors = np.tile([[0.0], [1.0]], len(starts)), np.zeros(asked.shape)
        most, errors[asked] = self._at_most(both[asked])
        ends[asked] = (asked * sign)[asked] * most
        # A share that is below zero by noise is zero, with the same error.
        return Bounds(np.clip(ends.T, 0.0, 1.0), errors.T)

    def below(self, places: Floats, wanted: NDArray[np.bool_]) -> Bounds:
        """The bounds of the shares of people up to each place; ``wanted`` is as in :meth:`shares`."""
        if self.parts[0].noise is not None:
            return self.shares(np.full(len(places), -1.0), places, wanted)
        index = np.searchsorted(self.points, as_points(places))
        return Bounds(self._below_points.ends[index], self._below_points.errors[index])

    @functools.cached_property
    def _below_points(self) -> Bounds:
        return self.shares(np.full(len(self.points), -1.0), self.points)

    def mean(self, numbers: Callable[[Floats], Floats]) -> Bounds:
        """The bounds of the mean of a function of people's values.

        Args:
            numbers: the function, from [0, 1] to [0, 1]; between points it is convex or concave.
        """
        points, parts = self.points, np.arange(1, WITHIN) / WITHIN
        at, widths = numbers(points), np.diff(points)
        # How far the function is above and below the straight line between two points.
        apart = numbers(points[:-1, None] + parts * widths[:, None])
        apart = apart - (at[:-1, None] + parts * np.diff(at)[:, None])
        beyond = (1.0 + 1.0 / WITHIN) * np.maximum([-apart.min(), apart.max()], 0.0)
        (most, less), errors = self._at_most(np.array([at, -at]))
        ends = np.array([[-less - beyond[0], most + beyond[1]]])
        return Bounds(np.clip(ends, 0.0, 1.0), errors[None, ::-1])

    def _moved(self, places: Floats, sign: int) -> Floats:
        """The places moved down or up, to points where clients may have rounded the values there."""
        if not self.rounding:
            return places
        points, moved = self.points, places + sign * self.rounding
        index = np.searchsorted(points, moved) if sign > 0 else np.searchsorted(points, moved, "right") - 1
        at_points = points[np.clip(index, 0, len(points) - 1)]
        return np.where(np.isinf(places), places, at_points)

    def _at_most(self, wanted: Floats) -> tuple[Floats, Floats]:
        """(upper bounds of weighted sums of people's shares, the standard errors), shape (sums,) each.

        Args:
            wanted: the weight of each value in each sum, shape (sums, values).
        """
        of_parts = np.array([self._at_most_of(part, wanted) for part in self.parts])
        # Both halves have the same weight.
        bounds, variances = of_parts.mean(axis=0)
        errors = np.sqrt(variances / len(self.parts))
        # The share of everybody is one, and of nobody zero.
        known = np.ptp(wanted, axis=1) == 0.0
        return np.where(known, wanted[:, 0], bounds), np.where(known, 0.0, errors)

    def _at_most_of(self, part: Part, wanted: Floats) -> tuple[Floats, Floats]:
        """(the bounds from one part of the reports, their variances), shape (sums,) each."""
        points, totals = len(self.points), part.totals * len(self.parts)
        if part.noise is not None:
            v = functions(wanted[:, :points], part.noise, self.deviations)
        else:
            telling = tell(part.totals, self.false, self.deviations)
            alike = tuple(float(2.0 ** (round(2.0 * np.log2(total)) / 2.0)) for total in telling)
            reports = tuple(np.repeat(alike, np.diff(self.starts, append=len(self.channel))).tolist())
            asked = (np.ascontiguousarray(own[:, :points]) for own in (self.channel, wanted))
            v = _for_even_people(
                *(own.astype(np.float64).tobytes() for own in asked), reports, self.deviations
            )
        bounds = v @ self.channel
        slack = (wanted[:, :points] - bounds[:, :points]).max(axis=1)
        if len(self.values) > points:
            # Between points, the bound lies below a straight line by at most twice the gap at the midpoint.
            line = 0.5 * (bounds[:, 1:points] + bounds[:, : points - 1])
            slack += 2.0 * np.maximum((line - bounds[:, points:]).max(axis=1), 0.0)
        # Few reports may miss a cell that matters: assume this many more, where they raise the bound most.
        unseen = 0.5 * self.deviations**2
        least, most = (own.reduceat(v, self.starts, axis=1) for own in (np.minimum, np.maximum))
        means, squares = (
            (totals * np.add.reduceat(power * part.counts, self.starts, axis=1) + unseen * largest)
            / (totals + unseen)
            for power, largest in ((v, most), (v**2, most**2))
        )
        variances = np.maximum(squares - means**2, 0.0) / (totals + unseen) * len(self.parts)
        _, up = moved(means, least, most, self.false)
        return (means + up).sum(axis=1) + slack, (variances / (1.0 - self.false) ** 2).sum(axis=1)


@functools.lru_cache(maxsize=64)
def _for_even_people(channel: bytes, wanted: bytes, reports: tuple[float, ...], deviations: float) -> Floats:
    """The functions for people who are spread evenly over the points, by :func:`functions`."""
    of_cells = np.frombuffer(channel).reshape(len(reports), -1)
    points = of_cells.shape[1]
    even = noise(of_cells, np.full(points, 1.0 / points), np.array(reports))
    return functions(np.frombuffer(wanted).reshape(-1, points), even, deviations)


def tell(totals: Floats, false: Floats, deviations: float) -> Floats:
    """How many honest reports say as much as these, of which a share may be false.

    A bound is beyond a mean by noise, and by the effect of false reports. Both are in proportion to the
    standard deviation of the function, if its minimum is LEAST_BELOW of them below the mean.
    """
    return np.asarray(totals / (1.0 + LEAST_BELOW * false * np.sqrt(totals) / deviations) ** 2)


def as_points(places: Floats) -> Floats:
    """Places on [0, 1] as points: places that differ by rounding alone become one."""
    return np.round(places, DECIMALS)


def split(
    question: Question, deviations: float, places: Floats, *, expected: bool = False, liars: float = 0.0
) -> SplitReports | None:
    """The reports of a question, with some places among the points; None if too few are useful.

    Args:
        question: the question that the reports answer.
        deviations: the standard deviations of noise for which bounds should be narrowest.
        places: the places on [0, 1], shape (n,).
        expected: whether counts are expectations; then the halves are expectations, too, and not drawn.
        liars: the share of the people who may send anything.
    """
    kinds = [group for group in mechanisms_of(question) if question.false_share(group, liars) < MOST_FALSE]
    if not kinds:
        return None
    buckets = question.attribute.buckets
    reports = sum(question.reports_of(index) for group in kinds for index in group)
    rounding = max(_rounding(question, index) for group in kinds for index in group)
    count = cast(Numeric, question.attribute.domain).count
    at_points = 0 < count <= MOST_VALUES and not rounding
    variance = _variance(question, kinds[0])
    most = CELLS if reports > FEW or variance < VARIANCE else CELLS // 2
    if variance < (OF_POINTS if at_points else SMALL_VARIANCE):
        most = 2 * CELLS
    cells = coarse(buckets, max(most // len(kinds), CELLS // 2))
    mechanisms = [question.mechanism(group[0]) for group in kinds]
    # If people may have other values, merged cells have no corners.
    every = max(1, cells // (most if at_points else max(most, CELLS)))
    if at_points:
        values = points = as_points(np.arange(count) / (count - 1))
    else:
        corners = [None if every > 1 else mechanism.corners(cells) for mechanism in mechanisms]
        linear = all(of_one is not None for of_one in corners)
        points = np.concatenate([places, [0.0, 1.0], *(of_one for of_one in corners if of_one is not None)])
        if not linear:
            points = np.append(points, np.linspace(0.0, 1.0, POINTS))
        points = np.unique(as_points(points))
        values = points if linear else np.append(points, 0.5 * (points[1:] + points[:-1]))
    channels = [_together(mechanism.at(values, cells), every) for mechanism in mechanisms]
    counts = [_together(sum(merged(question, index, cells) for index in group), every) for group in kinds]
    sizes, channel, counted = [len(of_one) for of_one in counts], np.vstack(channels), np.concatenate(counts)
    starts = np.cumsum([0, *sizes[:-1]])
    # The mean of both halves is as uncertain as that of all reports.
    false = np.array([question.false_share(group, liars) for group in kinds])
    total_of_cells = np.repeat(tell(np.add.reduceat(counted, starts), false, deviations), sizes)

    def part(own: Integers, others: Integers | None) -> Part:
        totals, around = np.add.reduceat(own, starts), None
        if others is not None:
            totals_of_others = np.repeat(np.add.reduceat(others, starts), sizes)
            suggested = _suggested(channel[:, : len(points)], others, totals_of_others)
            around = noise(channel[:, : len(points)], suggested, total_of_cells)
        return Part(totals, own / np.repeat(totals, sizes), around)

    parts: tuple[Part, ...]
    if reports <= EVENLY:
        parts = (part(counted, None),)
    elif expected:
        # Both halves would be half of the expectation.
        parts = (part(counted, counted),)
    else:
        # Halves of a multinomial are independent.
        rng = np.random.default_rng(zlib.crc32(counted.tobytes()))
        half = rng.binomial(counted, 0.5)
        parts = (part(counted - half, half), part(half, counted - half))
    return SplitReports(points, values, channel, starts, parts, deviations, rounding, at_points, false)


def mechanisms_of(question: Question) -> list[list[int]]:
    """The channels of each usable mechanism with enough reports, the most informative mechanism first.

    Reports of one mechanism are counted together; the first channel stands for all.
    """
    usable = {
        index: question.mechanism(index)
        for index in question.versions
        if question.reports_of(index) >= FEWEST and _says(question, index)
    }
    alike = [[other for other, of in usable.items() if of == mechanism] for mechanism in usable.values()]
    kinds = [group for index, group in zip(usable, alike, strict=True) if group[0] == index]
    return sorted(kinds, key=lambda group: _variance(question, group))[:MECHANISMS]


def _variance(question: Question, group: list[int]) -> float:
    """The variance of a mean from the reports of one mechanism."""
    reports = sum(map(question.reports_of, group))
    return float(question.mechanism(group[0]).variance(0.5)) / reports


def _rounding(question: Question, index: int) -> float:
    """The greatest distance by which clients that remember their noise round a value."""
    lifetime = question.attribute.versions[index].lifetime
    return 0.0 if lifetime is None or lifetime.values else 0.5 / lifetime.memo_buckets


def _together(cells: Any, every: int) -> Any:
    """The sums of every ``every`` successive rows."""
    return np.add.reduceat(cells, np.arange(0, len(cells), every), axis=0)


def _says(question: Question, index: int) -> bool:
    """Whether a channel's mechanism says what it does with single values."""
    mechanism = question.mechanism(index)
    return isinstance(mechanism, NumericMechanism) and mechanism.at(np.zeros(1), 2) is not None


def coarse(cells: int, most: int) -> int:
    """The greatest divisor of a number of cells up to ``most``, or the number itself if that is too small."""
    divisor = greatest_divisor(cells, most)
    return divisor if 2 * divisor >= most or cells <= most else cells


def merged(question: Question, index: int, cells: int) -> Integers:
    """The reports of a channel in fewer cells, each of which merges cells of the histogram."""
    mechanism, histogram = question.mechanism(index), question.statistic.histograms[index]
    places = mechanism.bucketise(mechanism.representatives(question.attribute.buckets), cells)
    counts = np.zeros(mechanism.cells(cells), dtype=np.int64)
    np.add.at(counts, places, histogram)
    return counts


def _suggested(channel: Floats, counts: Integers, totals: Integers) -> Floats:
    """Approximate shares of the points, all positive: EM, stopped early.

    Args:
        channel: P(cell | point), with the cells of all mechanisms stacked, shape (cells, points).
        counts: the number of reports in each cell, shape (cells,).
        totals: the number of reports of each cell's mechanism, shape (cells,).
    """
    shares = np.full(channel.shape[1], 1.0 / channel.shape[1])
    likeliest = xlogy(counts, counts / totals).sum()
    for _ in range(STEPS):
        expected = channel @ shares
        if likeliest - xlogy(counts, expected).sum() < 0.5 * EXPLAINED * len(counts):
            break
        shares = shares * (channel.T @ (counts / expected)) / counts.sum()
    return np.asarray((1.0 - EVEN) * shares / shares.sum() + EVEN / len(shares))

"""Certain intervals: they hold for every distribution of people's values.

The intervals of :mod:`ldpbeam.intervals.numbers` rest on a smooth density. These assume only that shares are
not negative and sum to one, and that the mean of many reports is nearly normal
(:mod:`ldpbeam.intervals.split_reports`).
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.special import ndtri

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.certainty import Intervals, by_condition
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.split_reports import POINTS, SplitReports, as_points, split

#: The numbers that have certain intervals.
PARTS = ("quantiles", "ranges", "cdf")
#: How the intervals are computed, in words, and why there are none.
STRICT = "bounds that hold together, whatever people's values are"
OF_SPANS = "; each is bounded by the share of {count} neighbouring buckets: reports say little about one"
JOINED = "none: the windows of each user are joined"
REMEMBERED = "none: several windows have the same noise of clients that remember it"
NOT_NAMED = "none: the study wants intervals of the numbers that it names only"
TOO_FEW = "none: no service has enough reports of a mechanism that says what it does with single values"
#: The end of a quantile of whole values is one of them up to this distance, in steps.
ROUNDING = 1e-4
#: The number of places of the domain, from the low end, at which the distribution function is bounded.
PLACES = 32
#: The most single values of a domain with a step, or spans of buckets, that have bounds.
SPANS = 64
#: Shares are rounded outward to this.
DIGITS = 1000.0


def strict_intervals(question: Question, wanted: WantedIntervals, *, expected: bool = False) -> Intervals:
    """The certain intervals of quantiles, ranges, the distribution function, and of values with a step.

    Args:
        question: the question that the reports answer.
        wanted: the level, quantiles and ranges.
        expected: whether the counts of the reports are expectations.
    """
    domain = cast(Numeric, question.attribute.domain)
    ranges = _on_unit(np.array(wanted.ranges, dtype=np.float64).reshape(-1, 2), domain)
    at, places, _ = cdf_places(domain)
    if question.statistic.joined is not None:
        return _none(wanted, JOINED)
    if question.repeats > 1:
        # Reports of one client would be in both parts.
        return _none(wanted, REMEMBERED)
    alone = expected or wanted.named_only
    together, spans = (1, np.zeros((0, 2))) if alone else _spans(question.attribute)
    named, others = _deviations(wanted, domain, len(places) + len(spans))
    points = np.concatenate((places, ranges.ravel(), _of_scale(domain), spans.ravel()))
    reports = split(question, named, points, expected=expected, liars=wanted.liars)
    if reports is None:
        return _none(wanted, TOO_FEW)
    below = np.column_stack((np.full(len(places), -1.0), places))
    after = [len(below), len(below) + len(ranges)]
    starts, stops = np.vstack((below, ranges, spans)).T
    asked = np.ones((len(starts), 2), dtype=bool)
    # A value of a span may have nobody, so single values in spans have no low end.
    asked[after[1] :, 0] = together == 1
    shares = reports.shares(starts, stops, asked)
    cdf, of_ranges, _ = np.split(shares.within(named), after)
    of_places, _, of_spans = np.split(shares.within(others), after)
    # All hold together, so that no share up to a value is below that up to a smaller one.
    of_places[:, 0] = np.maximum.accumulate(of_places[:, 0])
    of_places[:, 1] = np.minimum.accumulate(of_places[::-1, 1])[::-1]
    quantiles = _quantiles(reports, np.array(wanted.quantiles), places, cdf, named)
    if domain.count:
        index = quantiles * (domain.count - 1)
        whole = np.column_stack((np.floor(index[:, 0] + ROUNDING), np.ceil(index[:, 1] - ROUNDING)))
        of_quantiles = domain.values[whole.astype(int)]
    else:
        of_quantiles = domain.from_unit(quantiles)
    parts = {"quantiles": of_quantiles, "ranges": _outward(of_ranges)}
    if not wanted.named_only:
        parts["cdf"] = _outward(of_places)
    if domain.scale is not None and not reports.rounding:
        # Sums of reports bound other means.
        of_mean = reports.mean(lambda x: (domain.from_unit(x) - domain.low) / domain.width)
        parts["mean"] = domain.at(of_mean.within(named))
    _, ranges_apart, spans_apart = np.split(shares.ends, after)
    apart = {"ranges": ranges_apart}
    if len(spans):
        of_buckets = np.repeat(np.arange(len(spans)), together)[: question.attribute.value_buckets]
        parts["distribution"], apart["distribution"] = _outward(of_spans)[of_buckets], spans_apart[of_buckets]
    held, without = ({name: of for name, of in own.items() if len(of)} for own in (parts, apart))
    methods = dict.fromkeys((*PARTS, *held), STRICT) | ({"cdf": NOT_NAMED} if wanted.named_only else {})
    if together > 1:
        methods["distribution"] += OF_SPANS.format(count=together)
    return Intervals(
        wanted.level, ends=by_condition(certain=held, without_noise=without), at=at.tolist(), methods=methods
    )


def _none(wanted: WantedIntervals, how: str) -> Intervals:
    return Intervals(wanted.level, methods=dict.fromkeys(PARTS, how))


def _of_scale(domain: Numeric) -> Floats:
    """Points of [0, 1] between which a domain's scale is nearly linear; none without a scale."""
    if isinstance(domain.scale, tuple):
        return domain.to_unit(domain.scale)
    return np.linspace(0.0, 1.0, 0 if domain.scale is None else POINTS)


def _spans(attribute: Attribute) -> tuple[int, Floats]:
    """(the number of value buckets in a span, the first and the last value of each span on [0, 1])."""
    domain, buckets = cast(Numeric, attribute.domain), attribute.value_buckets
    if not domain.count:
        return 1, np.zeros((0, 2))
    together, values = -(-buckets // SPANS), domain.count // buckets
    first = np.arange(0, buckets, together)
    last = np.minimum(first + together, buckets) * values - 1
    return together, np.column_stack((first * values, last)) / (domain.count - 1)


def _deviations(wanted: WantedIntervals, domain: Numeric, places: int) -> tuple[float, float]:
    """The standard deviations of noise to allow for: with named numbers, and with others.

    All intervals of an estimate hold together at the level. By Bonferroni, half of the allowed misses are for
    named numbers, and half for the distribution function and single values, if these are wanted.
    """
    half, named = 0.25 * (1.0 - wanted.level), named_numbers(wanted, domain)
    return float(-ndtri((1 + wanted.named_only) * half / max(named, 1))), float(-ndtri(half / places))


def named_numbers(wanted: WantedIntervals, domain: Numeric) -> int:
    """The number of named numbers whose certain intervals hold together."""
    with_mean = domain.scale is not None or wanted.named_only
    return len(wanted.quantiles) + len(wanted.ranges) + with_mean


def cdf_places(domain: Numeric) -> tuple[Floats, Floats, Floats]:
    """(the values up to which shares are bounded; the same on [0, 1]; the part of all buckets up to each)."""
    if not domain.count:
        parts = np.arange(PLACES) / PLACES
        return domain.from_unit(parts), parts, parts
    index = np.unique(np.arange(PLACES) * domain.count // PLACES)
    return domain.values[index], index / (domain.count - 1), (index + 1) / domain.count


def _on_unit(ranges: Floats, domain: Numeric) -> Floats:
    """The ends of ranges on [0, 1]; with a step, the first and the last value inside."""
    if domain.step is None:
        return domain.to_unit(ranges)
    start = domain.low - 0.5 * domain.step
    first, after = metrics.values_within(ranges[:, 0], ranges[:, 1], start, domain.step)
    return np.column_stack((first, after - 1.0)) / (domain.count - 1.0)


def _outward(ends: Floats) -> Floats:
    low, high = np.floor(ends[:, 0] * DIGITS), np.ceil(ends[:, 1] * DIGITS)
    return np.column_stack((low, high)) / DIGITS


def _quantiles(
    reports: SplitReports, levels: Floats, places: Floats, cdf: Floats, deviations: float
) -> Floats:
    """The points between which each quantile lies, shape (levels, 2), by bisection.

    The low end is the last point up to which there are certainly fewer people than the level. The high end is
    the first point from which on there are certainly more: where nobody is, single bounds are noise.
    """
    points, last = reports.points, len(reports.points)
    known = np.searchsorted(points, as_points(places))
    # Before the first point, and after the last one, everything is certain.
    least, most = cdf[:, 0] > levels[:, None], cdf[:, 1] >= levels[:, None]
    # The first point where the largest share reaches the level, and from which the smallest exceeds it.
    sides = []
    for first in (
        np.where(most.any(axis=1), most.argmax(axis=1), len(places)),
        np.where(least.all(axis=1), 0, len(places) - (~least[:, ::-1]).argmax(axis=1)),
    ):
        before = np.where(first > 0, known[np.maximum(first, 1) - 1], -1)
        sides.append((before, np.append(known, last)[first]))
    before = np.concatenate([side[0] for side in sides])
    after = np.concatenate([side[1] for side in sides])
    wanted = np.tile(levels, 2)
    while (after - before > 1).any():
        open_ = np.flatnonzero(after - before > 1)
        middle = (before[open_] + after[open_]) // 2
        of_most = open_ < len(levels)
        asked = np.column_stack((~of_most, of_most))
        ends = reports.below(points[middle], asked).within(deviations)
        reached = np.where(of_most, ends[:, 1] >= wanted[open_], ends[:, 0] > wanted[open_])
        after[open_] = np.where(reached, middle, after[open_])
        before[open_] = np.where(reached, before[open_], middle)
    # If people can only have values that are points, the quantile is above the last such point.
    low = points[np.maximum(before[: len(levels)], 0)]
    if reports.at_points:
        low = points[np.minimum(after[: len(levels)], last - 1)]
    high = points[np.minimum(after[len(levels) :], last - 1)]
    return np.column_stack((low, high))

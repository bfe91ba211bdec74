"""Closed-form intervals of the mean, from sums of unbiased reports and of their squares."""

from __future__ import annotations

from typing import cast

import numpy as np

from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.bounded import within_one
from ldpbeam.mechanisms import NumericMechanism


def has_sums(question: Question) -> bool:
    """Whether every channel in use has unbiased reports of numbers, whose sums the statistic has."""
    mechanisms = [question.attribute.versions[index].mechanism for index in question.versions]
    return isinstance(question.attribute.domain, Numeric) and all(
        isinstance(mechanism, NumericMechanism) for mechanism in mechanisms
    )


def report_moments(question: Question, index: int) -> tuple[float, float]:
    """The means of a channel's unbiased reports of x in [0, 1], and of their squares."""
    mechanism = cast(NumericMechanism, question.attribute.versions[index].mechanism)
    moments = [own for mask, own in question.statistic.moments.items() if mask >> index & 1]
    reports, step = question.reports_of(index), mechanism.fixed_point_step
    first = sum(own.sums[index] for own in moments) * step / reports
    second = sum(own.squares[index] for own in moments) * step**2 / reports
    slope, intercept = mechanism.unbiased_map
    return slope * first + intercept, slope**2 * second + 2.0 * slope * intercept * first + intercept**2


def noise_variances(question: Question) -> tuple[Floats, Floats, float]:
    """(each channel's mean report, its noise variance, the variance of people's values), on [0, 1].

    The variance of a report given x is a quadratic polynomial of x, so the mean of the reports' squares gives
    the mean of x squared, unless a report's square is the same for every x (SR). The channels then share
    what the others say; if none says anything, the mean of x squared is taken to be that of one value, for
    which the noise is largest.
    """
    told, squares, weights, polynomials = [], [], [], []
    for index in question.versions:
        mechanism = cast(NumericMechanism, question.attribute.versions[index].mechanism)
        first, second = report_moments(question, index)
        c0, c1, c2 = mechanism.variance_polynomial
        told.append(first)
        polynomials.append((c0, c1, c2))
        if abs(1.0 + c2) > 1e-6:
            squares.append((second - c0 - c1 * first) / (1.0 + c2))
            # About one over the variance of that, for reports far larger than the values.
            weights.append(question.reports_of(index) * ((1.0 + c2) / second) ** 2)
    means = np.array(told)
    constants = np.array(polynomials)
    counts = np.array([question.reports_of(index) for index in question.versions])
    precisions = counts / np.maximum(constants @ [1.0, 0.5, 1.0 / 3.0], 1e-12)
    mean = float(np.clip(precisions @ means / precisions.sum(), 0.0, 1.0))
    square = float(np.average(squares, weights=weights)) if squares else mean**2
    square = float(np.clip(square, mean**2, mean))
    noise = constants @ [1.0, mean, square]
    return means, np.maximum(noise, 1e-12), square - mean**2


def mean_interval(question: Question, level: float) -> tuple[float, float]:
    """The interval of the mean of all people who reported, in the attribute's unit.

    Services are weighted by the inverse of their noise variance. If they asked different people, the variance
    of people's values is added to it, and a weight that is not a service's share of the people adds a
    sampling error.
    """
    means, noise, spread = noise_variances(question)
    counts = np.array([question.reports_of(index) for index in question.versions], dtype=np.float64)
    weights = counts / (noise + question.apart * spread)
    parts, people = weights / weights.sum(), counts / counts.sum()
    variance = (parts**2 * noise / counts).sum()
    variance += question.apart * spread * ((parts - people) ** 2 / counts).sum()
    ((low, high),) = within_one([parts @ means], [np.sqrt(variance)], level)
    domain = cast(Numeric, question.attribute.domain)
    return float(domain.from_unit(low)), float(domain.from_unit(high))

"""What a design can show: strict intervals that are expected before any report, and the finest detail.

Reports of people who are spread evenly tell where the median is within some part of the range. About so wide
is the smallest gap that shows, and so large the share of the smallest spike.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Numeric
from ldpbeam.estimators.estimate import StrictIntervals
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.statistics import Moments, empty


def expected_intervals(
    attribute: Attribute, reports: Mapping[int, int], wanted: WantedIntervals
) -> StrictIntervals | None:
    """The strict intervals of people who are spread evenly, from the reports that they are expected to send.

    Args:
        attribute: an attribute of numbers.
        reports: how many reports each channel has, by its index in ``attribute.versions``.
        wanted: the level, quantiles and ranges.

    Returns:
        None if the reports are too few, or of mechanisms that do not say what they do with single values.
    """
    even = np.full(attribute.value_buckets, 1.0 / attribute.value_buckets)
    histograms = [np.zeros_like(histogram) for histogram in empty(attribute).histograms]
    moments = {}
    for index, many in reports.items():
        # Sums are rounded, so that few reports in many cells are as many as they are.
        below = np.rint(np.cumsum(many * attribute.channel(index).matvec(even)))
        histograms[index] = np.diff(below, prepend=0.0).astype(np.int64)
        moments[1 << index] = Moments(many, (), ())
    services = tuple(attribute.versions[index].service for index in reports)
    statistic = replace(
        empty(attribute), reports=sum(reports.values()), histograms=tuple(histograms), moments=moments
    )
    return strict_intervals(Question(attribute, statistic, services), wanted, expected=True)[0]


@functools.lru_cache(maxsize=1024)
def finest_detail(attribute: Attribute, reports: tuple[tuple[int, int], ...], level: float) -> float | None:
    """The finest detail that reports show, as a part of the range; None if that is not known.

    Strict intervals know the median of people who are spread evenly within so much.

    Args:
        attribute: an attribute of numbers.
        reports: the index of each channel in ``attribute.versions``, and how many reports it has.
        level: the level of the intervals.
    """
    expected = expected_intervals(attribute, dict(reports), WantedIntervals(level, quantiles=(0.5,)))
    if expected is None:
        return None
    return float(np.ptp(cast(Numeric, attribute.domain).to_unit(expected.quantiles[0])))

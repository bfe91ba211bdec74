"""What a design can show: the certain intervals that are expected before any report.

Reports of people who are spread evenly tell where the median is within some part of the range. About so wide
is the smallest gap that shows, and so large the share of the smallest spike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.certainty import Intervals
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.statistics import Moments, empty


def expected_intervals(
    attribute: Attribute, reports: Mapping[int, int], wanted: WantedIntervals
) -> Intervals:
    """The certain intervals of people who are spread evenly, from the reports that they are expected to send.

    Args:
        attribute: an attribute of numbers.
        reports: how many reports each channel has, by its index in ``attribute.versions``.
        wanted: the level, quantiles and ranges.

    Returns:
        No ends if the reports are too few, or of mechanisms that do not say what they do with single values.
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
    return strict_intervals(Question(attribute, statistic, services), wanted, expected=True)

"""The detail that a design can show: the certain intervals that we expect before any report.

The reports of evenly spread people locate the median to within some part of the range. The smallest visible
gap is about as wide, and the smallest visible spike has about as large a share.
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
    """The certain intervals of evenly spread people, from the expected counts of their reports.

    Args:
        attribute: an attribute of numbers.
        reports: the number of reports of each channel, by its index in ``attribute.versions``.
        wanted: the level, quantiles and ranges.

    Returns:
        No ends if there are too few reports, or the mechanisms do not say what they do with single values.
    """
    even = np.full(attribute.value_buckets, 1.0 / attribute.value_buckets)
    histograms = [np.zeros_like(histogram) for histogram in empty(attribute).histograms]
    moments = {}
    for index, many in reports.items():
        # Running sums are rounded, not counts, so that few reports in many cells keep their number.
        below = np.rint(np.cumsum(many * attribute.channel(index).matvec(even)))
        histograms[index] = np.diff(below, prepend=0.0).astype(np.int64)
        moments[1 << index] = Moments(many, (), ())
    services = tuple(attribute.versions[index].service for index in reports)
    statistic = replace(
        empty(attribute), reports=sum(reports.values()), histograms=tuple(histograms), moments=moments
    )
    return strict_intervals(Question(attribute, statistic, services), wanted, expected=True)

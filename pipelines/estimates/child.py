"""What a process that computes estimates runs.

It imports the statistics only, neither Beam nor file formats, so that it starts in about a second.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats
from ldpbeam.estimators import Estimate, Progress, estimate, registered_estimators
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.several_windows import of_several_windows
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.pipelines.estimates.blas import limit_blas
from ldpbeam.plugins import BrokenPlugin
from ldpbeam.statistics import Statistic
from ldpbeam.study import WantedEstimate

_attributes: Mapping[str, Attribute] = {}


def compute(
    attribute: Attribute,
    statistic: Statistic,
    wanted: WantedEstimate,
    progress: Progress | None = None,
    start: Floats | None = None,
    intervals: StatisticIntervals | None = None,
    windows: int = 1,
) -> Estimate:
    """Compute one estimate with its intervals, with the same bits in every process.

    Args:
        attribute: the attribute of the statistic.
        statistic: what the estimate is computed from.
        wanted: the estimator, its services, its options and its intervals.
        progress: called after every iteration.
        start: the shares that a warm start begins from, shape (value buckets,).
        intervals: the intervals of the statistic, if other estimates share them.
        windows: how many windows the statistic is of; several in a roll-up.
    """
    limit_blas()
    answer = estimate(
        wanted.estimator, attribute, statistic, wanted.services, wanted.options, progress, start
    )
    answer = of_several_windows(Question(attribute, statistic, answer.services, windows=windows), answer)
    if wanted.intervals is None:
        return answer
    shared = StatisticIntervals(attribute, statistic, windows) if intervals is None else intervals
    return replace(answer, intervals=shared.of(answer, wanted.intervals))


def begin(attributes: Mapping[str, Attribute]) -> None:
    """Prepare this process: called once, before :func:`compute_here`, with the study's attributes by name."""
    global _attributes
    _attributes = attributes
    with warnings.catch_warnings():
        # The parent has warned of them.
        warnings.simplefilter("ignore", BrokenPlugin)
        registered_estimators()


def compute_here(asked: Sequence[tuple[str, Statistic, int, WantedEstimate]]) -> list[Estimate]:
    """Estimates in this process.

    Args:
        asked: the attribute, the statistic, the number of its windows and the wanted estimate of each.
            Neighbours with one statistic share its intervals.
    """
    answers = []
    for (name, _), group in itertools.groupby(asked, lambda one: (one[0], id(one[1]))):
        attribute, intervals = _attributes[name], None
        for _, statistic, windows, wanted in group:
            intervals = intervals or StatisticIntervals(attribute, statistic, windows)
            answers.append(compute(attribute, statistic, wanted, intervals=intervals, windows=windows))
    return answers

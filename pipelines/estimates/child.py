"""What a process that computes estimates runs.

It imports the statistics only, neither Beam nor file formats, so that it starts in about a second.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats
from ldpbeam.estimators import Estimate, Progress, estimate, registered_estimators
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.pipelines.estimates.blas import limit_blas
from ldpbeam.plugins import BrokenPlugin
from ldpbeam.statistics import Statistic
from ldpbeam.study import WantedEstimate

#: Seconds after which a process notices that its parent has ended.
PARENT_SECONDS = 0.5

_attributes: Mapping[str, Attribute] = {}


@dataclass(frozen=True)
class Caught:
    """A warning that was issued in another process.

    Attributes:
        category: the class of the warning.
        text: what it says.
        filename: the source file that issued it.
        line: the line in that file.
    """

    category: type[Warning]
    text: str
    filename: str
    line: int


def compute(
    attribute: Attribute,
    statistic: Statistic,
    wanted: WantedEstimate,
    progress: Progress | None = None,
    start: Floats | None = None,
    intervals: StatisticIntervals | None = None,
) -> Estimate:
    """Compute one estimate with its intervals, with the same bits in every process.

    Args:
        attribute: the attribute of the statistic.
        statistic: what the estimate is computed from.
        wanted: the estimator, its services, its options and its intervals.
        progress: called after every iteration.
        start: the shares that a warm start begins from, shape (value buckets,).
        intervals: the intervals of the statistic, if other estimates share them.
    """
    limit_blas()
    found = estimate(wanted.estimator, attribute, statistic, wanted.services, wanted.options, progress, start)
    if wanted.intervals is None:
        return found
    shared = StatisticIntervals(attribute, statistic) if intervals is None else intervals
    return replace(found, intervals=shared.of(found, wanted.intervals))


def begin(attributes: Mapping[str, Attribute], parent: int) -> None:
    """Prepare this process: called once, before :func:`compute_here`.

    Args:
        attributes: the study's attributes by name.
        parent: the process that asks for estimates. When it ends, however it ends, this process ends too.
    """
    global _attributes
    _attributes = attributes
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with warnings.catch_warnings():
        # The parent has warned of them.
        warnings.simplefilter("ignore", BrokenPlugin)
        registered_estimators()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


def compute_here(
    asked: Sequence[tuple[str, Statistic, WantedEstimate]],
) -> tuple[list[Estimate], list[Caught]]:
    """Estimates, and the warnings that were issued meanwhile; the parent issues them again.

    Args:
        asked: the attribute, the statistic and the wanted estimate of each. Neighbours with one statistic
            share its intervals.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = []
        for (name, _), own in itertools.groupby(asked, lambda one: (one[0], id(one[1]))):
            attribute, intervals = _attributes[name], None
            for _, statistic, wanted in own:
                intervals = intervals or StatisticIntervals(attribute, statistic)
                found.append(compute(attribute, statistic, wanted, intervals=intervals))
    return found, [Caught(w.category, str(w.message), w.filename, w.lineno) for w in caught]

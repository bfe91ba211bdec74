"""From a snapshot to its estimates, in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldpbeam.domains import Floats
from ldpbeam.estimators import Estimate, starts_warm
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.pipelines.estimates.child import compute
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study, WantedEstimate


def answers(
    study: Study,
    snapshot: Snapshot,
    starts: Mapping[str, Estimate] | None = None,
) -> dict[str, Estimate]:
    """Every estimate that a study asks for of one snapshot, by name, in the study's order.

    Args:
        study: the study.
        snapshot: the snapshot that the estimates are computed from.
        starts: earlier estimates by name. Estimators with a single fixed point start from them.
    """
    attribute = study.attribute(snapshot.attribute)
    intervals = StatisticIntervals(attribute, snapshot.statistic)
    found = {}
    for name, wanted in study.described(snapshot.attribute).estimates.items():
        start = _start(wanted, (starts or {}).get(name))
        found[name] = compute(attribute, snapshot.statistic, wanted, start=start, intervals=intervals)
    return found


def _start(wanted: WantedEstimate, before: Estimate | None) -> Floats | None:
    """The distribution to start from; None if there is none, or if the result would depend on it."""
    if before is None or not starts_warm(wanted.estimator, wanted.options):
        return None
    return before.distribution


def solve(study: Study, snapshot: Snapshot) -> list[SolvedEstimate]:
    """The estimates of :func:`answers`, each with its attribute, window and group."""
    found = answers(study, snapshot)
    return [SolvedEstimate.of(snapshot, name, answer) for name, answer in found.items()]


class Solver:
    """Solves the panes of a stream.

    The estimates of an early pane start from those of the last pane of the same attribute and group. Panes on
    time and late panes start as a batch run does, so their estimates equal the batch run's.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._last: dict[tuple[str, str | None, bool], dict[str, Estimate]] = {}

    def solve(self, snapshot: Snapshot) -> list[SolvedEstimate]:
        """Every estimate of one snapshot of a pane."""
        place = (snapshot.attribute, snapshot.group, snapshot.other_groups > 0)
        starts = self._last.get(place) if snapshot.pane_timing == "early" else None
        found = answers(self.study, snapshot, starts=starts)
        self._last[place] = found
        return [SolvedEstimate.of(snapshot, name, answer) for name, answer in found.items()]


def sort_key(study: Study, solved: SolvedEstimate) -> tuple[Any, ...]:
    """The order of estimates in a file: attribute, window, group, then the study's order."""
    names = list(study.described(solved.attribute).estimates)
    return (
        study.places[solved.attribute],
        solved.window[0] if solved.window else 0,
        solved.other_groups > 0,
        solved.group is not None,
        solved.group or "",
        names.index(solved.name),
    )

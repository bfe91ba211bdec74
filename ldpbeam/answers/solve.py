"""From a snapshot to its estimates, in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ldpbeam.answers.child import compute
from ldpbeam.domains import Floats
from ldpbeam.estimators import Estimate, starts_warm
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study, WantedEstimate


def answers(
    study: Study,
    snapshot: Snapshot,
    starts: Mapping[str, Estimate] | None = None,
    *,
    with_intervals: bool = True,
) -> dict[str, Estimate]:
    """Every estimate that a study asks for of one snapshot, by name, in the study's order.

    Args:
        study: the study.
        snapshot: the snapshot that the estimates are computed from.
        starts: earlier estimates by name. Estimators with a single fixed point start from them.
        with_intervals: whether estimates have the intervals that the study asks for, or none.
    """
    attribute = study.attribute(snapshot.attribute).with_domain(snapshot.candidates)
    intervals = StatisticIntervals(attribute, snapshot.statistic, snapshot.windows)
    return {
        name: compute(
            intervals,
            wanted if with_intervals else replace(wanted, intervals=None),
            start=_start(wanted, (starts or {}).get(name)) if snapshot.candidates is None else None,
        )
        for name, wanted in study.described(snapshot.attribute).estimates.items()
    }


def _start(wanted: WantedEstimate, before: Estimate | None) -> Floats | None:
    """The distribution to start from; None if there is none, or if the result would depend on it."""
    if before is None or not starts_warm(wanted.estimator, wanted.options):
        return None
    return before.distribution


def solve(study: Study, snapshot: Snapshot) -> list[EstimateRecord]:
    """The estimates of :func:`answers`, each with its attribute, window and group."""
    answered = answers(study, snapshot)
    return [estimate_record(study, snapshot, name, answer) for name, answer in answered.items()]


class Solver:
    """Solves the panes of a stream.

    The estimates of an early pane start from those of the last pane of the same attribute and group. Panes on
    time and late panes start as a batch run does, so their estimates equal the batch run's.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._last: dict[tuple[str, str | None, bool], dict[str, Estimate]] = {}

    def solve(self, snapshot: Snapshot) -> list[EstimateRecord]:
        """Every estimate of one snapshot of a pane."""
        starts = self._last.get(snapshot.series) if snapshot.pane_timing == "early" else None
        answered = answers(self.study, snapshot, starts=starts)
        self._last[snapshot.series] = answered
        return [estimate_record(self.study, snapshot, name, answer) for name, answer in answered.items()]


def sort_key(study: Study, record: EstimateRecord) -> tuple[Any, ...]:
    """The order of estimates in a file: attribute, window, group, then the study's order."""
    names = list(study.described(record.attribute).estimates)
    return (
        study.places[record.attribute],
        record.window or (0, 0),
        record.other_groups > 0,
        record.group is not None,
        record.group or "",
        names.index(record.name),
    )

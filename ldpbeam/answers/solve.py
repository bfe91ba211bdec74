"""From a snapshot to its estimates, in a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ldpbeam.answers.child import compute
from ldpbeam.estimators import Estimate
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study


def answers(study: Study, snapshot: Snapshot, *, with_intervals: bool = True) -> dict[str, Estimate]:
    """Every estimate that a study asks for of one snapshot, by name, in the study's order.

    Args:
        study: the study.
        snapshot: the snapshot that the estimates are computed from.
        with_intervals: whether estimates have the intervals that the study asks for, or none.
    """
    attribute = study.attribute(snapshot.attribute).with_domain(snapshot.candidates)
    intervals = StatisticIntervals(attribute, snapshot.statistic, snapshot.windows)
    return {
        name: compute(intervals, wanted if with_intervals else replace(wanted, intervals=None))
        for name, wanted in study.described(snapshot.attribute).estimates.items()
    }


def solve(study: Study, snapshot: Snapshot) -> list[EstimateRecord]:
    """The estimates of :func:`answers`, each with its attribute, window and group."""
    answered = answers(study, snapshot)
    return [estimate_record(study, snapshot, name, answer) for name, answer in answered.items()]


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

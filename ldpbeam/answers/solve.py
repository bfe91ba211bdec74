"""From snapshots to their estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ldpbeam.answers.alarms import in_order
from ldpbeam.answers.child import compute, one_blas_thread
from ldpbeam.answers.published import Size, chosen, size_of, smallest
from ldpbeam.estimators import Estimate
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.windows import Bounds


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


def solved(study: Study, snapshots: Sequence[Snapshot]) -> tuple[list[EstimateRecord], Counter[str]]:
    """(the estimates of some snapshots, in the order of the study; counts of what is not estimated)."""
    windows: dict[tuple[str, Bounds | None], list[Snapshot]] = {}
    sizes: dict[str, list[Size]] = {}
    counts: Counter[str] = Counter()
    for snapshot in snapshots:
        windows.setdefault((snapshot.attribute, snapshot.window), []).append(snapshot)
    for (name, _), of_window in windows.items():
        sizes.setdefault(name, []).append(size_of(of_window))
    least, estimated = smallest(study, sizes), list[Snapshot]()
    for of_window in windows.values():
        picked = chosen(study, of_window, least)
        counts.update(picked.counts)
        estimated += picked.snapshots
    with one_blas_thread():
        estimates = [record for snapshot in estimated for record in solve(study, snapshot)]
    estimates.sort(key=lambda record: sort_key(study, record))
    slides = study.windows is not None and study.windows.slides
    return in_order(estimates, slides=slides, clock=study.local), counts

"""Snapshots to estimates: the last, small step, on the driver or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldpbeam.estimators import Estimate, Progress, estimate
from ldpbeam.schemas.estimates import estimate_record
from ldpbeam.schemas.snapshots import Snapshot
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.times import milliseconds

#: Makes a progress callback for one estimate, from its name.
Watch = Callable[[str], Progress]


def solve(study: Study, snapshot: Snapshot, watch: Watch | None = None) -> list[dict[str, Any]]:
    """Every estimate a study asks for of one snapshot, as Estimate records, in the study's order."""
    attribute = study.attribute(snapshot.attribute)
    model = study.model(snapshot.attribute)
    records = []
    for name, wanted in model.estimates.items():
        answer: Estimate = estimate(
            wanted.estimator,
            attribute,
            snapshot.statistic,
            tuple(wanted.services or ()),
            wanted.options,
            watch(f"{snapshot.attribute}.{name}") if watch else None,
        )
        records.append(estimate_record(study.study, name, attribute, snapshot, answer, model))
    return records


def sort_key(study: Study, record: dict[str, Any]) -> tuple[Any, ...]:
    """The order of estimates in a file: attribute, window, group, then the study's order."""
    names = list(study.model(record["attribute"]).estimates)
    return (
        study.places[record["attribute"]],
        milliseconds(record["window_start"]) if record["window_start"] else 0,
        record["other_groups"] > 0,
        record["group"] is not None,
        record["group"] or "",
        names.index(record["name"]),
    )

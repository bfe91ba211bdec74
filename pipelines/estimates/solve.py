"""Snapshots to estimates: the last, small step, on the driver or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ldpbeam.domains import Floats
from ldpbeam.estimators import Estimate, Progress, estimate, starts_warm
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study, WantedEstimate
from ldpbeam.times import milliseconds

#: Makes a progress callback for one estimate, from its name.
Watch = Callable[[str], Progress]


def answers(
    study: Study,
    snapshot: Snapshot,
    watch: Watch | None = None,
    starts: Mapping[str, Estimate] | None = None,
) -> dict[str, Estimate]:
    """Every estimate a study asks for of one snapshot, by its name, in the study's order.

    Args:
        study: what is estimated.
        snapshot: what it stands on.
        watch: makes progress callbacks.
        starts: earlier estimates by name, from which those begin that converge to one fixed point.
    """
    attribute = study.attribute(snapshot.attribute)
    found = {}
    for name, wanted in study.described(snapshot.attribute).estimates.items():
        found[name] = estimate(
            wanted.estimator,
            attribute,
            snapshot.statistic,
            wanted.services,
            wanted.options,
            watch(f"{snapshot.attribute}.{name}") if watch else None,
            _start(wanted, (starts or {}).get(name)),
        )
    return found


def _start(wanted: WantedEstimate, before: Estimate | None) -> Floats | None:
    """The distribution to begin from, where the answer does not depend on it."""
    if before is None or not starts_warm(wanted.estimator, wanted.options):
        return None
    return before.distribution


def solve(
    study: Study,
    snapshot: Snapshot,
    watch: Watch | None = None,
    starts: Mapping[str, Estimate] | None = None,
) -> list[dict[str, Any]]:
    """The same as Estimate records."""
    return _records(study, snapshot, answers(study, snapshot, watch, starts))


def _records(study: Study, snapshot: Snapshot, found: Mapping[str, Estimate]) -> list[dict[str, Any]]:
    attribute, summary = study.attribute(snapshot.attribute), study.described(snapshot.attribute).summary
    return [
        estimate_record(study.name, name, attribute, snapshot, answer, summary)
        for name, answer in found.items()
    ]


class Solver:
    """Solves the panes of a stream; an early one begins where the last of its attribute and group ended.

    Panes on time and late ones begin where a batch run does, and equal it.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._last: dict[tuple[str, str | None, bool], dict[str, Estimate]] = {}

    def solve(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Every estimate of a pane, as Estimate records."""
        place = (snapshot.attribute, snapshot.group, snapshot.other_groups > 0)
        starts = self._last.get(place) if snapshot.pane_timing == "early" else None
        self._last[place] = answers(self.study, snapshot, starts=starts)
        return _records(self.study, snapshot, self._last[place])


def sort_key(study: Study, record: dict[str, Any]) -> tuple[Any, ...]:
    """The order of estimates in a file: attribute, window, group, then the study's order."""
    names = list(study.described(record["attribute"]).estimates)
    return (
        study.places[record["attribute"]],
        milliseconds(record["window_start"]) if record["window_start"] else 0,
        record["other_groups"] > 0,
        record["group"] is not None,
        record["group"] or "",
        names.index(record["name"]),
    )

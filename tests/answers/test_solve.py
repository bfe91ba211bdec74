"""The panes of a stream solved: where each begins, and that those on time answer as a batch run does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ldpbeam import tally
from ldpbeam.answers import solve as stage
from ldpbeam.answers.solve import Solver, solve
from ldpbeam.estimators import Estimate
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study

TEXT = """\
study: panes
attributes:
  x:
    domain: %s
    buckets: 16
    services: {maps: {mechanism: piecewise, epsilon: 2.0}}
    estimates: {fixed: {estimator: ems, accelerated: true, tolerance: 1e-15}, short: {estimator: ems},
      mean: {estimator: ivw}}
windows: {size: 10s}
groups: {field: region, at_most: 2}
"""
STUDY = parse_study(TEXT % "{numeric: [0, 10]}")
#: Where only the starts matter.
WITHOUT_INTERVALS = TEXT + "intervals: false\n"
STARTS = parse_study(WITHOUT_INTERVALS % "{numeric: [0, 10]}")
FIRST, SECOND = (0, 10_000), (10_000, 20_000)


def snapshot(
    people: int,
    window: tuple[int, int] = FIRST,
    group: str | None = "north",
    other_groups: int = 0,
    study: Study = STUDY,
    name: str = "x",
) -> Snapshot:
    """Of so many people, by which a snapshot is known."""
    attribute, rng = study.attribute(name), np.random.default_rng(people)
    reports = attribute.versions[0].mechanism.perturb(rng.triangular(0, 3, 10, people), rng)
    statistic = tally(attribute, people, [Answers(0, np.arange(people), reports)])
    return Snapshot(name, window, group, other_groups, statistic)


def pane(snapshot: Snapshot, timing: str, **others: Any) -> Snapshot:
    return replace(snapshot, pane_timing=timing, **others)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Snapshot, Any]]:
    """The snapshots that are solved, and what they begin from."""
    solved: list[tuple[Snapshot, Any]] = []
    answers = stage.answers

    def take_down(study: Study, snapshot: Snapshot, *, starts: Any = None) -> dict[str, Estimate]:
        solved.append((snapshot, starts))
        return answers(study, snapshot, starts=starts)

    monkeypatch.setattr(stage, "answers", take_down)
    return solved


def reports_of(starts: Mapping[str, Estimate] | None) -> int | None:
    """The reports of what a pane begins from, by which its origin is known."""
    return None if starts is None else starts["fixed"].reports


def test_only_early_panes_begin_where_the_last_of_their_place_ended(
    begun: list[tuple[Snapshot, Any]],
) -> None:
    solver, first, second = Solver(STARTS), snapshot(400, FIRST), snapshot(500, SECOND)
    script = [(first, "early"), (first, "on_time"), (second, "early"), (second, "early"), (first, "late")]
    for one, timing in [*script, (second, "on_time"), (second, "early")]:
        solver.solve(pane(one, timing))
    assert [reports_of(starts) for _, starts in begun] == [None, None, 400, 500, None, None, 500]


def test_a_place_is_an_attribute_a_group_and_the_rest(begun: list[tuple[Snapshot, Any]]) -> None:
    solver = Solver(STARTS)
    groups = [("north", 0), ("east", 0), ("", 0), (None, 0), (None, 2)]
    places = [snapshot(400 + place, FIRST, *group) for place, group in enumerate(groups)]
    for place in places:
        solver.solve(pane(place, "on_time"))
    for place in reversed(places):
        solver.solve(pane(place, "early"))
    # How many groups are in the rest does not matter.
    solver.solve(pane(places[-1], "early", other_groups=7))
    assert [reports_of(starts) for _, starts in begun[5:]] == [404, 403, 402, 401, 400, 404]


def test_the_coordinates_of_a_vector_are_places_of_their_own(begun: list[tuple[Snapshot, Any]]) -> None:
    study = parse_study(WITHOUT_INTERVALS % "{coordinates: [north, up], values: [0, 10]}")
    coordinates = [snapshot(400, study=study, name="x.north"), snapshot(500, study=study, name="x.up")]
    solver = Solver(study)
    for coordinate in 2 * coordinates:
        solver.solve(pane(coordinate, "early"))
    assert [reports_of(starts) for _, starts in begun] == [None, None, 400, 500]


@pytest.mark.parametrize("timing", ["on_time", "late"])
def test_panes_that_are_not_early_are_those_of_a_batch_run_to_the_last_bit(timing: str) -> None:
    solver, first = Solver(STUDY), snapshot(400)
    solver.solve(pane(snapshot(500, SECOND), "early"))
    solver.solve(pane(first, "early"))
    records = solver.solve(pane(first, timing))
    assert records == solve(STUDY, pane(first, timing))
    assert [record.name for record in records] == ["fixed", "short", "mean"]


def test_where_an_early_pane_begins_does_not_change_its_answer() -> None:
    early, solver = pane(snapshot(400), "early"), Solver(STUDY)
    cold = {record.name: record for record in solve(STUDY, early)}
    solver.solve(early)
    warm = {record.name: record for record in solver.solve(early)}
    assert warm["fixed"].n_iterations <= cold["fixed"].n_iterations
    np.testing.assert_allclose(warm["fixed"].distribution, cold["fixed"].distribution, atol=1e-6)
    # Where stopping early is part of the estimator, another start would be another answer.
    assert warm["short"] == cold["short"]
    assert warm["mean"] == cold["mean"]

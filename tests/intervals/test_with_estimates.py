"""Estimates with intervals: the same estimates as without, for every kind of attribute."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ldpbeam.intervals.computing
from ldpbeam.answers import child
from ldpbeam.answers.child import compute
from ldpbeam.answers.solve import solve
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Domain, KeyValuePairs, KeyValues, Numeric
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.numbers import of_distribution
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.pipelines.estimates.processes import compute_all
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, Statistic, tally
from ldpbeam.study import WantedEstimate

RNG = np.random.default_rng(1)
PAIRS = KeyValuePairs(np.arange(501), RNG.integers(0, 3, 500), RNG.random(500))
CASES = [
    (
        *(Numeric(0.0, 1.0), "square_wave", "ems"),
        {
            "certain": {"mean", "variance", "quantiles", "ranges", "cdf"},
            "if_smooth": {"quantiles", "ranges", "cdf", "distribution"},
            "any_look": {"mean"},
            "without_noise": {"ranges"},
        },
    ),
    (Numeric(0.0, 1.0), "hybrid", "ivw", {"certain": {"mean"}, "any_look": {"mean"}}),
    (
        Categories(("a", "b", "c")),
        "grr",
        "norm_sub",
        {key: {"frequencies"} for key in ("certain", "largest", "any_look")},
    ),
    (
        KeyValues(("a", "b", "c"), Numeric(0.0, 1.0)),
        "pckv_ue",
        "key_value",
        {"certain": {"frequencies", "key_means"}, "largest": {"frequencies"}},
    ),
]


def reported(domain: Domain, mechanism: str) -> tuple[Attribute, Statistic]:
    version = ServiceVersion("s", "", build_mechanism(mechanism, domain, 1.0))
    attribute = Attribute("x", domain, 16, (version,))
    values = {Numeric: RNG.random(500), Categories: RNG.integers(0, 3, 500), KeyValues: PAIRS}[type(domain)]
    reports = version.mechanism.perturb(values, RNG)
    return attribute, tally(attribute, 500, [Answers(0, np.arange(500), reports)])


@pytest.mark.parametrize(("domain", "mechanism", "estimator", "parts"), CASES)
def test_intervals_stand_beside_an_estimate_and_change_nothing_of_it(
    domain: Domain, mechanism: str, estimator: str, parts: dict[str, set[str]]
) -> None:
    attribute, statistic = reported(domain, mechanism)
    plain = WantedEstimate(estimator, ("s",))
    wanted = WantedIntervals(0.95, False, (0.25, 0.5), ((0.0, 0.5),))
    without = compute(StatisticIntervals(attribute, statistic), plain)
    having = compute(StatisticIntervals(attribute, statistic), replace(plain, intervals=wanted))
    assert without.intervals is None and having.intervals is not None
    held = having.intervals.ends
    assert {condition: {*of_condition} for condition, of_condition in held.items()} == parts
    assert having.intervals.methods.keys() == {*parts["certain"], *parts} - {
        "certain",
        "largest",
        "without_noise",
    }
    for name in Estimate.__dataclass_fields__:
        if name != "intervals":
            np.testing.assert_equal(getattr(having, name), getattr(without, name))


STUDY = parse_study("""\
study: shared
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 16
    services: {a: {mechanism: piecewise, epsilon: 2.0}, b: {mechanism: square_wave, epsilon: 1.0}}
    estimates:
      both: {estimator: ule}
      same: {estimator: ems}
      one: {estimator: ems, services: [a]}
      mean: {estimator: ivw}
""")
#: Those of both services and those of one; the mean alone needs no density.
COMPUTED = 2


def here(snapshot: Snapshot) -> list[EstimateRecord]:
    return compute_all(STUDY, [snapshot], lambda: 4, 1)


def in_a_process(snapshot: Snapshot) -> list[EstimateRecord]:
    wanted = STUDY.attributes["x"].estimates.values()
    sent = pickle.dumps([("x", None, snapshot.statistic, 1, own) for own in wanted])
    found = child.compute_here(STUDY.compiled, pickle.loads(sent))
    names = STUDY.attributes["x"].estimates
    return [estimate_record(STUDY, snapshot, *own) for own in zip(names, found, strict=True)]


def of_a_pane(snapshot: Snapshot) -> list[EstimateRecord]:
    return solve(STUDY, snapshot)


@pytest.mark.parametrize("computing", [here, in_a_process, of_a_pane])
def test_intervals_are_computed_once_for_all_estimates_of_a_statistic(
    computing: Callable[[Snapshot], list[EstimateRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute = STUDY.attribute("x")
    answers = [
        Answers(place, np.arange(300), version.mechanism.perturb(np.linspace(2, 5, 300), RNG))
        for place, version in enumerate(attribute.versions)
    ]
    snapshot = Snapshot("x", None, None, 0, tally(attribute, 300, answers))
    each = [
        estimate_record(
            STUDY, snapshot, name, compute(StatisticIntervals(attribute, snapshot.statistic), own)
        )
        for name, own in STUDY.attributes["x"].estimates.items()
    ]
    calls = []

    def counted(question: Question, wanted: WantedIntervals) -> Any:
        calls.append(question)
        return of_distribution(question, wanted)

    monkeypatch.setattr(ldpbeam.intervals.computing, "of_distribution", counted)
    shared = computing(snapshot)
    assert len(calls) == COMPUTED
    assert [record.intervals for record in shared] == [record.intervals for record in each]

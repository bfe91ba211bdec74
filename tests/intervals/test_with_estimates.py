"""Estimates with intervals: the same estimates as without, for every kind of attribute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Domain, KeyValuePairs, KeyValues, Numeric
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.pipelines.estimates.child import compute
from ldpbeam.statistics import Answers, Statistic, tally
from ldpbeam.study import WantedEstimate

RNG = np.random.default_rng(1)
PAIRS = KeyValuePairs(np.arange(501), RNG.integers(0, 3, 500), RNG.random(500))
CASES = [
    (Numeric(0.0, 1.0), "square_wave", "ems", {"mean", "variance", "quantiles", "ranges", "distribution"}),
    (Numeric(0.0, 1.0), "hybrid", "ivw", {"mean"}),
    (Categories(("a", "b", "c")), "grr", "norm_sub", {"distribution"}),
    (KeyValues(("a", "b", "c"), Numeric(0.0, 1.0)), "pckv_ue", "key_value", {"frequencies", "key_means"}),
]


def reported(domain: Domain, mechanism: str) -> tuple[Attribute, Statistic]:
    version = ServiceVersion("s", "", build_mechanism(mechanism, domain, 1.0))
    attribute = Attribute("x", domain, 16, (version,))
    values = {Numeric: RNG.random(500), Categories: RNG.integers(0, 3, 500), KeyValues: PAIRS}[type(domain)]
    reports = version.mechanism.perturb(values, RNG)
    return attribute, tally(attribute, 500, [Answers(0, np.arange(500), reports)])


@pytest.mark.parametrize(("domain", "mechanism", "estimator", "parts"), CASES)
def test_intervals_stand_beside_an_estimate_and_change_nothing_of_it(
    domain: Domain, mechanism: str, estimator: str, parts: set[str]
) -> None:
    attribute, statistic = reported(domain, mechanism)
    plain = WantedEstimate(estimator, ("s",))
    wanted = WantedIntervals(0.95, False, (0.25, 0.5), ((0.0, 0.5),))
    without = compute(attribute, statistic, plain)
    having = compute(attribute, statistic, replace(plain, intervals=wanted))
    assert without.intervals is None and having.intervals is not None
    held = {name for name in vars(having.intervals) if getattr(having.intervals, name) is not None}
    assert held - {"level", "simultaneous", "methods", "flags"} == parts
    assert set(having.intervals.methods) == parts
    for name in Estimate.__dataclass_fields__:
        if name != "intervals":
            np.testing.assert_equal(getattr(having, name), getattr(without, name))

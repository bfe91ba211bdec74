"""Intervals: shared by the estimates of a statistic, computed for each estimate, and not computed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.solvers.measure import medians, pairs, table
from ldpbeam import tally
from ldpbeam.answers.child import compute, limit_blas
from ldpbeam.answers.solve import answers
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study

TITLE = "Intervals of three estimates"
#: The statistics of a measurement.
MANY = 4
SERVICES = {
    "one": "{a: {mechanism: square_wave, epsilon: 1.0}}",
    "two, joined": "{a: {mechanism: square_wave, epsilon: 1.0}, b: {mechanism: piecewise, epsilon: 1.0}}",
}


def study_of(services: str) -> Study:
    """A study of three estimates from the same services."""
    return parse_study(f"""\
study: intervals
attributes:
  x:
    domain: {{numeric: [0, 1]}}
    buckets: 256
    services: {services}
    estimates:
      smooth: {{estimator: ems}}
      rough: {{estimator: em}}
      close: {{estimator: ems, tolerance: 1e-4}}
""")


def statistics(study: Study, users: int) -> list[Snapshot]:
    """Statistics of so many users each, all at every service."""
    attribute, rng = study.attribute("x"), np.random.default_rng(users)
    found = []
    for _ in range(MANY):
        values = rng.beta(2, 5, users)
        sent = [
            Answers(place, np.arange(users), version.mechanism.perturb(values, rng))
            for place, version in enumerate(attribute.versions)
        ]
        found.append(Snapshot("x", None, None, 0, tally(attribute, users, sent)))
    return found


def shared(study: Study, given: list[Snapshot]) -> None:
    """Estimates whose intervals are computed once for each statistic."""
    for snapshot in given:
        answers(study, snapshot)


def apart(study: Study, given: list[Snapshot], *, intervals: bool) -> None:
    """Estimates that share nothing, with their intervals or without."""
    for snapshot in given:
        for wanted in study.described("x").estimates.values():
            asked = wanted if intervals else replace(wanted, intervals=None)
            compute(StatisticIntervals(study.attribute("x"), snapshot.statistic), asked)


def section() -> list[str]:
    """Milliseconds of each, and the ratios."""
    limit_blas()
    rows = []
    for name, services in SERVICES.items():
        for users in (200, 2_000):
            study = study_of(services)
            given = statistics(study, users)
            once: Callable[[], None] = functools.partial(shared, study, given)
            alone, none = (functools.partial(apart, study, given, intervals=own) for own in (True, False))
            before, after, gain = medians(pairs(alone, once))
            _, without, _ = medians(pairs(once, none))
            each = [f"{1e3 * seconds / (3 * MANY):.1f}" for seconds in (without, before, after)]
            rows.append([name, f"{users:,}", *each, f"{gain:.2f}"])
    header = ["services", "users", "ms without intervals", "ms, each its own", "ms, shared", "times faster"]
    notes = [
        "Milliseconds per estimate of `ems`, `em` and a closer `ems`, with 256 buckets. An interval does not",
        "depend on the estimator, so the three share one computation, to the last bit.",
        "",
    ]
    return [*notes, *table(header, rows)]

"""Windows of one channel: what a solve takes, beside the products that its Newton steps consist of."""

from __future__ import annotations

import functools
from unittest.mock import patch

import numpy as np

from benchmarks.solvers.measure import medians, pairs, table
from ldpbeam import tally
from ldpbeam.answers.child import limit_blas
from ldpbeam.answers.solve import answers
from ldpbeam.density import modes
from ldpbeam.domains import Floats
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study

TITLE = "Many windows of one channel"
#: The windows of a measurement, and about how many people each has.
WINDOWS, PEOPLE = 6, 1_500
MECHANISMS = ("square_wave", "piecewise", "stochastic_rounding")
CASES = [(mechanism, step) for mechanism in MECHANISMS for step in ("", ", step: 1")]


def study_of(mechanism: str, step: str) -> Study:
    """A study of one service with `auto` and its intervals."""
    return parse_study(f"""\
study: windows
attributes:
  x:
    domain: {{numeric: [0, 100]{step}}}
    services: {{a: {{mechanism: {mechanism}, epsilon: 1.0}}}}
    estimates: {{best: {{estimator: auto}}}}
""")


def windows_of(study: Study) -> list[Snapshot]:
    """The statistics of windows, whose people differ in their number and values."""
    attribute, rng, windows = study.attribute("x"), np.random.default_rng(7), []
    for _ in range(WINDOWS):
        values = rng.beta(2, 5, rng.poisson(PEOPLE))
        reports = attribute.versions[0].mechanism.perturb(values, rng)
        answers = [Answers(0, np.arange(len(values)), reports)]
        windows.append(Snapshot("x", None, None, 0, tally(attribute, len(values), answers)))
    return windows


def products_of(study: Study, windows: list[Snapshot]) -> list[tuple[Floats, Floats]]:
    """The channel's matrix and the curves' one of each evaluation of derivatives."""
    made: list[tuple[Floats, Floats]] = []
    before = modes.derivatives

    def noted(likelihood, curves, coefficients, shares):  # type: ignore[no-untyped-def]
        made.append((likelihood._matrix, curves.matrix))
        return before(likelihood, curves, coefficients, shares)

    with patch.object(modes, "derivatives", noted):
        for window in windows:
            answers(study, window, with_intervals=False)
    return made


def section() -> list[str]:
    """Milliseconds of CPU a window, of the products alone, and their share."""
    limit_blas()
    rows = []
    for mechanism, step in CASES:
        study = study_of(mechanism, step)
        windows = windows_of(study)
        products = products_of(study, windows)

        def solved(intervals: bool, study: Study = study, windows: list[Snapshot] = windows) -> None:
            for window in windows:
                answers(study, window, with_intervals=intervals)

        def multiplied(products: list[tuple[Floats, Floats]] = products) -> None:
            for matrix, curves in products:
                ahead = matrix @ curves
                ahead.T @ ahead
                (2.0 * curves).T @ curves

        estimate, floor, ratio = medians(pairs(functools.partial(solved, intervals=False), multiplied))
        whole, _, _ = medians(pairs(functools.partial(solved, intervals=True), multiplied))
        milliseconds = [f"{1e3 * seconds / WINDOWS:.0f}" for seconds in (whole, estimate, floor)]
        rows.append([f"`{mechanism}`{step}", f"{len(products) / WINDOWS:.0f}", *milliseconds, f"{ratio:.2f}"])
    header = ["service", "evaluations", "ms with intervals", "ms of the estimate", "ms of products", "ratio"]
    return [
        f"Windows of about {PEOPLE:,} people, epsilon 1, `auto`. A solve tries about 60 priors, each by",
        "Newton's method. An evaluation multiplies the channel's matrix with the curves' one, and two",
        "matrices of the coefficients with themselves. These products depend on the reports, so they are the",
        "floor of every solver that takes the same steps: many windows at once would not make them fewer.",
        "",
        *table(header, rows),
    ]

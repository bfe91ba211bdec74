"""Estimates from a previous one: the same answer sooner, or no start at all."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldpbeam import (
    Attribute,
    Estimate,
    Numeric,
    ServiceVersion,
    Statistic,
    merge,
    registered_estimators,
    tally,
)
from ldpbeam.estimators import estimate, starts_warm
from ldpbeam.estimators.em import above_zero, fit_channel
from ldpbeam.estimators.iteration import Trace, smooth
from ldpbeam.mechanisms import RandomisedResponse, build_mechanism
from ldpbeam.statistics import Answers, empty

Floats = NDArray[np.float64]
MINUTES = Numeric(0.0, 180.0)
FIXED = {"accelerated": True}
SEEDS = (11, 12)
CASES = {
    "square wave": ("square_wave", 1.0, 64),
    "square wave, finer": ("square_wave", 1.0, 128),
    "piecewise": ("piecewise", 2.0, 64),
    "binned": ("binned", 1.0, 64),
    "hierarchy": ("hierarchy", 1.0, 64),
    "two services": ("square_wave piecewise", 1.0, 64),
}


def asked(names: str, epsilon: float, buckets: int) -> Attribute:
    options = {"hierarchy": {"leaves": 64}}
    versions = tuple(
        ServiceVersion(name, "", build_mechanism(name, MINUTES, epsilon, **options.get(name, {})))
        for name in names.split()
    )
    return Attribute("minutes", MINUTES, buckets, versions)


@functools.cache
def panes(case: str, seed: int = 11, people: int = 20_000) -> tuple[Attribute, Statistic, Statistic]:
    """An attribute, the first three quarters of people's reports, and all of them."""
    attribute = asked(*CASES[case])
    rng = np.random.default_rng(seed)
    values = rng.beta(2, 5, people)

    def reported(some: Floats) -> Statistic:
        rows = np.arange(len(some))
        answers = [
            Answers(index, rows, version.mechanism.perturb(some, rng))
            for index, version in enumerate(attribute.versions)
        ]
        return tally(attribute, len(some), answers)

    first = reported(values[: 3 * people // 4])
    return attribute, first, merge([first, reported(values[3 * people // 4 :])])


@functools.cache
def fixed(case: str, seed: int = 11) -> Estimate:
    """All reports from the fixed start."""
    attribute, _, everything = panes(case, seed)
    return estimate("ems", attribute, everything, options=FIXED)


@functools.cache
def previous(case: str, seed: int = 11) -> Estimate:
    """The first reports from the fixed start."""
    attribute, first, _ = panes(case, seed)
    return estimate("ems", attribute, first, options=FIXED)


def started(case: str, seed: int, start: Any) -> Estimate:
    """All reports from a start."""
    attribute, _, everything = panes(case, seed)
    return estimate("ems", attribute, everything, options=FIXED, start=start)


def shares(answer: Estimate) -> Floats:
    assert answer.distribution is not None
    return answer.distribution


def far(one: Estimate, other: Estimate) -> float:
    """The largest difference of a share, or of the mean in widths of the domain."""
    assert one.mean is not None
    assert other.mean is not None
    return max(float(np.abs(shares(one) - shares(other)).max()), abs(one.mean - other.mean) / MINUTES.width)


@pytest.mark.parametrize("case", CASES)
def test_from_the_previous_estimate_the_answer_is_the_same_in_fewer_iterations(case: str) -> None:
    spent = {"cold": 0, "warm": 0}
    for seed in SEEDS:
        before, cold = previous(case, seed), fixed(case, seed)
        warm = started(case, seed, before.distribution)
        assert cold.converged
        assert warm.converged
        assert far(before, cold) > 1e-4
        assert far(warm, cold) < 1e-6
        assert warm.details == {**cold.details, "start": "previous estimate"}
        assert (warm.reports, warm.users, warm.warnings) == (cold.reports, cold.users, cold.warnings)
        spent["cold"] += cold.n_iterations
        spent["warm"] += warm.n_iterations
    # Larger steps make the number of one run erratic: now and then it is more.
    assert spent["warm"] < spent["cold"]


def test_no_weight_starts_at_zero() -> None:
    start = above_zero(np.array([0.5, 0.0, 0.5, -0.1]), 4)
    np.testing.assert_allclose(start * (1.0 + 2 * 0.00025), [0.5, 0.00025, 0.5, 0.00025], rtol=1e-12)
    # EM alone would keep a weight at zero for ever.
    channel = RandomisedResponse(1.0, size=4).channel(4, 4)
    counts = [100, 200, 300, 400]
    cold, warm = (
        fit_channel(
            channel,
            counts,
            smoothing=False,
            tolerance=1e-12,
            trace=Trace(500),
            accelerated=True,
            start=given,
        )
        for given in (None, np.array([0.5, 0.5, 0.0, 0.0]))
    )
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-6)


def test_the_first_weights_are_those_of_the_start() -> None:
    attribute, _, everything = panes("square wave")
    start = np.linspace(0.0, 2.0 / 64, 64)
    answer = estimate("ems", attribute, everything, options=FIXED, start=list(start))
    probabilities = attribute.channel(0).dense() @ smooth(above_zero(start, len(start)))
    expected = everything.histograms[0] @ np.log(probabilities)
    assert answer.log_likelihoods[0] == pytest.approx(expected, rel=1e-12)


def test_only_ems_at_its_fixed_point_starts_warm() -> None:
    assert [name for name in registered_estimators() if starts_warm(name, FIXED)] == ["ems"]
    assert not any(starts_warm(name) for name in registered_estimators())
    assert starts_warm("ems", {"accelerated": True, "tolerance": 1e-3})
    for options in ({"tolerance": 1e-15}, {"accelerated": None}, {"accelerated": False, "tolerance": 1e-15}):
        assert not starts_warm("ems", options), options
    with pytest.raises(ValueError, match="unknown estimator 'emms'; did you mean 'ems'"):
        starts_warm("emms")


@pytest.mark.parametrize(
    ("name", "case", "options"),
    [
        ("ems", "square wave", {}),
        ("em", "square wave", FIXED),
        ("mr", "square wave", FIXED),
        ("ivw", "square wave", {}),
        ("norm_sub", "binned", {}),
        ("admm", "hierarchy", {}),
    ],
)
def test_an_estimator_that_would_answer_otherwise_refuses_a_start(
    name: str, case: str, options: Mapping[str, Any]
) -> None:
    attribute, first, _ = panes(case)
    sentence = rf"estimator '{name}' .* depends on the start: .* accelerated: true"
    with pytest.raises(ValueError, match=sentence):
        estimate(name, attribute, first, options=options, start=np.full(64, 1.0 / 64))


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        (np.full(32, 1.0 / 32), r"shape \(32,\), and attribute 'minutes' has 64 value buckets"),
        (np.full((64, 1), 1.0 / 64), r"shape \(64, 1\)"),
        ([], r"shape \(0,\)"),
        ([np.nan] * 64, "not finite numbers"),
    ],
)
def test_a_start_of_something_else_is_refused(start: Any, sentence: str) -> None:
    attribute, first, _ = panes("square wave")
    with pytest.raises(ValueError, match=sentence):
        estimate("ems", attribute, first, options=FIXED, start=start)


def test_without_reports_there_is_nothing_to_start() -> None:
    attribute, _, _ = panes("square wave")
    answer = estimate("ems", attribute, empty(attribute), options=FIXED, start=np.full(64, 1.0 / 64))
    assert answer.distribution is None
    assert answer.warnings == ("no reports from these services",)

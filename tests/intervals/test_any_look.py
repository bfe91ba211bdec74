"""Intervals that hold at every look at reports that become more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from ldpbeam import Answers, Attribute, Categories, Numeric, ServiceVersion, Statistic, build_mechanism, tally
from ldpbeam.certainty import ANY_LOOK
from ldpbeam.estimators import estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.any_look import widening
from ldpbeam.intervals.computing import StatisticIntervals

ALPHA = 0.05
SLOPES = np.linspace(-60.0, 60.0, 240_001)


def mixture(noise: float, variance: float, rho: float) -> float:
    """The likelihood ratio of normal noise with a slope that is drawn from N(0, 1/rho), by its integral."""
    prior = np.exp(-0.5 * rho * SLOPES**2) * math.sqrt(rho / (2.0 * math.pi))
    return float(np.trapezoid(prior * np.exp(SLOPES * noise - 0.5 * variance * SLOPES**2), SLOPES))


def boundary(variance: float, rho: float) -> float:
    """Where the mixture is 1/alpha, in standard errors: Ville's inequality bounds the noise there."""
    scale = math.sqrt(variance)
    return float(brentq(lambda z: mixture(z * scale, variance, rho) - 1.0 / ALPHA, 0.5, 30.0))


def test_the_widening_is_that_of_a_normal_mixture_which_is_narrowest_where_it_was_asked_for() -> None:
    least = minimize_scalar(lambda rho: boundary(1.0, rho), bounds=(0.02, 0.6), options={"xatol": 1e-6})
    for reports in (300, 4_000, 10_000, 90_000):
        expected = boundary(reports / 10_000, float(least.x))
        assert float(widening(1.0 - ALPHA, reports, 10_000)) == pytest.approx(expected, rel=1e-4)
    assert float(widening(1.0 - ALPHA, 10_000, 10_000)) == pytest.approx(1.5485 * 1.96, abs=1e-3)


@pytest.mark.parametrize("second", [None, 1.0, 8.0])
def test_noise_leaves_the_boundary_at_no_look_though_it_leaves_fixed_intervals(second: float | None) -> None:
    """4,000 means of 200 looks, or differences of two arms whose widths add as squares."""
    rng, series, looks = np.random.default_rng(5), 4_000, 200
    noise, squares, once = np.zeros((series, looks)), np.zeros(looks), np.zeros(looks)
    for sign, rate in ((1.0, 1.0), (-1.0, second)):
        if rate is None:
            continue
        reports = rate * np.arange(1.0, looks + 1.0)
        steps = rng.standard_normal((series, looks)) * math.sqrt(rate)
        noise += sign * steps.cumsum(axis=1) / reports
        once += 1.0 / reports
        squares += widening(1.0 - ALPHA, reports, 30.0) ** 2 / reports
    left = float((np.abs(noise) > np.sqrt(squares)).any(axis=1).mean())
    fixed = float((np.abs(noise) > 1.96 * np.sqrt(once)).any(axis=1).mean())
    assert left <= ALPHA + 3.5 * math.sqrt(ALPHA * (1.0 - ALPHA) / series)
    # A boundary that no noise ever reaches would prove nothing.
    assert left > 0.01 and fixed > 0.35


COLOURS, MINUTES = Categories(tuple("abcdef")), Numeric(0.0, 60.0)


def reported(domain: Categories | Numeric, mechanism: str, people: int) -> tuple[Attribute, Statistic]:
    attribute = Attribute(
        "x", domain, 64, (ServiceVersion("s", "", build_mechanism(mechanism, domain, 1.0)),)
    )
    rng = np.random.default_rng(3)
    values = rng.beta(2.0, 5.0, people) if isinstance(domain, Numeric) else rng.choice(6, people)
    reports = attribute.versions[0].mechanism.perturb(values, rng)
    return attribute, tally(attribute, people, [Answers(0, np.arange(people), reports)])


@pytest.mark.parametrize("mechanism", ["square_wave", "piecewise", "laplace"])
def test_the_mean_has_an_interval_of_as_many_standard_errors_within_the_domain(mechanism: str) -> None:
    attribute, statistic = reported(MINUTES, mechanism, 20_000)
    answer = estimate("ivw", attribute, statistic)
    for narrowest in (500, 20_000):
        wanted = WantedIntervals(any_look=narrowest)
        found = StatisticIntervals(attribute, statistic).of(answer, wanted)
        at_every, once = found.of("mean", ANY_LOOK), found.of("mean")
        assert at_every is not None and once is not None
        ratio = np.ptp(at_every) / np.ptp(once)
        # Both have the bias that remains where noise has a tail.
        assert ratio == pytest.approx(float(widening(0.95, 20_000, narrowest)) / 1.95996, rel=3e-3)
        assert f"narrowest near {narrowest:,} reports" in found.methods["any_look"]
    few = StatisticIntervals(*reported(MINUTES, mechanism, 20)).of(answer, WantedIntervals())
    np.testing.assert_array_equal(few.ends[ANY_LOOK]["mean"].columns, [[0.0, 60.0]])


@pytest.mark.parametrize("mechanism", ["grr", "olh"])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_shares_have_intervals_around_what_is_unbiased(mechanism: str, simultaneous: bool) -> None:
    attribute, statistic = reported(COLOURS, mechanism, 5_000)
    made = attribute.versions[0].mechanism
    unbiased = made.unbiased_frequencies(statistic.histograms[0], 5_000)  # type: ignore[attr-defined]
    noise = made.share_variances(np.clip(unbiased, 0.0, 1.0), statistic.histograms[0])  # type: ignore[attr-defined]
    answer = estimate("norm_sub", attribute, statistic)
    wanted = WantedIntervals(simultaneous=simultaneous)
    found = StatisticIntervals(attribute, statistic).of(answer, wanted)
    room = widening(1.0 - 0.05 / (6 if simultaneous else 1), 5_000, 10_000) * np.sqrt(noise / 5_000)
    expected = np.clip(np.column_stack((unbiased - room, unbiased + room)), 0.0, 1.0)
    np.testing.assert_allclose(found.ends[ANY_LOOK]["frequencies"].columns, expected, rtol=1e-9, atol=1e-12)

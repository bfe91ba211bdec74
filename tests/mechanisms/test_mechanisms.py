"""Mechanisms whose reports are numbers, GRR and Hadamard response: privacy, samplers, unbiased values.

The others have files of their own: they take other values, or their reports are not one number.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

import ldpbeam
from ldpbeam import Categories, Numeric, build_mechanism
from ldpbeam.mechanisms import (
    Laplace,
    Mechanism,
    NumericMechanism,
    Piecewise,
    SecureUniforms,
    SquareWave,
    StochasticRounding,
)
from ldpbeam.mechanisms.numbers.gaussian import Gaussian
from ldpbeam.mechanisms.numbers.general_wave import GeneralWave
from ldpbeam.mechanisms.numbers.hybrid import Hybrid

KNOWN = ldpbeam.registered_mechanisms()
NUMERIC = tuple(name for name, kind in KNOWN.items() if issubclass(kind, NumericMechanism))
NAMES = (*NUMERIC, "grr", "hadamard")
#: Where epsilon holds without exception.
PURE = tuple(name for name in NAMES if name != "gaussian")
EPSILONS = (0.01, 0.5, 1.0, 5.0)
N = 20_000


def make(name: str, epsilon: float, size: int = 6) -> Mechanism:
    domain = Numeric(-3.0, 7.0) if name in NUMERIC else Categories(tuple(f"c{i}" for i in range(size)))
    return build_mechanism(name, domain, epsilon)


def values_in_bucket(mechanism: Mechanism, bucket: int, buckets: int, seed: int) -> Any:
    """Values uniform within one value bucket, as a channel takes them; a category is itself."""
    if isinstance(mechanism, NumericMechanism):
        return (bucket + np.random.default_rng(seed).random(N)) / buckets
    return np.full(N, bucket)


def chi_square_p_value(sampler: Mechanism, claimed: Mechanism, bucket: int, buckets: int) -> float:
    """How well the sampler's reports fit the claimed channel's column.

    Cells that expect fewer than five reports, where chi-square is none, are counted with the fullest cell.
    """
    values = values_in_bucket(claimed, bucket, buckets, seed=1)
    reports = sampler.perturb(values, np.random.default_rng(2))
    counts = np.bincount(claimed.bucketise(reports, 16), minlength=claimed.cells(16))
    column = claimed.channel(buckets, 16).dense()[:, bucket]
    expected = N * column / column.sum()
    kept = np.where(expected < 5.0, expected.argmax(), np.arange(len(expected)))
    pooled = [np.bincount(kept, weights=cells)[np.unique(kept)] for cells in (counts, expected)]
    return float(stats.chisquare(*pooled).pvalue)


def test_every_mechanism_whose_reports_are_numbers_is_tested_here() -> None:
    ours = {Gaussian, GeneralWave, Hybrid, Laplace, Piecewise, SquareWave, StochasticRounding}
    assert {KNOWN[name] for name in NUMERIC} == ours
    assert {name for name in NAMES if make(name, 1.0).delta == 0.0} == set(PURE)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", NAMES)
def test_columns_of_the_channel_sum_to_one(name: str, epsilon: float) -> None:
    for value_buckets, resolution in ((1, 1), (6, 9), (9, 6), (64, 48)):
        channel = make(name, epsilon).channel(value_buckets, resolution)
        assert channel.dense().min() > 0.0
        np.testing.assert_allclose(channel.dense().sum(axis=0), 1.0, atol=1e-12)
        ones = np.ones(channel.shape[0])
        np.testing.assert_allclose(channel.rmatvec(ones), 1.0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1.1e-6, 1e-5, 10.0, 20.0])
@pytest.mark.parametrize("name", NAMES)
def test_every_accepted_epsilon_gives_a_channel(name: str, epsilon: float) -> None:
    matrix = make(name, epsilon).channel(64, 48).dense()
    assert matrix.min() >= 0.0
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0, atol=1e-6)


@pytest.mark.parametrize("name", PURE)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(epsilon=st.floats(0.05, 6.0), size=st.integers(2, 40), resolution=st.integers(1, 40))
def test_no_report_is_likelier_than_exp_epsilon_allows(
    name: str, epsilon: float, size: int, resolution: int
) -> None:
    matrix = make(name, epsilon, size).channel(size, resolution).dense()
    ratio = (matrix.max(axis=1) / matrix.min(axis=1)).max()
    assert ratio <= math.exp(epsilon) * (1.0 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", PURE)
def test_the_whole_budget_is_spent(name: str, epsilon: float) -> None:
    # Fine buckets see the density itself. Differences of nearly equal areas cost some digits: 1e-7.
    matrix = make(name, epsilon).channel(512, 512).dense()
    ratio = (matrix.max(axis=1) / matrix.min(axis=1)).max()
    assert 0.9 * math.exp(epsilon) <= ratio <= math.exp(epsilon) * (1.0 + 1e-7)
    assert ratio > 1.0 + 0.9 * math.expm1(epsilon)


@pytest.mark.parametrize("bucket", [0, 2, 5])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("name", NAMES)
def test_the_sampler_matches_its_channel(name: str, epsilon: float, bucket: int) -> None:
    mechanism = make(name, epsilon)
    assert chi_square_p_value(mechanism, mechanism, bucket, buckets=6) > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_a_sampler_of_another_epsilon_does_not_match(name: str) -> None:
    assert chi_square_p_value(make(name, 1.3), make(name, 1.0), 0, buckets=6) < 1e-6


def gaussian_deviation(epsilon: float, delta: float) -> float:
    """The least sigma for sensitivity 2 (Balle & Wang, theorem 8), by plain distribution functions."""

    def excess(sigma: float) -> float:
        above = stats.norm.cdf(1 / sigma - epsilon * sigma / 2)
        return float(above - math.exp(epsilon) * stats.norm.cdf(-1 / sigma - epsilon * sigma / 2) - delta)

    return float(optimize.brentq(excess, 0.01, 1e7, xtol=1e-12))


def moments_of_a_wave(b: float, top: float, epsilon: float, x: float) -> tuple[float, float]:
    """(mean, variance) of a report in [-b, 1+b] by integration, its density scaled to one afterwards."""

    def shape(y: float) -> float:
        rise = (b - abs(y - x)) / (b * (1 - top)) if top < 1 else math.inf
        return 1 + math.expm1(epsilon) * min(1.0, max(0.0, rise))

    kinks = sorted({x - b, x - top * b, x + top * b, x + b})
    total, first, second = (
        integrate.quad(lambda y, k=k: y**k * shape(y), -b, 1 + b, points=kinks, epsabs=1e-13)[0]
        for k in range(3)
    )
    return first / total, second / total - (first / total) ** 2


def closed_forms(name: str, epsilon: float, x: NDArray[np.float64]) -> tuple[Any, Any]:
    """(E[y | x], variance of the unbiased report on [0, 1]), as the papers print them, or by integration."""
    E, s, v = math.exp(epsilon), math.exp(epsilon / 2), 2 * x - 1
    if name == "square_wave":
        b = (epsilon * E - E + 1) / (2 * E * (E - 1 - epsilon))
        p, q = E / (2 * b * E + 1), 1 / (2 * b * E + 1)
        mean = q / 2 + q * b + 2 * b * (p - q) * x
        outside = q * (b**3 - (b + x) ** 3 - (b - x) ** 3 + (b + 1) ** 3) / 3
        variance = outside + 2 * b * p * (b**2 + 3 * x**2) / 3 - mean**2
        return mean, variance / (2 * b * (p - q)) ** 2
    if name == "general_wave":
        b = (epsilon * E - E + 1) / (2 * E * (E - 1 - epsilon))
        mean, variance = np.transpose([moments_of_a_wave(b, 0.8, epsilon, one) for one in x])
        # The unbiased report is linear in y, so its slope is the mean's.
        return mean, variance / (mean[-1] - mean[0]) ** 2
    if name == "hybrid":
        name = "stochastic_rounding" if epsilon <= 0.61 else name
    on_minus_one_to_one = {
        "hybrid": (s + 3) / (3 * s * (s - 1)) + ((E + 1) / (E - 1)) ** 2 / s + 0 * v,
        "gaussian": gaussian_deviation(epsilon, 1e-6) ** 2 + 0 * v,
        "piecewise": v**2 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2),
        "stochastic_rounding": ((E + 1) / (E - 1)) ** 2 - v**2,
        "laplace": 8 / epsilon**2 + 0 * v,
    }
    return v, on_minus_one_to_one[name] / 4


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 5.0])
@pytest.mark.parametrize("name", NUMERIC)
def test_unbiased_value_and_variance_are_the_papers(name: str, epsilon: float) -> None:
    mechanism = make(name, epsilon)
    assert isinstance(mechanism, NumericMechanism)
    x = np.linspace(0.0, 1.0, 11)
    mean, variance = closed_forms(name, epsilon, x)
    np.testing.assert_allclose(mechanism.unbiased(mean), x, atol=1e-10)
    np.testing.assert_allclose(mechanism.variance(x), variance, rtol=1e-9)


@pytest.mark.parametrize("x", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("name", NUMERIC)
def test_reports_average_to_the_value(name: str, epsilon: float, x: float) -> None:
    mechanism = make(name, epsilon)
    assert isinstance(mechanism, NumericMechanism)
    y = mechanism.unbiased(mechanism.perturb(np.full(N, x), np.random.default_rng(3)))
    variance = float(mechanism.variance(x))
    assert abs(y.mean() - x) < 4 * math.sqrt(variance / N)
    # The standard error of a mean of squares (y - x)^2 is their own deviation over sqrt(n); where
    # all squares are nearly equal (SR) rounding is what is left.
    squares = (y - x) ** 2
    assert abs(squares.mean() - variance) < 4 * squares.std() / math.sqrt(N) + 1e-9 * variance


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_grr_frequencies_are_unbiased_with_the_papers_variance(epsilon: float) -> None:
    size, E = 6, math.exp(epsilon)
    mechanism = make("grr", epsilon, size)
    p, q = E / (E + size - 1), 1 / (E + size - 1)
    # Category 0 never occurs: its unbiased frequency is 0 on average.
    values = np.random.default_rng(4).integers(1, size, N)
    reports = mechanism.perturb(values, np.random.default_rng(5))
    found = mechanism.unbiased_frequencies(np.bincount(reports, minlength=size), N)  # type: ignore
    truth = np.bincount(values, minlength=size) / N
    expected_variance = (size - 2 + E) / (E - 1) ** 2
    assert mechanism.frequency_variance == pytest.approx(expected_variance)  # type: ignore
    assert expected_variance == pytest.approx(q * (1 - q) / (p - q) ** 2)
    widest = max(expected_variance, p * (1 - p) / (p - q) ** 2)
    assert np.abs(found - truth).max() < 4 * math.sqrt(widest / N)
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("source", ["seeded", "secure"])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", NAMES)
def test_every_report_of_the_sampler_is_accepted(name: str, epsilon: float, source: str) -> None:
    mechanism = make(name, epsilon)
    uniforms = np.random.default_rng(6) if source == "seeded" else SecureUniforms()
    values = [0.0, 0.25, 1.0] if isinstance(mechanism, NumericMechanism) else [0, 1, 5]
    reports = mechanism.perturb(np.repeat(values, 2000), uniforms)
    assert reports.dtype == mechanism.payload_dtype
    rounded = reports.astype(np.float32).astype(np.float64)
    for payloads in (reports, rounded):
        assert mechanism.is_report(payloads).all()
        buckets = mechanism.bucketise(payloads, 10)
        assert buckets.min() >= 0
        assert buckets.max() < mechanism.cells(10)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", NAMES)
def test_what_no_client_can_send_is_refused(name: str, epsilon: float) -> None:
    mechanism = make(name, epsilon)
    wrong = [math.nan, math.inf, -math.inf]
    if isinstance(mechanism, NumericMechanism):
        low, high = mechanism.report_range
        wrong += [low - 0.001 * (high - low), high + 0.001 * (high - low)]
        if mechanism.cells(9) == 2:
            wrong += [0.0, 0.999 * high, 0.999 * low]
        assert mechanism.is_report(np.array([low, high])).all()
        within_float32 = np.array([low, high]) * (1.0 + 1e-7)
        assert mechanism.is_report(within_float32).all()
    else:
        # Six categories; Hadamard's matrix for them has eight rows, each with two signs.
        reports = {"grr": 6, "hadamard": 16}[name]
        wrong += [-1.0, float(reports), 0.5]
        assert not mechanism.is_report(np.array([-1, reports])).any()
        assert mechanism.is_report(np.arange(reports)).all()
    assert not mechanism.is_report(np.array(wrong)).any()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", NUMERIC)
def test_fixed_point_is_off_by_half_a_step_at_most(name: str, epsilon: float) -> None:
    mechanism = make(name, epsilon)
    assert isinstance(mechanism, NumericMechanism)
    reports = mechanism.perturb(np.linspace(0.0, 1.0, 5000), np.random.default_rng(7))
    reports = np.concatenate((reports, mechanism.report_range))
    grid = mechanism.fixed_point(reports)
    assert np.abs(grid).max() == 2**30
    step = Fraction(mechanism.fixed_point_step)
    # Exact arithmetic; the quotient itself is rounded once, by 2^-53 of at most 2^30 steps.
    for integer, report in zip(grid.tolist(), reports.tolist(), strict=True):
        assert abs(integer * step - Fraction(report)) <= step / 2 + step * Fraction(1, 2**22)


@pytest.mark.parametrize("epsilon", [2e-6, 1e-3, 0.0999, 0.1, 0.1001, 1.0, 5.0])
def test_square_wave_half_width_equals_its_exact_series(epsilon: float) -> None:
    # b = (eps E - E + 1) / (2E (E - 1 - eps)) with E as a power series, in exact fractions.
    x = Fraction(epsilon)
    terms = [x**k / math.factorial(k) for k in range(60)]
    above = sum((k - 1) * term for k, term in enumerate(terms) if k >= 2)
    exact = above / (2 * sum(terms) * sum(terms[2:]))
    assert SquareWave(epsilon).half_width == pytest.approx(float(exact), rel=1e-12)


def test_square_wave_half_width_goes_to_one_half() -> None:
    for epsilon in (2e-6, 1e-4, 1e-3):  # its expansion is 1/2 - eps/3 + ...
        assert 0.0 <= 0.5 - SquareWave(epsilon).half_width < 0.5 * epsilon


def test_secure_uniforms_use_all_bits_and_stay_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = SecureUniforms().random(1000)
    assert len(np.unique(draws)) == 1000
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    for byte, expected in ((b"\xff", 1.0 - 2.0**-53), (b"\x00", 0.0)):
        monkeypatch.setattr("os.urandom", lambda size, byte=byte: byte * size)
        assert SecureUniforms().random(3).tolist() == [expected] * 3

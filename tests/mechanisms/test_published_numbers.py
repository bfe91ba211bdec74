"""Means, variances and constants that papers print, of mechanisms whose reports are numbers and of GRR."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from ldpbeam import Numeric, build_mechanism
from ldpbeam.mechanisms import NumericMechanism, SecureUniforms, SquareWave, registered_mechanisms

NUMERIC = tuple(
    name
    for name, kind in registered_mechanisms().items()
    # Waves of any shape are integrated: test_numeric_mechanisms.
    if issubclass(kind, NumericMechanism)
    and kind.__module__.startswith("ldpbeam.")
    and name != "general_wave"
)


def gaussian_deviation(epsilon: float, delta: float) -> float:
    """The least sigma for sensitivity 2 (Balle & Wang, theorem 8), by plain distribution functions."""

    def excess(sigma: float) -> float:
        above = stats.norm.cdf(1 / sigma - epsilon * sigma / 2)
        return float(above - math.exp(epsilon) * stats.norm.cdf(-1 / sigma - epsilon * sigma / 2) - delta)

    return float(optimize.brentq(excess, 0.01, 1e7, xtol=1e-12))


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


@pytest.mark.parametrize("name", NUMERIC)
def test_unbiased_value_and_variance_are_the_papers(name: str) -> None:
    x = np.linspace(0.0, 1.0, 11)
    for epsilon in (0.05, 0.5, 1.0, 3.0, 5.0):
        mechanism = build_mechanism(name, Numeric(-3.0, 7.0), epsilon)
        mean, variance = closed_forms(name, epsilon, x)
        np.testing.assert_allclose(mechanism.unbiased(mean), x, atol=1e-10)
        np.testing.assert_allclose(mechanism.variance(x), variance, rtol=1e-9)


def test_square_wave_half_width_equals_its_exact_series() -> None:
    # b = (eps E - E + 1) / (2E (E - 1 - eps)) with E as a power series, in exact fractions.
    for epsilon in (2e-6, 1e-3, 0.0999, 0.1, 0.1001, 1.0, 5.0):
        x = Fraction(epsilon)
        terms = [x**k / math.factorial(k) for k in range(60)]
        above = sum((k - 1) * term for k, term in enumerate(terms) if k >= 2)
        exact = above / (2 * sum(terms) * sum(terms[2:]))
        assert SquareWave(epsilon).half_width == pytest.approx(float(exact), rel=1e-12)


def test_secure_uniforms_use_all_bits_and_stay_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = SecureUniforms().random(1000)
    assert len(np.unique(draws)) == 1000
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    for byte, expected in ((b"\xff", 1.0 - 2.0**-53), (b"\x00", 0.0)):
        monkeypatch.setattr("os.urandom", lambda size, byte=byte: byte * size)
        assert SecureUniforms().random(3).tolist() == [expected] * 3

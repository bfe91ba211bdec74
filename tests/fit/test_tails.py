"""Reports beyond the reach of a noise are seen, and honest ones hardly ever flagged."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam import Answers, Attribute, Numeric, ServiceVersion, tally
from ldpbeam.fit import fit_tests
from ldpbeam.fit.tails import tail_p_value
from ldpbeam.mechanisms import Gaussian, Laplace, NumericMechanism, Piecewise

KINDS = [Laplace(0.5), Laplace(2.0), Gaussian(1.0)]


def p_value(mechanism: NumericMechanism, reports: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    attribute = Attribute("x", Numeric(0.0, 1.0), 64, (ServiceVersion("s", "", mechanism),))
    return tail_p_value(
        attribute, 0, tally(attribute, len(reports), [Answers(0, np.arange(len(reports)), reports)])
    )


@pytest.mark.parametrize("mechanism", KINDS, ids=lambda m: f"{m.name}-{m.epsilon:g}")
def test_honest_tails_have_p_values_that_are_too_large_rather_than_too_small(
    mechanism: NumericMechanism,
) -> None:
    found = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        x = (np.zeros(500), np.ones(500), rng.random(500), rng.integers(0, 2, 500) * 1.0)[seed % 4]
        found.append(p_value(mechanism, mechanism.perturb(x, rng)))
    # A binomial of 400 and 5% is above 35 once in 1,000; of 400 and 1% above 11.
    assert sum(p < 0.05 for p in found) <= 35
    assert sum(p < 0.01 for p in found) <= 11


@pytest.mark.parametrize("mechanism", KINDS, ids=lambda m: f"{m.name}-{m.epsilon:g}")
@pytest.mark.parametrize("end", [0, 1])
def test_one_fake_user_in_a_thousand_is_seen(mechanism: NumericMechanism, end: int) -> None:
    rng = np.random.default_rng(3)
    reports = mechanism.perturb(rng.beta(2.0, 5.0, 20_000), rng)
    assert p_value(mechanism, reports) > 0.01
    reports[:20] = mechanism.report_range[end]
    assert p_value(mechanism, reports) < 1e-6


@pytest.mark.parametrize(("sent", "read"), [(0.9, 1.0), (1.0, 0.9), (2.0, 2.2)])
def test_laplace_noise_of_another_epsilon_is_seen_where_the_two_ends_are_alike(
    sent: float, read: float
) -> None:
    """Values are even, so that the sums beyond both ends cancel, and squares tell."""
    rng = np.random.default_rng(4)
    x = rng.random(30_000)
    assert p_value(Laplace(read), Laplace(read).perturb(x, rng)) > 0.01
    assert p_value(Laplace(read), Laplace(sent).perturb(x, rng)) < 1e-4


def test_only_noise_with_a_tail_has_a_test_of_it() -> None:
    versions = (ServiceVersion("a", "", Laplace(1.0)), ServiceVersion("b", "", Piecewise(1.0)))
    attribute = Attribute("x", Numeric(0.0, 1.0), 64, versions)
    rng = np.random.default_rng(0)
    answers = [
        Answers(i, np.arange(100), version.mechanism.perturb(rng.random(100), rng))
        for i, version in enumerate(versions)
    ]
    tests = [(test.test, test.services) for test in fit_tests(attribute, tally(attribute, 100, answers))]
    assert tests == [("reports", ("a",)), ("tails", ("a",)), ("reports", ("b",))]

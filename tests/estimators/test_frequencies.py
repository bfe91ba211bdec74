"""Frequencies of categories: GRR's exact maximum likelihood, Norm-Sub, and inversion."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion
from ldpbeam.channels import DiagonalChannel
from ldpbeam.estimators import estimate
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.frequencies import maximum_likelihood, norm_sub
from ldpbeam.estimators.iteration import Trace
from ldpbeam.mechanisms import Piecewise, RandomisedResponse
from ldpbeam.statistics import Answers, Moments, Statistic, empty, tally

Floats = NDArray[np.float64]
COLOURS = Categories(("red", "green", "blue", "grey", "black"))
TRUTH = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
reproducibly = settings(derandomize=True, deadline=None, max_examples=100)


def diagonal(mechanism: RandomisedResponse) -> DiagonalChannel:
    channel = mechanism.channel(mechanism.size, 0)
    assert isinstance(channel, DiagonalChannel)
    return channel


def asked(*epsilons: float) -> Attribute:
    versions = tuple(
        ServiceVersion(f"s{i}", "", RandomisedResponse(epsilon, size=5)) for i, epsilon in enumerate(epsilons)
    )
    return Attribute("colour", COLOURS, 0, versions)


def reported(attribute: Attribute, users: int, seed: int) -> tuple[Statistic, Floats]:
    """The statistic of users who answer every service, and their true frequencies."""
    rng = np.random.default_rng(seed)
    values = rng.choice(5, users, p=TRUTH)
    answers = [
        Answers(index, np.arange(users), version.mechanism.perturb(values, rng))
        for index, version in enumerate(attribute.versions)
    ]
    return tally(attribute, users, answers), COLOURS.histogram(values) / users


def log_likelihood(frequencies: Floats, counts: Floats, mechanism: RandomisedResponse) -> float:
    E, d = math.exp(mechanism.epsilon), mechanism.size
    p, q = E / (E + d - 1), 1 / (E + d - 1)
    return float(counts @ np.log(q + (p - q) * frequencies))


counts_of_reports = st.lists(st.integers(0, 1000), min_size=2, max_size=12)


@reproducibly
@given(
    reports=counts_of_reports,
    epsilon=st.floats(0.1, 6.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_feasible_direction_improves_maximum_likelihood(
    reports: list[int], epsilon: float, seed: int
) -> None:
    assume(sum(reports) > 0)
    counts = np.array(reports, dtype=float)
    mechanism = RandomisedResponse(epsilon, size=len(counts))
    best = maximum_likelihood(counts, diagonal(mechanism))
    assert best.min() >= 0.0
    assert best.sum() == pytest.approx(1.0, abs=1e-12)
    top = log_likelihood(best, counts, mechanism)
    rng = np.random.default_rng(seed)
    corners = np.eye(len(counts))
    for other in (*corners, *rng.dirichlet(np.full(len(counts), 0.5), 10)):
        for step in (1e-4, 1e-2, 0.5, 1.0):
            moved = log_likelihood((1 - step) * best + step * other, counts, mechanism)
            # Rounding of a sum of len(counts) terms of the likelihood's size.
            assert moved <= top + 1e-13 * abs(top)


@reproducibly
@given(reports=counts_of_reports, epsilon=st.floats(0.1, 6.0))
def test_maximum_likelihood_meets_the_conditions_of_a_maximum(reports: list[int], epsilon: float) -> None:
    """The likelihood's slope is one constant where f is above zero, and no larger elsewhere."""
    assume(sum(reports) > 0)
    counts = np.array(reports, dtype=float)
    mechanism = RandomisedResponse(epsilon, size=len(counts))
    keep, other = mechanism.support_probabilities
    best = maximum_likelihood(counts, diagonal(mechanism))
    slope = counts / (other + (keep - other) * best)
    inside = best > 0.0
    np.testing.assert_allclose(slope[inside], slope.max(), rtol=1e-9)
    assert (slope[~inside] <= slope.max() * (1 + 1e-9)).all()


@pytest.mark.parametrize(("counts", "zeros"), [([400, 300, 250, 220, 215], 0), ([500, 300, 250, 100, 60], 2)])
def test_maximum_likelihood_is_where_em_ends(counts: list[int], zeros: int) -> None:
    mechanism = RandomisedResponse(1.0, size=5)
    best = maximum_likelihood(counts, diagonal(mechanism))
    assert (best == 0.0).sum() == zeros
    fit = fit_channel(mechanism.channel(5, 5), counts, smoothing=False, tolerance=1e-12, trace=Trace(50_000))
    assert fit.converged
    np.testing.assert_allclose(fit.weights, best, atol=1e-6)


def test_maximum_likelihood_is_inversion_where_no_frequency_is_negative() -> None:
    mechanism = RandomisedResponse(1.0, size=5)
    counts = np.array([400, 300, 250, 220, 215])
    expected = mechanism.unbiased_frequencies(counts, int(counts.sum()))
    assert expected.min() > 0.0
    np.testing.assert_allclose(maximum_likelihood(counts, diagonal(mechanism)), expected, atol=1e-12)
    # Just above zero is above zero.
    rare = np.array([0.5, 0.3, 0.19989, 1e-4, 1e-5])
    exact = 1e6 * mechanism.channel(5, 5).dense() @ rare
    np.testing.assert_allclose(maximum_likelihood(exact, diagonal(mechanism)), rare, atol=1e-12)


def iterative_norm_sub(frequencies: list[float]) -> list[float]:
    """Norm-Sub as the square-wave paper words it (section 4.1)."""
    estimates = [max(value, 0.0) for value in frequencies]
    while True:
        positive = [i for i, value in enumerate(estimates) if value > 0.0]
        surplus = (math.fsum(estimates) - 1.0) / len(positive)
        for i in positive:
            estimates[i] -= surplus
        if min(estimates) >= 0.0:
            return estimates
        estimates = [max(value, 0.0) for value in estimates]


@reproducibly
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 40), noise=st.floats(0.001, 10.0))
def test_norm_sub_equals_the_papers_iteration(seed: int, size: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.dirichlet(np.full(size, 0.3)) + rng.normal(0.0, noise, size)
    raw += (1.0 - raw.sum()) / size  # unbiased frequencies of GRR sum to one
    found = norm_sub(raw)
    np.testing.assert_allclose(found, iterative_norm_sub(raw.tolist()), atol=1e-12)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


def test_norm_sub_leaves_a_distribution_as_it_is() -> None:
    np.testing.assert_allclose(norm_sub(TRUTH), TRUTH, atol=1e-15)
    np.testing.assert_allclose(norm_sub([1.4, -0.1, -0.3]), [1.0, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(norm_sub([0.9, 0.5, -0.4]), [0.7, 0.3, 0.0], atol=1e-15)


def test_services_are_averaged_by_reports_over_variance() -> None:
    attribute = asked(0.5, 2.0)
    statistic, _ = reported(attribute, 1000, 1)
    total, weight = np.zeros(5), 0.0
    for version, histogram in zip(attribute.versions, statistic.histograms, strict=True):
        E = math.exp(version.mechanism.epsilon)
        own = histogram.sum() * (E - 1) ** 2 / (5 - 2 + E)
        p, q = E / (E + 4), 1 / (E + 4)
        total += own * (histogram / histogram.sum() - q) / (p - q)
        weight += own
    found = estimate("inversion", attribute, statistic)
    np.testing.assert_allclose(found.distribution, total / weight, atol=1e-12)
    repaired = estimate("norm_sub", attribute, statistic)
    np.testing.assert_allclose(repaired.distribution, norm_sub(total / weight), atol=1e-12)
    assert (found.mean, found.variance) == (None, None)


def test_what_does_not_fit_is_refused() -> None:
    numeric = Attribute("x", Numeric(0.0, 1.0), 8, (ServiceVersion("s", "", Piecewise(1.0)),))
    for name in ("inversion", "norm_sub", "mle"):
        with pytest.raises(ValueError, match=r"gives no unbiased shares|the closed form is for one service"):
            estimate(name, numeric, empty(numeric))
    two = asked(0.5, 2.0)
    with pytest.raises(ValueError, match="and one epsilon, found s0, s1"):
        estimate("mle", two, empty(two))
    statistic, _ = reported(two, 1000, 2)
    found = estimate("mle", two, statistic, ["s1"])
    alone = asked(2.0)
    moments = {1: Moments(int(statistic.histograms[1].sum()), (0,), (0,))}
    copy = dataclasses.replace(empty(alone), histograms=(statistic.histograms[1],), moments=moments)
    np.testing.assert_array_equal(found.distribution, estimate("mle", alone, copy).distribution)

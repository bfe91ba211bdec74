"""Frequencies of categories: GRR's exact maximum likelihood, Norm-Sub, and inversion."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.asked import of_counts, statistic_of

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion
from ldpbeam.estimators import estimate
from ldpbeam.estimators.frequencies import maximum_likelihood, norm_sub
from ldpbeam.mechanisms import Piecewise, RandomisedResponse
from ldpbeam.statistics import Statistic, empty

Floats = NDArray[np.float64]
COLOURS = Categories(("red", "green", "blue", "grey", "black"))
TRUTH = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
reproducibly = settings(derandomize=True, deadline=None, max_examples=100)


def asked(*epsilons: float) -> Attribute:
    versions = tuple(
        ServiceVersion(f"s{i}", "", RandomisedResponse(epsilon, size=5)) for i, epsilon in enumerate(epsilons)
    )
    return Attribute("colour", COLOURS, 0, versions)


def reported(attribute: Attribute, users: int, seed: int) -> tuple[Statistic, Floats]:
    """The statistic of users who answer every service, and their true frequencies."""
    rng = np.random.default_rng(seed)
    values = rng.choice(5, users, p=TRUTH)
    return statistic_of(attribute, values, rng), COLOURS.histogram(values) / users


counts_of_reports = st.lists(st.integers(0, 1000), min_size=2, max_size=12)


@reproducibly
@given(reports=counts_of_reports, epsilon=st.floats(0.1, 6.0))
def test_maximum_likelihood_meets_the_conditions_of_a_maximum(reports: list[int], epsilon: float) -> None:
    """The likelihood's slope is one constant where f is above zero, and no larger elsewhere."""
    assume(sum(reports) > 0)
    counts = np.array(reports, dtype=float)
    mechanism = RandomisedResponse(epsilon, size=len(counts))
    keep, other = mechanism.support_probabilities
    best = maximum_likelihood(counts, mechanism.channel(mechanism.size, 0))
    slope = counts / (other + (keep - other) * best)
    inside = best > 0.0
    np.testing.assert_allclose(slope[inside], slope.max(), rtol=1e-9)
    assert (slope[~inside] <= slope.max() * (1 + 1e-9)).all()


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


def test_what_does_not_fit_is_refused() -> None:
    numeric = Attribute("x", Numeric(0.0, 1.0), 8, (ServiceVersion("s", "", Piecewise(1.0)),))
    for name in ("inversion", "norm_sub", "mle"):
        with pytest.raises(ValueError, match=r"gives no unbiased shares|it is for one service"):
            estimate(name, numeric, empty(numeric))
    two = asked(0.5, 2.0)
    with pytest.raises(ValueError, match=r"and one epsilon, found s0 \(\w+\), s1"):
        estimate("mle", two, empty(two))
    statistic, _ = reported(two, 1000, 2)
    found = estimate("mle", two, statistic, ["s1"])
    alone = asked(2.0)
    copy = of_counts(alone, statistic.histograms[1], users=int(statistic.histograms[1].sum()))
    np.testing.assert_array_equal(found.distribution, estimate("mle", alone, copy).distribution)

"""HH-ADMM, and what other estimators make of bins and trees."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.asked import attribute_of, leaves_below, statistic_of

from ldpbeam import Attribute, Numeric, build_mechanism
from ldpbeam.estimators import Estimate, Question
from ldpbeam.estimators.admm import admm, check_hierarchy, nearest_distribution
from ldpbeam.mechanisms import Mechanism, Piecewise
from ldpbeam.mechanisms.ranges.hierarchy import Hierarchy
from ldpbeam.statistics import Statistic, empty

Floats = NDArray[np.float64]
DOMAIN = Numeric(0.0, 20.0)
DEFAULTS: dict[str, Any] = {"tolerance": 1e-8, "max_iterations": 10_000}


def asked(*mechanisms: Mechanism, buckets: int = 256) -> Attribute:
    return attribute_of(DOMAIN, *mechanisms, buckets=buckets)


def reported(attribute: Attribute, users: int, seed: int) -> tuple[Statistic, Floats]:
    """The statistic of users who answer every service, and the shares of their true values' buckets."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(users) < 0.3, rng.beta(30, 10, users), rng.beta(2, 6, users))
    truth = np.histogram(x, attribute.buckets, (0.0, 1.0))[0] / users
    return statistic_of(attribute, x, rng), truth


def admm_of(attribute: Attribute, statistic: Statistic, *services: str, **options: Any) -> Estimate:
    return admm(Question(attribute, statistic, services or attribute.services), **options)


def quadratic(weights: Sequence[float] | Floats, levels: Sequence[Floats], shares: Sequence[Floats]) -> Any:
    """(Q, c): the objective is x'Qx - 2 c'x and a constant."""
    Q = sum(w * A.T @ A for w, A in zip(weights, levels, strict=True))
    c = sum(w * A.T @ f for w, A, f in zip(weights, levels, shares, strict=True))
    return Q, c


def by_trying_every_support(Q: Floats, c: Floats) -> Floats:
    """The minimum over the simplex: that of every set of leaves that may be above zero, the best of them."""
    size = len(c)
    best = np.zeros(size)
    lowest = math.inf
    for count in range(1, size + 1):
        for some in itertools.combinations(range(size), count):
            inside, ones = np.ix_(some, some), np.ones((1, count))
            kkt = np.block([[Q[inside], ones.T], [ones, np.zeros((1, 1))]])
            x = np.linalg.solve(kkt, np.append(c[list(some)], 1.0))[:count]
            value = float(x @ Q[inside] @ x - 2.0 * c[list(some)] @ x)
            if x.min() >= 0.0 and value < lowest:
                lowest = value
                best = np.zeros(size)
                best[list(some)] = x
    return best


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    tree=st.sampled_from([(2, 2), (2, 4), (2, 8), (3, 9), (8, 8)]),
    seed=st.integers(0, 2**32 - 1),
    noise=st.sampled_from([0.05, 0.3, 3.0]),
)
def test_admm_ends_at_the_minimum(tree: tuple[int, int], seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    levels = leaves_below(*tree)
    truth = rng.dirichlet(np.full(tree[1], 0.5))
    shares = [A @ truth + rng.normal(0.0, noise, len(A)) for A in levels]
    weights = 10.0 ** rng.uniform(-1.0, 1.0, len(levels))
    if len(levels) > 1 and seed % 3 == 0:  # a level above the leaves that says nothing
        weights[seed % (len(levels) - 1)] = 0.0
    exact = by_trying_every_support(*quadratic(weights, levels, shares))
    found = nearest_distribution(shares, weights, tree[0], **DEFAULTS)
    assert found.converged
    assert found.distance <= 1e-8
    # The distance it states is an upper bound; the rest is the exact solution's own rounding.
    assert np.linalg.norm(found.leaves - exact) <= found.distance + 1e-12
    early = nearest_distribution(shares, weights, tree[0], **{**DEFAULTS, "max_iterations": 3})
    assert np.linalg.norm(early.leaves - exact) <= early.distance + 1e-12


def test_deepest_levels_without_weight_are_split_evenly() -> None:
    rng = np.random.default_rng(4)
    shares = [rng.normal(0.2, 0.2, size) for size in (4, 16, 64)]
    found = nearest_distribution(shares, [1.0, 2.0, 0.0], 4, **DEFAULTS)
    shallow = nearest_distribution(shares[:2], [1.0, 2.0], 4, **DEFAULTS)
    np.testing.assert_allclose(found.leaves, np.repeat(shallow.leaves / 4.0, 4), atol=1e-12)


@pytest.mark.parametrize(
    ("users", "epsilon"), [(1, 0.01), (1, 20.0), (7, 1.0), (20_000, 0.01), (20_000, 20.0)]
)
def test_admm_gives_a_distribution_whatever_the_reports(epsilon: float, users: int) -> None:
    attribute = asked(Hierarchy(epsilon), buckets=512)
    statistic, _ = reported(attribute, users, seed=users)
    answer = admm_of(attribute, statistic)
    assert answer.converged
    assert answer.warnings == ()
    assert answer.distribution.min() >= 0.0
    assert answer.distribution.sum() == pytest.approx(1.0, abs=1e-12)
    # Two buckets a leaf, alike.
    np.testing.assert_array_equal(answer.distribution[::2], answer.distribution[1::2])
    assert answer.reports == users
    assert sum(answer.details["level_reports"]) == users


def test_what_did_not_converge_says_what_to_change() -> None:
    attribute = asked(Hierarchy(1.0))
    statistic, _ = reported(attribute, 1000, seed=5)
    early = admm_of(attribute, statistic, max_iterations=3)
    assert (early.converged, early.n_iterations) == (False, 3)
    (warning,) = early.warnings
    assert "not converged after 3 iterations" in warning
    assert "raise max_iterations, or tolerance" in warning
    assert early.distribution.min() >= 0.0
    assert early.distribution.sum() == pytest.approx(1.0, abs=1e-12)
    late = admm_of(attribute, statistic)
    assert late.converged
    loose = admm_of(attribute, statistic, tolerance=1e-3)
    assert loose.n_iterations < late.n_iterations
    assert np.linalg.norm(loose.distribution - late.distribution) <= loose.details["distance"] + 1e-8


def test_services_are_averaged_level_by_level() -> None:
    attribute = asked(Hierarchy(0.5, 4, 64, "grr"), Hierarchy(2.0, 4, 64, "hadamard"), buckets=64)
    statistic, _ = reported(attribute, 3000, seed=6)
    shares, weights = [np.zeros(size) for size in (4, 16, 64)], np.zeros(3)
    for version, histogram in zip(attribute.versions, statistic.histograms, strict=True):
        mechanism = version.mechanism
        E = math.exp(mechanism.epsilon)
        start = 0
        for level, oracle in enumerate(mechanism.reporters):
            own = histogram[start : start + oracle.cells(1)]
            start += oracle.cells(1)
            d = oracle.size
            # 1/(d (p - q)^2) of GRR, 1/(2p - 1)^2 of Hadamard response.
            root = (E - 1) / (E + d - 1) * math.sqrt(d) if oracle.name == "grr" else (E - 1) / (E + 1)
            weights[level] += own.sum() * root**2
            shares[level] += own.sum() * root**2 * oracle.unbiased_frequencies(own, int(own.sum()))
    shares = [total / weight for total, weight in zip(shares, weights, strict=True)]
    found = admm_of(attribute, statistic)
    np.testing.assert_allclose(found.details["level_precisions"], weights, rtol=1e-12)
    assert sum(found.details["level_reports"]) == found.reports == 6000
    expected = nearest_distribution(shares, weights, 4, **DEFAULTS)
    np.testing.assert_allclose(found.distribution, expected.leaves, atol=2e-8)
    # One service of two is as if it were alone.
    alone = asked(attribute.versions[1].mechanism, buckets=64)
    moments = {1: next(iter(statistic.moments.values()))}
    copy = dataclasses.replace(empty(alone), histograms=statistic.histograms[1:], moments=moments)
    np.testing.assert_array_equal(
        admm_of(attribute, statistic, "s1").distribution, admm_of(alone, copy).distribution
    )


def test_services_of_other_mechanisms_or_trees_are_refused() -> None:
    tree = Hierarchy(1.0, 4, 64)
    check_hierarchy(asked(tree, Hierarchy(2.0, 4, 64, "grr")), ["s0", "s1"])
    mixed = asked(tree, Piecewise(1.0))
    check_hierarchy(mixed, ["s0"])
    with pytest.raises(ValueError, match=r"s1 \(piecewise\) does not report nodes of a tree"):
        check_hierarchy(mixed, ["s0", "s1"])
    with pytest.raises(ValueError, match=r"trees differ \(s0 branching 4 and leaves 64, s1 branching 2 "):
        check_hierarchy(asked(tree, Hierarchy(1.0, 2, 64)), ["s0", "s1"])
    with pytest.raises(ValueError, match="trees differ"):
        check_hierarchy(asked(tree, Hierarchy(1.0, 4, 256)), ["s0", "s1"])
    build = build_mechanism("binned", DOMAIN, 1.0)
    with pytest.raises(ValueError, match=r"s0 \(binned\) does not report nodes"):
        check_hierarchy(asked(build), ["s0"])

"""Metrics on small cases worked by hand, and against scipy."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial import distance
from support.asked import noisy_shares

from ldpbeam.domains import Numeric
from ldpbeam.metrics import (
    jensen_shannon,
    kolmogorov_smirnov,
    mean_absolute_error,
    quantiles,
    range_share,
    wasserstein,
)

seeds = st.integers(0, 2**32 - 1)
reproducibly = settings(derandomize=True, deadline=None, max_examples=50)


def two_distributions(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 30))
    p, q = rng.dirichlet(np.full(size, 0.3), 2)
    return p, q


unbiased_shares = st.builds(noisy_shares, seeds, st.integers(2, 40), st.floats(0.001, 3.0))


def test_wasserstein_of_mass_moved_is_the_way_it_moved() -> None:
    start, end = np.eye(10)[2], np.eye(10)[7]
    assert wasserstein(start, end) == pytest.approx(0.5)
    assert wasserstein(start, end, width=80.0) == pytest.approx(40.0)
    assert kolmogorov_smirnov(start, end) == pytest.approx(1.0)


@reproducibly
@given(seeds)
def test_metrics_equal_scipys(seed: int) -> None:
    p, q = two_distributions(seed)
    x = np.arange(len(p)) / len(p)
    assert wasserstein(p, q) == pytest.approx(stats.wasserstein_distance(x, x, p, q), abs=1e-12)
    assert jensen_shannon(p, q) == pytest.approx(distance.jensenshannon(p, q), abs=1e-7)
    gap = [abs(math.fsum(p[: i + 1]) - math.fsum(q[: i + 1])) for i in range(len(p))]
    assert kolmogorov_smirnov(p, q) == pytest.approx(max(gap), abs=1e-12)


def test_mean_absolute_error_is_over_all_entries() -> None:
    assert mean_absolute_error([0.5, 0.5, 0.0], [0.2, 0.5, 0.3]) == pytest.approx(0.2)


@reproducibly
@given(shares=unbiased_shares, low=st.floats(-1.5, 1.5), width=st.floats(0.001, 3.0))
def test_the_share_of_a_range_adds_up_parts_of_buckets(shares: np.ndarray, low: float, width: float) -> None:
    edges, high = np.linspace(-1.0, 1.0, len(shares) + 1), low + width
    total = 0.0
    for share, left, right in zip(shares, edges[:-1], edges[1:], strict=True):
        total += share * max(0.0, min(high, right) - max(low, left)) / (right - left)
    assert range_share(shares, edges, low, high) == pytest.approx(total, abs=1e-11)


@reproducibly
@given(shares=unbiased_shares, level=st.floats(0.05, 0.95))
def test_a_quantile_of_unbiased_shares_is_the_first_place_they_add_up_to(
    shares: np.ndarray, level: float
) -> None:
    (found,) = quantiles(shares, np.arange(len(shares) + 1.0), [level])
    # Shares may be negative, so that sums go up and down: the first place counts.
    sums = np.concatenate(([0.0], np.cumsum(shares)))
    place = int(np.flatnonzero(sums[1:] >= level)[0])
    assert found == pytest.approx(place + (level - sums[place]) / shares[place], abs=1e-6)


def test_with_a_step_quantiles_are_values_and_ranges_count_both_of_their_ends() -> None:
    values = np.round(0.18 * np.arange(11), 2)
    people = np.random.default_rng(5).choice(values, 1_000, p=np.arange(1, 12) / 66)
    edges = np.append(values, 1.98) - 0.09
    shares = np.histogram(people, edges)[0] / 1_000
    levels = (0.001, 0.05, 0.3, 0.5, 0.9, 0.999)
    expected = np.quantile(people, levels, method="inverted_cdf")
    assert quantiles(shares, edges, levels, 0.18).tolist() == expected.tolist()
    for low, high in [(0.54, 0.9), (0.5, 0.93), (0.0, 1.8), (-3.0, 9.0), (0.18, 0.19), (0.19, 0.2)]:
        share = ((people >= low) & (people <= high)).mean()
        assert range_share(shares, edges, low, high, 0.18) == pytest.approx(share, abs=1e-12)


def test_numbers_far_from_zero_are_the_values_that_they_are_nearest_to() -> None:
    """A value is off by more than a millionth of the step, and the edge of its bucket is, too."""
    values = np.array([float(Decimal(20_000_101) + place * Decimal("0.001")) for place in range(101)])
    edges = Numeric(values[0], values[-1], 0.001).edges(101)
    for value in values:
        assert range_share(values == value, edges, value, value, 0.001) == pytest.approx(1.0)
        assert quantiles(values == value, edges, (0.5, 1.0), 0.001).tolist() == [value, value]


def test_a_bucket_of_several_values_is_even_over_them() -> None:
    edges = [-0.5, 2.5, 5.5]
    assert range_share([0.6, 0.4], edges, 1.0, 3.0, 1.0) == pytest.approx(0.4 + 0.4 / 3)
    assert quantiles([0.6, 0.4], edges, (0.1, 0.21, 0.6, 0.61), 1.0).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_many_distributions_have_the_quantiles_and_shares_that_each_has() -> None:
    shares = np.random.default_rng(2).normal(0.05, 0.1, (30, 20))
    edges, levels = np.linspace(-1.0, 3.0, 21), (0.1, 0.5, 0.9)
    each = [quantiles(one, edges, levels) for one in shares]
    np.testing.assert_array_equal(quantiles(shares, edges, levels), each)
    assert quantiles(shares, edges, ()).shape == (30, 0)
    below = np.concatenate((np.zeros((30, 1)), np.cumsum(shares, axis=1)), axis=1)
    inside = [np.diff(np.interp([-0.9, 3.0], edges, masses))[0] for masses in below]
    np.testing.assert_allclose(range_share(shares, edges, -0.9, 3.0), inside, atol=1e-14)

"""The two steps of memoised clients: together they are the mechanism of one window, to the last digits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from ldpbeam import Categories, Numeric, build_mechanism
from ldpbeam.memoised import Lifetime, steps_of
from ldpbeam.memoised.chains import instant_ratio, published_hashes, uniform_part

Matrix = NDArray[np.float64]
BUDGETS = [(2.0, 1.0), (4.0, 1.2), (4.0, 2.0), (1.0, 0.5), (1.001, 1.0), (19.0, 0.01)]


def response(cells: int, ratio: float) -> Matrix:
    """Randomised response: P(answer | input), the own one ``ratio`` times as likely as each other."""
    return (np.ones((cells, cells)) + (ratio - 1.0) * np.eye(cells)) / (ratio + cells - 1.0)


def second_ratio(many: int, lifetime: float, epsilon: float, published: bool = False) -> float:
    """The ratio of the instant step, by the formula of docs/over_time.md."""
    k = 2 if published else many
    top = math.exp(lifetime + epsilon) + (k - 2) * math.exp(epsilon) - (k - 1)
    return top / (math.exp(lifetime) - math.exp(epsilon))


def lifetime_of(name: str, budgets: tuple[float, float], size: int = 5, **options: object) -> Lifetime:
    domain = Categories(tuple(map(str, range(size))))
    return Lifetime(build_mechanism(name, domain, budgets[1], **options), budgets[0])


@pytest.mark.parametrize("budgets", BUDGETS)
@pytest.mark.parametrize("name", ["grr", "oue", "sue", "olh"])
def test_a_window_supports_categories_as_the_mechanism_does(name: str, budgets: tuple[float, float]) -> None:
    lifetime = lifetime_of(name, budgets)
    found = lifetime.chain.window
    assert found == pytest.approx(lifetime.window.support_probabilities, abs=1e-14)  # type: ignore[attr-defined]


@pytest.mark.parametrize("published", [False, True])
def test_instant_steps_are_those_of_the_document(published: bool) -> None:
    for size, budgets in itertools.product([2, 4, 50], BUDGETS[:4]):
        own = second_ratio(size, *budgets, published)
        assert instant_ratio(size, *budgets, as_published=published) == pytest.approx(own, rel=1e-12)


def test_published_constants_are_exact_for_two_symbols_and_noisier_than_needed_for_more() -> None:
    """The variances relative to the exact chain that the field's released code has at (2, 1)."""
    assert instant_ratio(2, 2.0, 1.0, as_published=True) == pytest.approx(instant_ratio(2, 2.0, 1.0))
    for size, times in [(10, 2.7), (100, 90.0)]:
        domain = Categories(tuple(map(str, range(size))))
        named = build_mechanism("grr", domain, 1.0)
        published = Lifetime(named, 2.0, as_published=True).window
        ratio = published.frequency_variance / named.frequency_variance  # type: ignore[attr-defined]
        assert ratio == pytest.approx(times, rel=0.02)
        # What the two published steps are together.
        steps = response(size, second_ratio(size, 2.0, 1.0, True)) @ response(size, math.exp(2.0))
        assert np.abs(steps - published.channel(size, 0).dense()).max() < 1e-14


def test_ololoha_has_the_number_of_hash_values_with_the_least_variance_of_its_own_chain() -> None:
    def variance(hashes: int, lifetime: float, epsilon: float) -> float:
        first, second = math.exp(lifetime), second_ratio(hashes, lifetime, epsilon, published=True)
        p = (response(hashes, second) @ response(hashes, first))[0, 0]
        return (1 / hashes) * (1 - 1 / hashes) / (p - 1 / hashes) ** 2

    for lifetime, epsilon in [(2.0, 1.0), (3.0, 1.5), (4.0, 2.0), (4.0, 1.2), (5.0, 4.0)]:
        best = min(range(2, 200), key=lambda g: variance(g, lifetime, epsilon))
        assert abs(published_hashes(lifetime, epsilon) - best) <= 1


@pytest.mark.parametrize("windows", [1, 2, 5])
@pytest.mark.parametrize("name", ["grr", "oue", "sue", "olh"])
def test_the_variance_over_windows_is_that_of_all_sequences_of_reports(name: str, windows: int) -> None:
    """Every sequence of supports of one person with one value, by enumeration."""
    chain = lifetime_of(name, (2.0, 1.0)).chain
    sequences = np.array(list(itertools.product([0, 1], repeat=windows)))
    counts = sequences.sum(axis=1)
    yes, no = chain.instant
    for share, permanent in [(1.0, chain.permanent[0]), (0.0, chain.permanent[1])]:
        given = [p**counts * (1.0 - p) ** (windows - counts) for p in (yes, no)]
        chances = permanent * given[0] + (1.0 - permanent) * given[1]
        mean = chances @ counts
        variance = chances @ (counts - mean) ** 2
        alone = windows * (mean / windows) * (1.0 - mean / windows)
        factor = chain.share_factors(np.array([share]), windows)
        assert factor[0] == pytest.approx(variance / alone)
        assert chain.factor(windows) >= factor[0] - 1e-12


@pytest.mark.parametrize("budgets", BUDGETS[:4])
@pytest.mark.parametrize("name", ["square_wave", "piecewise", "stochastic_rounding"])
def test_no_function_of_two_reports_of_a_number_is_correlated_by_more_than_the_bound(
    name: str, budgets: tuple[float, float]
) -> None:
    """The largest correlation given a value is the second singular value of the joint distribution."""
    many, largest = 64, 0.0
    lifetime = Lifetime(build_mechanism(name, Numeric(0.0, 1.0), budgets[1]), budgets[0], memo_buckets=many)
    if name == "stochastic_rounding":
        ratio = second_ratio(2, *budgets)
        instant = response(2, ratio)
        up = np.linspace(
            1 / (math.exp(budgets[0]) + 1), math.exp(budgets[0]) / (math.exp(budgets[0]) + 1), 33
        )
        permanents = np.stack((1.0 - up, up))
    else:
        half = lifetime.half_width
        even = uniform_part(half, *budgets)
        instant = (1.0 - even) * np.eye(many) + even / many
        edges, middles = np.linspace(-half, 1.0 + half, many + 1), (np.arange(many) + 0.5) / many
        inside = np.diff(np.clip(edges[:, None], middles - half, middles + half), axis=0)
        outside = 1.0 / (2.0 * half * math.exp(budgets[0]) + 1.0)
        permanents = outside * ((1.0 + 2.0 * half) / many + math.expm1(budgets[0]) * inside)
    for permanent in permanents.T:
        both = (instant * permanent) @ instant.T
        reported = both.sum(axis=1)
        values = np.linalg.svd(both / np.sqrt(np.outer(reported, reported)), compute_uv=False)
        largest = max(largest, float(values[1]))
    bound = lifetime.chain.factor(2) - 1.0
    assert largest <= bound + 1e-12
    # The bound is not far from what some function reaches.
    assert largest >= 0.85 * bound


def test_bits_of_a_vector_for_each_category_lose_more_than_two_bits_of_the_instant_step() -> None:
    """Nobody's bit is set in 24 windows: a constant value against 24 different ones, of 40 categories."""
    size, windows = 40, 24
    lifetime = lifetime_of("oue", (2.0, 1.0), size)
    chain = lifetime.chain
    keep, lose = chain.instant
    constant = changing = 0.0
    for bit in range(size):
        p = chain.permanent[0] if bit == 0 else chain.permanent[1]
        constant += math.log(p * lose**windows + (1.0 - p) * keep**windows)
        for window in range(windows):
            p = chain.permanent[0] if bit == window else chain.permanent[1]
            changing += math.log(p * lose + (1.0 - p) * keep)
    assert constant - changing > windows * 2.0 * math.log(keep / lose)
    assert constant - changing < windows * steps_of(lifetime).loss

"""IIW against its own iteration, and on populations that are smooth, flat, or known without noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.asked import attribute_of, categories, question_of

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.estimators import Question
from ldpbeam.estimators.frequencies import norm_sub, unbiased_shares
from ldpbeam.estimators.wiener import iiw, iterative_wiener
from ldpbeam.mechanisms import RandomisedResponse
from ldpbeam.mechanisms.ranges.binned import Binned
from ldpbeam.statistics import Answers, tally

Floats = NDArray[np.float64]


def asked(*mechanisms: RandomisedResponse) -> Attribute:
    return attribute_of(categories(mechanisms[0].size), *mechanisms)


def answered(attribute: Attribute, truth: Floats, users: int, seed: int) -> Question:
    """The question of users of these shares who answer every service."""
    rng = np.random.default_rng(seed)
    return question_of(attribute, np.repeat(np.arange(len(truth)), rng.multinomial(users, truth)), rng)


def filtered(shares: Floats, variance: float, correction: bool, iterations: int) -> Floats:
    """The published iteration, on the whole spectrum."""
    spectrum, noise = np.fft.fft(shares), len(shares) * variance
    power = signal = np.abs(spectrum) ** 2
    for _ in range(iterations):
        gain = signal / (signal + noise)
        signal = power * gain**2 + (gain * noise if correction else 0.0)
    gain[0] = 1.0
    return np.fft.ifft(gain * spectrum).real


@pytest.mark.parametrize("size", [9, 10])
@pytest.mark.parametrize("correction", [True, False])
def test_the_closed_form_is_where_the_iteration_ends(correction: bool, size: int) -> None:
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(size, 0.7)) + rng.normal(0.0, 0.05, size)
    found = iterative_wiener(shares, 0.05**2, correction=correction)
    power = np.abs(np.fft.rfft(shares))[1:] ** 2 / (size * 0.05**2)
    least = 1.0 if correction else 4.0
    assert (power < least).any()
    assert (power > least).any()
    # No power of this seed is near the limit. Below it the gain falls as 1/iterations, so that what is left
    # of those frequencies is of the order of 1e-5 of the shares.
    assert np.abs(power - least).min() > 0.2
    np.testing.assert_allclose(found, filtered(shares, 0.05**2, correction, 20_000), atol=1e-5)
    assert np.abs(found - shares).max() > 1e-3
    assert found.sum() == pytest.approx(shares.sum(), abs=1e-12)


@pytest.mark.parametrize("correction", [True, False])
def test_shares_without_noise_stay_as_they_are(correction: bool) -> None:
    shares = np.array([0.5, 0.0, 0.1, 0.3, 0.1])
    np.testing.assert_allclose(iterative_wiener(shares, 0.0, correction=correction), shares, atol=1e-15)
    # And so it is, to O(noise), with a great many users.
    attribute = asked(RandomisedResponse(4.0, size=5))
    question = answered(attribute, shares, 10**6, 0)
    distribution = iiw(question, correction=correction).distribution
    deviation = np.sqrt(unbiased_shares(question)[1])
    np.testing.assert_allclose(distribution, norm_sub(unbiased_shares(question)[0]), atol=3 * deviation)


def test_the_noise_is_that_of_all_services() -> None:
    attribute = asked(RandomisedResponse(1.0, size=8), RandomisedResponse(2.0, size=8))
    question = answered(attribute, np.full(8, 1 / 8), 1_000, 0)
    found = iiw(question)
    precisions = [1_000 / version.mechanism.frequency_variance for version in attribute.versions]  # type: ignore[attr-defined]
    assert found.details["deviation"] == pytest.approx(sum(precisions) ** -0.5)
    expected = norm_sub(iterative_wiener(unbiased_shares(question)[0], 1 / sum(precisions)))
    np.testing.assert_allclose(found.distribution, expected, atol=1e-15)


def test_bins_are_filtered_as_bins_and_spread_over_their_buckets() -> None:
    domain = Numeric(0.0, 1.0)
    mechanism = Binned.for_domain(domain, 2.0, bins=16)
    attribute = Attribute("x", domain, 64, (ServiceVersion("s", "", mechanism),))
    rng = np.random.default_rng(0)
    payloads = mechanism.perturb(rng.beta(4, 4, 5_000), rng)
    question = Question(attribute, tally(attribute, 5_000, [Answers(0, np.arange(5_000), payloads)]), ("s",))
    shares, variance = unbiased_shares(question)
    found = iiw(question).distribution
    by_bin = norm_sub(iterative_wiener(4 * shares[::4], variance))
    np.testing.assert_allclose(found, np.repeat(by_bin / 4, 4), atol=1e-15)

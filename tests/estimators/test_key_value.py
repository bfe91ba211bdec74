"""Frequencies and means of keys with values, against brute force, expected counts, and planted truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.asked import attribute_of, counted, question_of

from ldpbeam import Attribute, Numeric
from ldpbeam.domains import KeyValuePairs, KeyValues
from ldpbeam.estimators import Estimate, Question
from ldpbeam.estimators.iteration import Trace
from ldpbeam.estimators.key_values.key_value import key_value
from ldpbeam.estimators.key_values.pckv import pckv_em, pckv_mr
from ldpbeam.estimators.key_values.privkv import (
    fit_keys,
    privkv_em,
    privkv_maximum_likelihood,
    privkv_mle,
    privkvm,
)
from ldpbeam.mechanisms import Mechanism
from ldpbeam.mechanisms.key_values.mechanism import KeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.key_values.pckv_slots import PCKVUE
from ldpbeam.mechanisms.key_values.privkv import PrivKV, PrivKVM

Floats = NDArray[np.float64]
# Means 0, 5 and so on are on the attribute's scale of -10 to 10; v = 10 v' on the papers'.
DOMAIN = KeyValues(("a", "b", "c"), Numeric(-10.0, 10.0))
FREQUENCIES, MEANS = np.array([0.5, 0.2, 0.3]), np.array([-0.6, 0.8, 0.1])
reproducibly = settings(derandomize=True, deadline=None, max_examples=60)


def asked(*mechanisms: Mechanism, buckets: int = 8, domain: Any = DOMAIN) -> Attribute:
    return attribute_of(domain, *mechanisms, buckets=buckets)


def expected(
    mechanisms: Sequence[KeyValueMechanism], weights: Floats, reports: int, buckets: int = 8
) -> Question:
    """A question whose counts are as expected of that many users of a distribution over the columns."""
    histograms = []
    for mechanism in mechanisms:
        slots = mechanism.size if mechanism.composite else 1
        counts = mechanism.histogram_channel(buckets, buckets).matvec(weights) * reports * slots
        histograms.append(np.rint(counts).astype(np.int64))
    return counted(asked(*mechanisms, buckets=buckets), *histograms, users=reports)


def paper_em(counts: NDArray[np.int64], table: Floats, eta: float) -> tuple[Floats, int]:
    """Algorithm 1 of the PrivKV-EM paper for one key: the mean of the posteriors of its reports."""
    theta, iterations, change = np.full(4, 0.25), 0, math.inf
    while change > eta:
        joint = table * theta
        new = counts @ (joint / joint.sum(axis=1, keepdims=True)) / counts.sum()
        change, theta, iterations = np.abs(new - theta).max(), new, iterations + 1
    return theta, iterations


@pytest.mark.parametrize(("epsilon", "eta"), [(0.5, 1e-4), (2.0, 1e-6), (5.0, 1e-2), (5.0, 1e-6)])
def test_vectorised_em_is_the_papers_of_each_key(epsilon: float, eta: float) -> None:
    p = math.exp(epsilon / 2) / (1 + math.exp(epsilon / 2))
    q = 1 - p
    # Table 1, a row a report: absent, +1, -1.
    table = np.array([[q, q, p, p], [p * p, p * q, q * p, q * q], [p * q, p * p, q * q, q * p]])
    counts = np.array([[3, 9, 2], [10, 0, 0], [0, 7, 0], [1, 1, 1], [0, 0, 0], [5, 0, 4]])
    mechanism = PrivKV(epsilon, 6)
    np.testing.assert_allclose(mechanism.block, table, rtol=1e-12)
    trace = Trace(100_000)
    states, updates, moving = fit_keys(counts.astype(float), mechanism.block, trace, precision=eta)
    assert not len(moving)
    for key in (0, 1, 2, 3, 5):
        theta, iterations = paper_em(counts[key], table, eta)
        np.testing.assert_allclose(states[key], theta, atol=1e-12)
        assert updates[key] == iterations
    assert states[4].tolist() == [0.25] * 4
    # EM's likelihood never falls; rounding is some 1e-16 of its size.
    assert np.diff(trace.likelihoods).min() >= -1e-13 * abs(trace.likelihoods[0])


def test_em_of_privkv_warns_where_iterations_run_out_and_of_keys_without_a_report() -> None:
    counts = np.array([[5, 3, 2], [0, 0, 0], [1, 8, 1]])
    question = counted(asked(PrivKV(1.0, 3)), counts, users=20)
    short = privkv_em(question, precision=1e-12, max_iterations=3)
    assert not short.converged
    assert short.n_iterations == 3
    assert len(short.log_likelihoods) == 3
    assert any("2 keys have not converged" in warning for warning in short.warnings)
    for estimate in (privkv_em(question), key_value(question), privkv_mle(question)):
        assert estimate.converged
        assert estimate.warnings == ("1 keys have no report at all: nothing is known of them",)
        assert np.isfinite(estimate.frequencies).all()
        assert np.isfinite(estimate.key_means).all()


def log_likelihood(f: Any, m: Any, counts: NDArray[np.int64], p1: float, p2: float) -> Any:
    """Of one key's counts, with m on [-1, 1], as a person with the key or without sends them."""
    plus, q1 = (1 + m) / 2, 1 - p1
    says_plus = f * p1 * (plus * p2 + (1 - plus) * (1 - p2)) + (1 - f) * q1 / 2
    says_minus = f * p1 * (plus * (1 - p2) + (1 - plus) * p2) + (1 - f) * q1 / 2
    absent = f * q1 + (1 - f) * p1
    return counts[0] * np.log(absent) + counts[1] * np.log(says_plus) + counts[2] * np.log(says_minus)


@reproducibly
@given(
    counts=st.tuples(*[st.one_of(st.just(0), st.integers(0, 2000))] * 3).filter(any),
    epsilon=st.floats(0.05, 10.0),
    key_share=st.sampled_from([0.1, 0.5, 0.9]),
)
def test_no_frequency_and_mean_are_likelier_than_privkvs_maximum(
    counts: tuple[int, int, int], epsilon: float, key_share: float
) -> None:
    mechanism = PrivKV(epsilon, 2, key_share=key_share)
    p1, p2 = mechanism.probabilities
    observed = np.array([counts, (0, 0, 0)])
    frequencies, means = privkv_maximum_likelihood(observed, mechanism)
    assert (frequencies[1], means[1]) == (0.0, 0.5)
    assert 0.0 <= frequencies[0] <= 1.0
    assert 0.0 <= means[0] <= 1.0
    best = log_likelihood(frequencies[0], 2 * means[0] - 1, observed[0], p1, p2)
    f, m = np.meshgrid(np.linspace(0, 1, 101), np.linspace(-1, 1, 101))
    rounding = 1e-12 * (abs(best) + 1.0)
    assert log_likelihood(f, m, observed[0], p1, p2).max() <= best + rounding
    # And closer by than the grid sees.
    for df, dm in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3), (1e-3, 1e-3), (-1e-3, 1e-3)):
        near_f, near_m = np.clip(frequencies[0] + df, 0, 1), np.clip(2 * means[0] - 1 + dm, -1, 1)
        assert log_likelihood(near_f, near_m, observed[0], p1, p2) <= best + rounding


@pytest.mark.parametrize("key_share", [0.3, 0.5])
def test_privkvs_maximum_of_expected_counts_is_the_truth(key_share: float) -> None:
    mechanism = PrivKV(2.0, 3, key_share=key_share)
    x, f = (MEANS + 1) / 2, FREQUENCIES
    states = np.column_stack((f * x, f * (1 - x), (1 - f) / 2, (1 - f) / 2)) / 3
    question = expected([mechanism], states.ravel(), 10**12)
    estimate = privkv_mle(question)
    # Counts are whole numbers of some 1e10: a relative 1e-10, times the inverse of the channel.
    np.testing.assert_allclose(estimate.frequencies, f, atol=1e-8)
    np.testing.assert_allclose(estimate.key_means, 10 * MEANS, atol=1e-6)


@pytest.mark.parametrize("epsilons", [(1.5,), (0.5, 4.0)], ids=["one service", "two services"])
@pytest.mark.parametrize("padding", [1, 2])
@pytest.mark.parametrize("kind", [PCKVGRR, PCKVUE])
def test_em_of_expected_counts_is_the_truth(kind: Any, padding: int, epsilons: tuple[float, ...]) -> None:
    """EM's maximum is the unbiased estimate wherever that is inside: as many equations as unknowns."""
    pairs = np.column_stack((1 + MEANS, 1 - MEANS)) / 2 * (FREQUENCIES / 2)[:, None] / padding
    weights = np.append(pairs.ravel(), 1 - pairs.sum())
    question = expected([kind(epsilon, 3, padding=padding) for epsilon in epsilons], weights, 10**9)
    # A gain below 1e-6 of 1e9 reports leaves weights at most about sqrt(1e-6 / 1e9) / curvature off: 1e-5.
    estimate = pckv_em(question, tolerance=1e-6, max_iterations=200_000)
    assert estimate.converged
    np.testing.assert_allclose(estimate.frequencies, FREQUENCIES / 2, atol=1e-5)
    np.testing.assert_allclose(estimate.key_means, 10 * MEANS, atol=1e-3)
    assert estimate.details["no_key"] == pytest.approx(1 - pairs.sum(), abs=1e-5)
    assert ("likelihood" in estimate.details) == (kind is PCKVUE)


def test_em_of_expected_counts_of_privkv_is_the_truth_whatever_the_services() -> None:
    states = np.column_stack((FREQUENCIES * (1 + MEANS) / 2, FREQUENCIES * (1 - MEANS) / 2))
    weights = np.column_stack((states, np.repeat((1 - FREQUENCIES)[:, None] / 2, 2, axis=1))).ravel() / 3
    question = expected([PrivKV(0.5, 3), PrivKV(4.0, 3)], weights, 10**9)
    estimate = privkv_em(question, precision=1e-9, max_iterations=200_000)
    np.testing.assert_allclose(estimate.frequencies, FREQUENCIES, atol=1e-4)
    np.testing.assert_allclose(estimate.key_means, 10 * MEANS, atol=1e-2)


def test_em_and_mixture_reduction_of_pckv_pm_recover_what_people_have() -> None:
    pairs = np.zeros((3, 8))
    pairs[0, 1], pairs[0, 3], pairs[1, 7], pairs[2, 4] = 0.1, 0.15, 0.1, 0.15
    question = expected([PCKVPM(3.0, 3)], np.append(pairs.ravel(), 0.5), 10**9)
    estimate = pckv_em(question, tolerance=1e-3, max_iterations=50_000)
    means = 20 * np.array([0.1 * 1.5 + 0.15 * 3.5, 0.1 * 7.5, 0.15 * 4.5]) / 8 / pairs.sum(axis=1) - 10
    # The likelihood of buckets is flat: its gain bounds what is left to about 1e-3 of a share.
    np.testing.assert_allclose(estimate.frequencies, [0.25, 0.1, 0.15], atol=1e-3)
    np.testing.assert_allclose(estimate.key_means, means, atol=0.05)
    assert estimate.details["likelihood"].startswith("composite")
    # So many reports leave no weight to noise but zeros, which windows of them keep at zero.
    reduced = pckv_mr(question, tolerance=1e-3, max_iterations=50_000)
    np.testing.assert_allclose(reduced.frequencies, [0.25, 0.1, 0.15], atol=1e-3)
    np.testing.assert_allclose(reduced.key_means, means, atol=0.05)
    assert all(stages[0] == 8 and len(stages) > 1 for stages in reduced.details["components"])


@pytest.mark.parametrize(
    ("mechanism", "estimators"),
    [
        (PrivKV(1.0, 3), [key_value, privkv_em, privkv_mle]),
        (PrivKVM(1.0, 3), [key_value, privkv_em, privkv_mle, privkvm]),
        (PCKVGRR(1.0, 3), [key_value, pckv_em]),
        (PCKVUE(1.0, 3, padding=2), [key_value, pckv_em]),
        (PCKVPM(1.0, 3), [key_value, pckv_em, pckv_mr]),
    ],
)
def test_people_without_any_pair_give_numbers_within_their_ranges(
    mechanism: KeyValueMechanism, estimators: list[Callable[..., Estimate]]
) -> None:
    for people, estimator in itertools.product((1, 5, 1000), estimators):
        nobody = KeyValuePairs(np.zeros(people + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
        question = question_of(asked(mechanism), nobody, 3)
        estimate = estimator(question)
        assert estimate.estimator == estimator.__name__
        assert estimate.reports == estimate.users == people
        assert estimate.distribution is None
        assert estimate.frequencies.shape == estimate.key_means.shape == (3,)
        assert np.isfinite(estimate.frequencies).all()
        assert (np.abs(estimate.key_means) <= 10.0).all()
        if people == 1000 and estimator is not privkv_em:
            # The widest is PrivKV's, of 333 reports a key: sqrt(p q / 333) / (2p - 1) = 0.11 a deviation.
            assert estimate.frequencies.max() < 0.45

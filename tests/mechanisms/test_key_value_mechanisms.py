"""Mechanisms for keys with values: budgets, estimates, and which reports they accept."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest
from cases import PEOPLE, largest_ratio, likelihoods, pairs_of
from numpy.typing import NDArray
from scipy import stats

import ldpbeam.mechanisms.key_values.pckv_slots as pckv_slots
from ldpbeam.mechanisms.key_values.mechanism import KeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.key_values.pckv_slots import PCKVUE, SlotsKeyValueMechanism
from ldpbeam.mechanisms.key_values.privkv import PrivKV, PrivKVM

Floats = NDArray[np.float64]
N = 40_000


def worst_ratio(mechanism: KeyValueMechanism, resolution: int, *fakes: float) -> float:
    """The largest ratio of any whole report's chances between any two people, for the worst of the means."""
    chances = [likelihoods(mechanism, resolution, resolution, fake) for fake in fakes or (0.5,)]
    return max(largest_ratio(found) for found in chances)


def test_privkv_spends_less_than_epsilon_and_later_rounds_all_of_it() -> None:
    for epsilon, key_share in itertools.product((0.1, 1.0, 4.0), (0.2, 0.5, 0.8)):
        eps1, eps2 = key_share * epsilon, (1 - key_share) * epsilon
        p2 = math.exp(eps2) / (1 + math.exp(eps2))
        ratio = worst_ratio(PrivKV(epsilon, 2, key_share=key_share), 1)
        assert ratio == pytest.approx(max(math.exp(eps1) * 2 * p2, math.exp(eps2)), rel=1e-9)
        assert ratio < math.exp(epsilon)
        later = PrivKVM(epsilon, 2, key_share=key_share, round=2)
        assert worst_ratio(later, 1, 0.0, 0.3, 1.0) == pytest.approx(math.exp(epsilon), rel=1e-9)


@pytest.mark.parametrize("means", [np.array([0.0, 0.7, 1.0]), np.array([0.5, 0.5, 0.5])])
def test_a_later_round_draws_missing_values_from_the_means(means: Floats) -> None:
    mechanism = PrivKVM(2.0, 3, round=3)
    reports = mechanism.perturb_with(pairs_of([PEOPLE[1]] * N), means, np.random.default_rng(3))
    weights = np.zeros((3, 4))
    for key, mean in enumerate(means):
        x, missing = (0.3, 0) if key == 1 else (mean, 2)
        weights[key, missing : missing + 2] = x / 3, (1 - x) / 3
    expected = mechanism.channel(1, 1).dense() @ weights.ravel()
    assert stats.chisquare(np.bincount(reports, minlength=9), N * expected).pvalue > 1e-4


def test_exactly_the_reports_of_pckv_ue_are_accepted() -> None:
    mechanism = PCKVUE(1.0, 3)
    every = np.arange(2**16, dtype="<u2").view(mechanism.payload_dtype)
    accepted = every[mechanism.is_report(every)]
    assert len(accepted) == 27
    assert sorted(mechanism.bucketise(accepted, 1)) == list(range(27))
    # +1 for keys 0 and 2 as the low bits of the first byte, -1 for key 1 in the second.
    assert mechanism.is_report(np.frombuffer(b"\x05\x02", mechanism.payload_dtype)).all()
    assert mechanism.bucketise(np.frombuffer(b"\x05\x02", mechanism.payload_dtype), 1) == [1 * 9 + 2 * 3 + 1]
    wide = PCKVUE(1.0, 9)
    assert wide.payload_dtype.itemsize == 4
    assert wide.is_report(np.frombuffer(b"\xff\x01\x00\x00", wide.payload_dtype)).all()
    for wrong in (b"\xff\x02\x00\x00", b"\x00\x00\x00\x80", b"\x01\x00\x01\x00", b"\x00\x01\x00\x01"):
        assert not wide.is_report(np.frombuffer(wrong, wide.payload_dtype)).any()


def test_what_no_client_of_pckv_pm_can_send_is_refused() -> None:
    mechanism = PCKVPM(1.0, 3)
    C = mechanism.piecewise.bound

    def accepts(present: int, *values: float) -> bool:
        payload = np.frombuffer(struct.pack("<B3f", present, *values), mechanism.payload_dtype)
        return bool(mechanism.is_report(payload)[0])

    assert accepts(0, 0.0, 0.0, 0.0)
    assert accepts(5, C, 0.0, -C)
    assert accepts(2, 0.0, 0.0, 0.0)
    assert not accepts(8, 0.0, 0.0, 0.0)
    assert not accepts(5, 1.0, 1.0, 1.0)
    assert not accepts(0, 0.0, -0.0, 0.0)
    for wrong in (math.nan, math.inf, -math.inf, 1.001 * C, -1.001 * C):
        assert not accepts(1, wrong, 0.0, 0.0)


@pytest.mark.parametrize("kind", [PCKVUE, PCKVPM])
def test_counting_in_blocks_changes_nothing(
    kind: type[SlotsKeyValueMechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = kind(1.0, 5)
    reports = mechanism.perturb(pairs_of([{}, {2: 0.1}] * 50), np.random.default_rng(6))
    whole = mechanism.histogram(reports, 4)
    monkeypatch.setattr(pckv_slots, "BLOCK_SLOTS", 17)
    np.testing.assert_array_equal(mechanism.histogram(reports, 4), whole)
    again = mechanism.perturb(pairs_of([{}, {2: 0.1}] * 50), np.random.default_rng(6))
    assert again.shape == reports.shape
    assert mechanism.is_report(again).all()


def test_whole_reports_of_many_keys_have_no_cells() -> None:
    assert PCKVUE(1.0, 12).cells(1) == 3**12
    assert PCKVPM(1.0, 2).cells(1023) == 2**20
    for mechanism in (PCKVUE(1.0, 13), PCKVPM(1.0, 2)):
        with pytest.raises(ValueError, match="cannot be joined"):
            mechanism.cells(1024)
        with pytest.raises(ValueError, match="cannot be joined"):
            mechanism.channel(8, 1024)


@pytest.mark.parametrize("padding", [1, 3])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_key_values_of_expected_counts_are_the_truth(epsilon: float, padding: int) -> None:
    """The estimators are linear inside their clips: exact where counts are what they are expected to be."""
    n, x = 10**6, np.array([0.8, 0.25, 0.5])
    frequencies = np.array([0.3, 0.1, 0.2])
    for mechanism in (PCKVGRR(epsilon, 3, padding=padding), PCKVUE(epsilon, 3, padding=padding)):
        pairs = np.column_stack((x, 1 - x)) * (frequencies / padding)[:, None]
        weights = np.append(pairs.ravel(), 1 - pairs.sum())
        histogram = mechanism.histogram_channel(1, 1).matvec(weights) * n * (3 if mechanism.composite else 1)
        found = mechanism.key_values(histogram, n)
        np.testing.assert_allclose(found, (frequencies, x), rtol=1e-9)
        np.testing.assert_allclose(mechanism.key_values_of(weights), (frequencies, x), rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_pckv_pm_s_key_values_are_off_by_the_resolution_only(epsilon: float) -> None:
    n, buckets, resolution = 10**6, 10, 256
    frequencies, chosen = np.array([0.3, 0.1, 0.2]), np.array([8, 2, 5])
    pairs = np.zeros((3, buckets))
    pairs[np.arange(3), chosen] = frequencies
    weights = np.append(pairs.ravel(), 1 - pairs.sum())
    mechanism = PCKVPM(epsilon, 3)
    histogram = mechanism.histogram_channel(buckets, resolution).matvec(weights) * n * 3
    found = mechanism.key_values(histogram, n)
    np.testing.assert_allclose(found[0], frequencies, rtol=1e-9)
    # Either end of the band moves a bucket's mean from its middle: by less than the step of the density times
    # width^2 / 8 on the scale of v, half of it on that of x.
    s, C = math.exp(epsilon / 2), mechanism.piecewise.bound
    step = s * (s - 1) / (2 * (s + 1)) * (1 - 1 / s**2)
    off = 2 * step * (2 * C / resolution) ** 2 / 8 / 2
    np.testing.assert_allclose(found[1], (chosen + 0.5) / buckets, atol=off)
    np.testing.assert_allclose(mechanism.key_values_of(weights)[1], (chosen + 0.5) / buckets, rtol=1e-12)


@pytest.mark.parametrize("key_share", [0.3, 0.5])
def test_privkv_s_frequency_is_unbiased_and_its_mean_leans_to_the_middle(key_share: float) -> None:
    f, x = np.array([0.3, 0.9, 0.0]), np.array([0.8, 0.25, 0.5])
    mechanism = PrivKV(2.0, 3, key_share=key_share)
    states = np.column_stack((f * x, f * (1 - x), (1 - f) / 2, (1 - f) / 2)) / 3
    histogram = mechanism.channel(1, 1).matvec(states.ravel()) * 10**6
    frequencies, means = mechanism.key_values(histogram, 10**6)
    np.testing.assert_allclose(frequencies, f, atol=1e-12)
    p1 = 1 / (1 + math.exp(-2.0 * key_share))
    real = f * p1 / (f * p1 + (1 - f) * (1 - p1))
    np.testing.assert_allclose(means, 0.5 + real * (x - 0.5), rtol=1e-9)
    np.testing.assert_allclose(mechanism.key_values_of(states.ravel()), (f, x), rtol=1e-12)


def test_a_key_without_a_report_is_absent_with_the_middle_as_mean() -> None:
    frequencies, means = PrivKV(1.0, 2).key_values(np.array([0, 0, 0, 5, 3, 2]), 10)
    assert (frequencies[0], means[0]) == (pytest.approx(0.0, abs=1e-12), 0.5)
    for mechanism in (PCKVGRR(1.0, 2), PCKVUE(1.0, 2), PCKVPM(1.0, 2)):
        counts = np.zeros(mechanism.histogram_cells(4), dtype=np.int64)
        frequencies, means = mechanism.key_values(counts, 10)
        # As published: a frequency is clipped to one person.
        assert frequencies.tolist() == [0.1, 0.1]
        assert means.tolist() == [0.5, 0.5]


def test_a_later_round_says_that_it_needs_means() -> None:
    with pytest.raises(ValueError, match="needs the means that round 1 found"):
        PrivKVM(1.0, 2, round=2).perturb(pairs_of([{}]), np.random.default_rng(7))

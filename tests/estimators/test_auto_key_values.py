"""``auto`` for keys with values: its unbiased parts and its priors against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from support.asked import attribute_of, question_of

from ldpbeam import Attribute, Numeric
from ldpbeam.domains import KeyValuePairs, KeyValues
from ldpbeam.estimators.auto.dispatch import auto
from ldpbeam.estimators.auto.key_values import (
    CENTRES,
    SPREADS,
    KeyReports,
    auto_keys,
    frequencies_of,
    key_reports,
    means_of,
)
from ldpbeam.estimators.auto.share_likelihood import Supports
from ldpbeam.mechanisms.key_values.mechanism import KeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.key_values.pckv_slots import PCKVUE
from ldpbeam.mechanisms.key_values.privkv import PrivKV, PrivKVM
from ldpbeam.trials.populations import people_of

UNIT = Numeric(-1.0, 1.0)
FREQUENCIES, MEANS = np.array([0.5, 0.3, 0.1, 0.02]), np.array([0.6, -0.4, 0.2, 0.5])


def asked(size: int, *mechanisms: KeyValueMechanism) -> Attribute:
    return attribute_of(KeyValues(tuple(map(str, range(size))), UNIT), *mechanisms, buckets=16)


MECHANISMS = [
    PrivKV(2.0, 4), PCKVGRR(2.0, 4, padding=3), PCKVUE(2.0, 4, padding=3), PCKVPM(2.0, 4, padding=3),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_sums_are_unbiased_and_have_their_variances(mechanism: KeyValueMechanism) -> None:
    found, present = [], []
    # At most three keys each: a person with more than the padding would count less.
    frequencies = np.append(FREQUENCIES[:3], 0.0)
    for seed in range(60):
        people = people_of(frequencies, MEANS, 1_000, np.random.default_rng(seed))
        question = question_of(asked(4, mechanism), people, 100 + seed)
        parts = key_reports(mechanism.key_sums(question.statistic.histograms[0], 1_000))
        found.append([parts.sums, parts.variances])
        own = parts.present
        present.append((own.supports / own.reports)[:, 0] - own.q)
    sums, variances = np.array(found).transpose(1, 0, 2)
    error = sums.std(axis=0, ddof=1) / math.sqrt(60)
    assert (np.abs(sums.mean(axis=0) - frequencies * MEANS) < 3.5 * error).all()
    # Of 60 draws, a variance is within half of itself, by more than three of its standard errors.
    np.testing.assert_allclose(sums.var(axis=0, ddof=1), variances.mean(axis=0), rtol=0.6)
    shares = np.array(present) / (own.p - own.q)
    error = shares.std(axis=0, ddof=1) / math.sqrt(60)
    assert (np.abs(shares.mean(axis=0) - frequencies) < 3.5 * error).all()


def test_means_are_the_average_over_all_centres_and_spreads() -> None:
    sums, variances = np.array([0.3, -0.1, 0.05]), np.array([0.01, 0.02, np.inf])
    frequencies = np.array([0.5, 0.4, 0.1])
    parts = [KeyReports(Supports(np.ones((3, 1)), 10.0, 0.6, 0.2), sums, variances)]
    total, means = 0.0, np.zeros(3)
    for centre in CENTRES:
        for spread in SPREADS:
            chance = 1.0
            here = np.full(3, centre)
            for key in (0, 1):
                f, v = frequencies[key], variances[key]
                chance *= stats.norm.pdf(sums[key], f * centre, math.sqrt(v + (f * spread) ** 2))
                precision = 1 / spread**2 + f**2 / v
                here[key] = (centre / spread**2 + f * sums[key] / v) / precision
            total += chance
            means += chance * np.clip(here, -1.0, 1.0)
    np.testing.assert_allclose(means_of(parts, frequencies), means / total, rtol=1e-9)


def test_frequencies_of_many_reports_are_the_unbiased_ones_and_of_none_the_others() -> None:
    # The second lies in the middle between two of the points that all keys have.
    truth = np.array([0.05, 0.5 * (221**2 + 222**2) / 400**2, 0.32, 0.6])
    chances = 0.2 + 0.5 * truth
    many = Supports(1e9 * chances[:, None], 1e9, 0.7, 0.2)
    found, _ = frequencies_of([KeyReports(many, truth, truth)])
    # Four standard errors.
    np.testing.assert_allclose(found, truth, atol=4.0 * math.sqrt(0.25 / 1e9) / 0.5)
    known = np.array([[1e5], [1e5], [1e5], [0.0]])
    fewer = Supports(known * chances[:, None], known, 0.7, 0.2)
    found, _ = frequencies_of([KeyReports(fewer, truth, truth)])
    np.testing.assert_allclose(found[:3], truth[:3], atol=4.0 * math.sqrt(0.25 / 1e5) / 0.5)
    assert truth[:3].min() < found[3] < 0.5


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("people", [1, 500])
def test_people_without_a_key_and_one_person(mechanism: KeyValueMechanism, people: int) -> None:
    nobody = KeyValuePairs(np.zeros(people + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    found = auto_keys(question_of(asked(4, mechanism), nobody, 1))
    assert ((found.frequencies >= 0.0) & (found.frequencies <= 1.0)).all()
    assert ((found.key_means >= -1.0) & (found.key_means <= 1.0)).all()
    if people > 1:
        assert found.frequencies.max() < 0.35


def test_services_of_several_kinds_are_joined_and_rounds_are_not() -> None:
    people = people_of(FREQUENCIES, MEANS, 20_000, np.random.default_rng(3))
    both = asked(4, PrivKV(2.0, 4), PCKVUE(2.0, 4, padding=4))
    found = auto_keys(question_of(both, people, 4))
    truth = np.bincount(people.keys, minlength=4) / 20_000
    assert found.estimator == "auto"
    np.testing.assert_allclose(found.frequencies, truth, atol=0.04)
    rounds = auto(question_of(asked(4, PrivKVM(2.0, 4)), people, 5))
    assert (rounds.estimator, rounds.details["chosen"]) == ("auto", "privkvm")

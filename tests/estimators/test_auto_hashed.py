"""All counts of hashed reports: unbiased, as exact as they say, and more exact than supports."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from support.asked import attribute_of, categories, question_of

from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.auto.hashed_supports import with_all_counts
from ldpbeam.estimators.auto.share_likelihood import Likelihood, likelihood_of
from ldpbeam.mechanisms import LocalHashing, Mechanism, RandomisedResponse

SHARES = np.array([0.5, 0.3, 0.1, 0.05, 0.02, 0.02, 0.01, 0.0])
PEOPLE, RUNS = 2_000, 400


def drawn(rng: np.random.Generator, *mechanisms: Mechanism) -> Question:
    attribute = attribute_of(categories(len(SHARES)), *mechanisms)
    return question_of(attribute, rng.choice(len(SHARES), PEOPLE, p=SHARES), rng)


def told(likelihood: Likelihood) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(the shares that the first service's supports tell, their variances)."""
    part = likelihood.parts[0]
    shares = (part.supports[:, 0] / part.reports - part.q) / (part.p - part.q)
    return shares, 1.0 / part.information(SHARES)


def test_one_step_is_unbiased_and_as_exact_as_it_says_and_more_exact_than_supports() -> None:
    rng = np.random.default_rng(5)
    olh = LocalHashing(3.0, size=len(SHARES), seeds=64)
    plain, scored, said = [], [], []
    for _ in range(RUNS):
        question = drawn(rng, olh)
        likelihood = likelihood_of(question)
        sharper = with_all_counts(question, likelihood, SHARES)
        plain.append(told(likelihood)[0])
        scored.append(told(sharper)[0])
        said.append(told(sharper)[1].sum())
    errors = np.array(scored) - SHARES
    # A share that is cut off at no supports would be biased: none is.
    deviations = errors.std(axis=0, ddof=1)
    assert np.abs(errors.mean(axis=0) / deviations).max() * math.sqrt(RUNS) < 4.0
    squared = (errors**2).sum(axis=1)
    standard_error = squared.std(ddof=1) / math.sqrt(RUNS)
    assert squared.mean() == pytest.approx(np.mean(said), abs=4.0 * standard_error)
    # In pairs, because both have the same reports: at least 3% nearer by far more than chance.
    gains = ((np.array(plain) - SHARES) ** 2).sum(axis=1) - squared
    assert gains.mean() - 4.0 * gains.std(ddof=1) / math.sqrt(RUNS) > 0.03 * squared.mean()


def test_a_seed_that_does_not_tell_categories_apart_has_an_answer() -> None:
    attribute = attribute_of(categories(20), LocalHashing(5.0, size=20, seeds=1))
    question = question_of(attribute, np.arange(600) % 20, 1)
    found = estimate("auto", attribute, question.statistic).distribution
    assert found is not None and found.sum() == pytest.approx(1.0)


def test_only_services_with_counts_by_seed_and_hash_change() -> None:
    size = len(SHARES)
    rng = np.random.default_rng(6)
    grr, any_seed = RandomisedResponse(1.0, size=size), LocalHashing(1.0, size=size, seeds="any")
    question = drawn(rng, grr, any_seed)
    assert with_all_counts(question, likelihood_of(question), SHARES) is None
    question = drawn(rng, grr, LocalHashing(1.0, size=size, seeds=64))
    before = likelihood_of(question)
    after = with_all_counts(question, before, SHARES)
    assert after.parts[0] is before.parts[0]
    assert after.parts[1] is not before.parts[1]


def test_too_large_a_family_keeps_its_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    question = drawn(np.random.default_rng(7), LocalHashing(1.0, size=len(SHARES), seeds=64))
    monkeypatch.setattr("ldpbeam.estimators.auto.hashed_supports.MOST_ENTRIES", 64 * 4 * len(SHARES) - 1)
    assert with_all_counts(question, likelihood_of(question), SHARES) is None

"""All places without a name: their interval holds, and no estimate takes each for one that people have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldpbeam.answers.child import compute
from ldpbeam.domains import Candidates
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, tally

PLACES, PEOPLE, RUNS = 16, 2_000, 200
SHARES = np.zeros(PLACES)
SHARES[[0, 1, 5, 2, 3]] = (0.5, 0.2, 0.1, 0.15, 0.05)
NAMED = Candidates.named(PLACES, {0: "tea", 1: "rum", 5: "gin"})


@pytest.mark.parametrize(
    "mechanism", ["grr", "oue", "sue", "subset_selection", "hadamard", "olh", "block_hadamard"]
)
def test_the_interval_of_others_holds_and_does_not_add_up_needless_noise(mechanism: str) -> None:
    study = parse_study(
        f"study: s\nusers: none\nattributes: {{x: {{domain: {{categories: {PLACES}}}, services: "
        f"{{a: {{mechanism: {mechanism}, epsilon: 2}}}}, estimates: {{raw: {{estimator: inversion}}}}}}}}"
    )
    plain, wanted = study.attribute("x"), study.described("x").estimates["raw"]
    attribute, client = plain.with_domain(NAMED), plain.versions[0].mechanism
    held, widths = np.zeros(4), np.zeros(4)
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        values = rng.choice(PLACES, PEOPLE, p=SHARES)
        statistic = tally(plain, PEOPLE, [Answers(0, np.arange(PEOPLE), client.perturb(values, rng))])
        statistic = replace(statistic, fingerprint=attribute.fingerprint)
        answer = compute(StatisticIntervals(attribute, statistic), wanted)
        truth = NAMED.of_names(np.bincount(values, minlength=PLACES) / PEOPLE)
        assert answer.intervals is not None
        low, high = answer.intervals.ends["certain"]["frequencies"].columns.T
        held += (low <= truth) & (truth <= high)
        widths += (high - low) / RUNS
    # Four standard errors of a share of 200 runs at 95%.
    assert (held / RUNS > 0.95 - 4 * (0.95 * 0.05 / RUNS) ** 0.5).all()
    if mechanism in ("grr", "subset_selection", "hadamard"):
        # Their shares sum to one, so others have no more noise than three names.
        assert widths[3] < 1.05 * np.sqrt((widths[:3] ** 2).sum())


@pytest.mark.parametrize("mechanism", ["grr", "oue", "olh", "olh, seeds: any", "hadamard", "block_hadamard"])
def test_free_places_do_not_add_up_to_shares_that_nobody_has(mechanism: str) -> None:
    places, people, runs, true = 100, 5_000, 20, (0.5, 0.25, 0.15, 0.1)
    named = Candidates.named(places, {0: "tea", 1: "rum", 2: "gin"})
    study = parse_study(
        f"study: s\nusers: none\nintervals: false\nattributes: {{x: {{domain: {{categories: {places}}}, "
        f"services: {{a: {{mechanism: {mechanism}, epsilon: 2}}}}}}}}"
    )
    plain, (wanted,) = study.attribute("x"), study.described("x").estimates.values()
    attribute, client = plain.with_domain(named), plain.versions[0].mechanism
    of_names, of_places = [], []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        values = rng.choice(len(true), people, p=true)
        statistic = tally(plain, people, [Answers(0, np.arange(people), client.perturb(values, rng))])
        answer = compute(StatisticIntervals(plain, statistic), wanted).distribution
        assert answer is not None
        of_places.append(answer[3:].sum() - true[3])
        statistic = replace(statistic, fingerprint=attribute.fingerprint)
        answer = compute(StatisticIntervals(attribute, statistic), wanted).distribution
        assert answer is not None and answer.sum() == pytest.approx(1.0)
        of_names.append(answer[3] - true[3])
    # Where each place may have a share of its own, others get several hundredths too much.
    error = np.std(of_names, ddof=1) / np.sqrt(runs)
    assert abs(np.mean(of_names)) < 0.01 + 4 * error
    assert np.mean(of_places) > 0.03
    assert np.square(of_names).mean() < 0.5 * np.square(of_places).mean()


def test_a_place_that_is_the_only_one_without_a_name_is_a_category_as_others_are() -> None:
    study = parse_study(
        "study: s\nusers: none\nintervals: false\nattributes: {x: {domain: {categories: 5}, "
        "services: {a: {mechanism: oue, epsilon: 1}}}}"
    )
    plain, (wanted,) = study.attribute("x"), study.described("x").estimates.values()
    attribute = plain.with_domain(Candidates.named(5, {0: "tea", 1: "rum", 2: "gin", 3: "ale"}))
    rng = np.random.default_rng(0)
    reports = plain.versions[0].mechanism.perturb(rng.choice(5, PEOPLE, p=(0.4, 0.3, 0.1, 0.1, 0.1)), rng)
    statistic = tally(plain, PEOPLE, [Answers(0, np.arange(PEOPLE), reports)])
    expected = compute(StatisticIntervals(plain, statistic), wanted).distribution
    statistic = replace(statistic, fingerprint=attribute.fingerprint)
    np.testing.assert_array_equal(
        compute(StatisticIntervals(attribute, statistic), wanted).distribution, expected
    )


def test_shares_of_names_are_at_their_places_and_others_at_the_first_free_one() -> None:
    names = Candidates.named(5, {3: "tea", 0: "rum"})
    np.testing.assert_array_equal(names.at_places(np.array([0.5, 0.2, 0.3])), [0.5, 0.3, 0.0, 0.2, 0.0])
    np.testing.assert_array_equal(names.of_names(names.at_places(np.array([0.5, 0.2, 0.3]))), [0.5, 0.2, 0.3])
    every = Candidates.named(2, {0: "tea", 1: "rum"})
    np.testing.assert_array_equal(every.at_places(np.array([0.5, 0.5])), [0.5, 0.5])

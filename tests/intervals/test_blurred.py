"""Blurred shares, which tell two distributions apart whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from support.asked import attribute_of, question_of

import ldpbeam as ldp
from ldpbeam.answers.difference import BLURRED, FALSE_ALARMS, comparison
from ldpbeam.answers.named_numbers import normal_quantile
from ldpbeam.certainty import BlurredShares
from ldpbeam.domains import Floats, Numeric
from ldpbeam.intervals.blurred import PLACES, blurred_shares
from ldpbeam.mechanisms import build_mechanism

DAYS = Numeric(0.0, 10.0)
Draw = Callable[[np.random.Generator], Floats]


def of_people(mechanism: str, epsilon: float, people: Floats, seed: int) -> BlurredShares:
    attribute = attribute_of(DAYS, build_mechanism(mechanism, DAYS, epsilon), buckets=64)
    (found,) = blurred_shares(question_of(attribute, people, seed)).values()
    return found


def told_apart(mechanism: str, epsilon: float, draws: tuple[Draw, Draw], runs: int) -> list[list[int]]:
    """The places at which each run has a difference beyond the error."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        one, two = (
            of_people(mechanism, epsilon, draw(rng), 1_000 + 2 * seed + side)
            for side, draw in enumerate(draws)
        )
        z = np.subtract(two.shares, one.shares) / np.hypot(one.errors, two.errors)
        found.append(np.flatnonzero(np.abs(z) > -normal_quantile(FALSE_ALARMS / 2 / len(PLACES))).tolist())
    return found


def test_equal_distributions_differ_in_at_most_one_of_twenty_pairs_whatever_they_are() -> None:
    def spikes(rng: np.random.Generator) -> Floats:
        return rng.choice(np.arange(1.0, 10.0) / 10.0, 1_000)

    for mechanism in ("square_wave", "piecewise", "laplace"):
        false = sum(map(bool, told_apart(mechanism, 1.0, (spikes, spikes), 100)))
        assert false <= 5 + 2.0 * np.sqrt(5)


def test_a_shift_is_seen_where_people_moved() -> None:
    """By whole certain intervals of quantiles it is not seen."""
    found = told_apart(
        "square_wave", 2.0, (lambda rng: rng.beta(2.0, 5.0, 2_000), lambda rng: rng.beta(2.5, 5.0, 2_000)), 20
    )
    assert np.mean(list(map(bool, found))) > 0.8
    assert all(place < 5 for places in found for place in places)


def test_they_are_nearly_shares() -> None:
    people = np.random.default_rng(1).random(100_000)
    blurred = of_people("square_wave", 4.0, people, 2)
    assert np.abs(np.subtract(blurred.shares, PLACES)).max() < 0.05
    assert blurred.at == (10.0 * PLACES).tolist()


def test_those_of_one_mechanism_are_compared_and_others_are_left_out() -> None:
    services = {"maps": {"mechanism": "square_wave", "epsilon": 2.0}}
    study = ldp.Study.from_dict(
        study="s",
        groups={"field": "side"},
        attributes={"x": {"domain": {"numeric": [0, 1]}, "services": services}},
    )
    rng, people = np.random.default_rng(4), 4_000
    values = np.concatenate((rng.beta(2.0, 5.0, people), rng.beta(3.0, 5.0, people)))
    reports = ldp.Client(study, "x", "maps").reports(values, groups=np.repeat(["a", "b"], people).tolist())
    first, second = ldp.estimate(study, reports)
    of_shares = [row for row in comparison([({0: first}, {0: second})]).differences if row.family == BLURRED]
    assert of_shares[1].number == "blurred share near 0.25 (square_wave, epsilon 2.0)"
    assert of_shares[1].verdict == "lower" and not of_shares[1].flag
    assert second.intervals is not None
    (blurred,) = second.intervals.blurred.values()
    other = replace(
        second, intervals=replace(second.intervals, blurred={"square_wave, epsilon 1.0": blurred})
    )
    compared = comparison([({0: first}, {0: other})])
    assert not compared.unlike and not any(row.family == BLURRED for row in compared.differences)

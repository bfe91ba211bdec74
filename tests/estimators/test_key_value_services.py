"""Several services of keys with values: how each is weighted, and which of them fit together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.asked import attribute_of, counted

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion
from ldpbeam.domains import KeyValues
from ldpbeam.estimators import Question
from ldpbeam.estimators.key_values.key_value import check_key_value, key_value
from ldpbeam.estimators.key_values.pckv import check_pckv_em, check_pckv_mr
from ldpbeam.estimators.key_values.privkv import check_privkv_em, check_privkv_mle, check_privkvm, privkvm
from ldpbeam.mechanisms import Mechanism, Piecewise, RandomisedResponse
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.key_values.pckv_slots import PCKVUE
from ldpbeam.mechanisms.key_values.privkv import PrivKV, PrivKVM
from ldpbeam.statistics import Answers, empty, tally
from ldpbeam.trials.populations import people_of

DOMAIN = KeyValues(("a", "b", "c"), Numeric(-10.0, 10.0))
FOUR = KeyValues(("a", "b", "c", "d"), Numeric(-10.0, 10.0))


def asked(*mechanisms: Mechanism, buckets: int = 8, domain: Any = DOMAIN) -> Attribute:
    return attribute_of(domain, *mechanisms, buckets=buckets)


def test_several_services_are_weighted_by_their_precision() -> None:
    attribute, rng = asked(PCKVGRR(1.0, 3), PCKVUE(2.0, 3)), np.random.default_rng(5)
    people = people_of(np.array([0.25, 0.1, 0.15]), np.array([-0.6, 0.8, 0.1]), 6000, rng)
    answers = [
        Answers(0, np.arange(2000), PCKVGRR(1.0, 3).perturb(people[np.arange(2000)], rng)),
        Answers(1, np.arange(6000), PCKVUE(2.0, 3).perturb(people, rng)),
    ]
    statistic = tally(attribute, 6000, answers)
    both, first, second = (
        key_value(Question(attribute, statistic, services)) for services in (("s0", "s1"), ("s0",), ("s1",))
    )
    # (a, b, 2p - 1) of three keys and a dummy at epsilon 1, and of a slot at epsilon 2; a key that nobody has
    # is reported with b.
    E, F = math.e, math.exp(2.0)
    constants = (
        (2000, (E + 1) / (E + 7), 2 / (E + 7), (E - 1) / (E + 1)),
        (6000, 0.5, 2 / (F + 3), (F - 1) / (F + 1)),
    )
    weights = {
        "frequencies": [n * (a - b) ** 2 / (b * (1 - b)) for n, a, b, _ in constants],
        "key_means": [n * (a * gain) ** 2 / b for n, a, b, gain in constants],
    }
    for name in ("frequencies", "key_means"):
        one, other = getattr(first, name), getattr(second, name)
        share = weights[name][0] / sum(weights[name])
        np.testing.assert_allclose(getattr(both, name), share * one + (1 - share) * other, rtol=1e-12)
    assert weights["frequencies"][0] / sum(weights["frequencies"]) < 0.1


def test_services_of_privkv_are_weighted_key_by_key() -> None:
    attribute = asked(PrivKV(1.0, 4), PrivKV(4.0, 4, key_share=0.25), domain=FOUR)
    # Of the second key only one service heard, of the third both without a sign by one; of the last neither.
    one = [[60, 20, 25], [0, 0, 0], [40, 0, 0], [0, 0, 0]]
    other = [[3, 4, 2], [5, 9, 4], [6, 3, 1], [0, 0, 0]]
    question = counted(attribute, np.array(one), np.array(other), users=182)
    statistic = question.statistic
    both = key_value(question)
    alone = [key_value(Question(attribute, statistic, (name,))) for name in attribute.services]
    for key in range(3):
        precisions = []
        for (key_epsilon, sign_epsilon), counts in (((0.5, 0.5), one[key]), ((1.0, 3.0), other[key])):
            p, s = (1 / (1 + math.exp(-epsilon)) for epsilon in (key_epsilon, sign_epsilon))
            present = counts[1] + counts[2]
            precisions.append(
                (sum(counts) * (2 * p - 1) ** 2 / (p * (1 - p)), present * ((2 * s - 1) * p / (1 - p)) ** 2)
            )
        for column, name in enumerate(("frequencies", "key_means")):
            weights = [precision[column] for precision in precisions]
            expected = np.average([getattr(estimate, name)[key] for estimate in alone], weights=weights)
            assert getattr(both, name)[key] == pytest.approx(expected, rel=1e-12)
    assert both.frequencies[1] == pytest.approx(alone[1].frequencies[1], rel=1e-12)
    assert both.key_means[2] == pytest.approx(alone[1].key_means[2], rel=1e-12)
    assert both.frequencies[3] == pytest.approx(0.0, abs=1e-12)
    assert both.key_means[3] == pytest.approx(0.0, abs=1e-12)
    assert both.warnings == ("1 keys have no report at all: nothing is known of them",)


def test_privkvm_weights_frequencies_of_rounds_by_precision_and_takes_the_means_of_the_last() -> None:
    attribute = asked(PrivKVM(1.0, 3), PrivKVM(4.0, 3, round=2))
    counts = np.array([[60, 20, 20], [30, 40, 30], [50, 25, 25]])
    question = counted(attribute, counts, counts[::-1], users=300)
    estimate = privkvm(question)
    # The means are those of the last round alone, whose fakes had the means of the round before.
    last = privkvm(dataclasses.replace(question, services=("s1",)))
    np.testing.assert_array_equal(estimate.key_means, last.key_means)
    assert estimate.details["means_of_round"] == 2
    weights, shares = [], []
    for epsilon, (absent, plus, minus) in ((1.0, counts[0]), (4.0, counts[2])):
        p = 1 / (1 + math.exp(-epsilon / 2))
        share = (plus + minus) / (absent + plus + minus)
        shares.append((share - (1 - p)) / (2 * p - 1))
        weights.append((2 * p - 1) ** 2 / (p * (1 - p)))
    assert estimate.frequencies[0] == pytest.approx(np.average(shares, weights=weights))


@pytest.mark.parametrize(
    ("check", "mechanisms", "message"),
    [
        (check_key_value, [PrivKV(1.0, 3), Piecewise(1.0)], r"s1 \(piecewise\).*ems"),
        (check_privkv_em, [PCKVUE(1.0, 3)], "is not PrivKV; use pckv_em"),
        (check_privkv_mle, [PCKVGRR(1.0, 3)], "is not PrivKV; use pckv_em"),
        (
            check_privkv_mle,
            [PrivKV(1.0, 3), PrivKV(2.0, 3)],
            r"found s0 \(privkv\), s1 \(privkv\); name one service",
        ),
        (check_privkv_mle, [PrivKVM(1.0, 3, round=2)], "the first round of privkvm.*use privkvm"),
        (check_privkvm, [PrivKVM(1.0, 3), PrivKV(1.0, 3)], r"s1 \(privkv\) is not a round.*privkv_mle"),
        (check_privkvm, [PrivKVM(1.0, 3), PrivKVM(2.0, 3)], r"rounds are \[1, 1\]; they must be 1, 2"),
        (check_pckv_em, [PrivKV(1.0, 3)], "is not PCKV; use privkv_mle"),
        (check_pckv_em, [PCKVGRR(1.0, 3), PCKVUE(1.0, 3)], "different kinds.*use key_value"),
        (check_pckv_em, [PCKVGRR(1.0, 3), PCKVGRR(1.0, 3, padding=2)], "padding 1.*padding 2"),
        (check_pckv_mr, [PCKVUE(1.0, 3)], r"found s0 \(pckv_ue\); name one service, or use pckv_em"),
    ],
)
def test_checks_say_what_does_not_fit_and_what_to_use(
    check: Callable[..., None], mechanisms: list[Mechanism], message: str
) -> None:
    attribute = asked(*mechanisms)
    with pytest.raises(ValueError, match=message):
        check(attribute, attribute.services)


def test_checks_accept_what_fits() -> None:
    for check, mechanisms in (
        (check_key_value, [PrivKV(1.0, 3), PCKVPM(1.0, 3)]),
        (check_privkv_em, [PrivKV(1.0, 3), PrivKVM(1.0, 3, round=2)]),
        (check_privkv_mle, [PrivKVM(1.0, 3)]),
        (check_privkvm, [PrivKVM(1.0, 3)]),
        (check_privkvm, [PrivKVM(1.0, 3, round=2), PrivKVM(0.5, 3)]),
        (check_pckv_em, [PCKVUE(1.0, 3), PCKVUE(2.0, 3)]),
        (check_pckv_mr, [PCKVPM(1.0, 3, padding=2)]),
    ):
        attribute = asked(*mechanisms)
        check(attribute, attribute.services)
    rounds = asked(*(PrivKVM(1.0, 3, round=number) for number in (1, 2, 3)))
    # One round may be asked alone where the others are services too.
    for services in (["s0"], ["s1"], ["s2", "s0"], ["s0", "s1", "s2"]):
        check_privkvm(rounds, services)
    # A round may have versions.
    first, second = (("old", 1.0), ("new", 0.5)), ServiceVersion("s1", "", PrivKVM(1.0, 3, round=2))
    versions = *(ServiceVersion("s0", name, PrivKVM(epsilon, 3)) for name, epsilon in first), second
    check_privkvm(Attribute("rating", DOMAIN, 8, versions), ("s0", "s1"))
    numbers = asked(RandomisedResponse(1.0, 3), domain=Categories(("a", "b", "c")))
    with pytest.raises(ValueError, match="norm_sub"):
        check_key_value(numbers, numbers.services)


def test_an_empty_statistic_has_cells_for_every_slot() -> None:
    attribute = asked(PCKVUE(1.0, 3), PCKVPM(1.0, 3), PrivKV(1.0, 3))
    assert [len(histogram) for histogram in empty(attribute).histograms] == [9, 27, 9]

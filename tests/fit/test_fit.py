"""Reports that are not what a study claims are flagged, and clean ones are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion
from ldpbeam.domains import Floats, KeyValuePairs, KeyValues
from ldpbeam.fit import fit_tests, flagged, not_tested
from ldpbeam.mechanisms import (
    BlockHadamardResponse,
    CategoricalMechanism,
    HadamardRandomisedResponse,
    LocalHashing,
    Mechanism,
    Piecewise,
    PrivKV,
    RandomisedResponse,
    SquareWave,
    StochasticRounding,
)
from ldpbeam.statistics import Answers, Statistic, difference, empty, tally

USERS = 100_000
UNIT = Numeric(0.0, 1.0)
BINS = Categories(tuple(f"c{i}" for i in range(10)))
#: Nothing in fifty tests of a run is this unlikely by chance, once in two thousand runs.
NEVER = 1e-5


def attribute_of(*mechanisms: Mechanism) -> Attribute:
    versions = tuple(ServiceVersion(f"s{i}", "", mechanism) for i, mechanism in enumerate(mechanisms))
    domain = UNIT if not isinstance(mechanisms[0], RandomisedResponse | LocalHashing) else BINS
    services = tuple(version.service for version in versions) if len(versions) > 1 else ()
    return Attribute("x", domain, 256, versions, services)


def statistic_of(attribute: Attribute, *payloads: Floats) -> Statistic:
    users = len(payloads[0])
    return tally(attribute, users, [Answers(i, np.arange(users), own) for i, own in enumerate(payloads)])


def p_values(attribute: Attribute, *payloads: Floats) -> dict[tuple[str, ...], float]:
    return {test.services: test.p_value for test in fit_tests(attribute, statistic_of(attribute, *payloads))}


def people(users: int, seed: int) -> Floats:
    return np.random.default_rng(seed).beta(2, 5, users)


def one_fixed_report(reports: Floats, values: Floats) -> Floats:
    return np.where(np.arange(len(reports)) < len(reports) // 50, 0.4, reports)


def true_values(reports: Floats, values: Floats) -> Floats:
    return values


@pytest.mark.parametrize(
    ("mechanism", "wrong"),
    [
        (SquareWave(1.0), one_fixed_report),
        (Piecewise(1.0), one_fixed_report),
        (SquareWave(1.0), true_values),
        (Piecewise(1.0), true_values),
    ],
)
def test_reports_that_are_not_as_claimed_are_seen(
    mechanism: Mechanism, wrong: Callable[[Floats, Floats], Floats]
) -> None:
    values = people(USERS, 1)
    reports = wrong(mechanism.perturb(values, np.random.default_rng(1)), values)
    assert p_values(attribute_of(mechanism), reports)["s0",] < NEVER


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("mechanism", "users"),
    [
        (SquareWave(6.0), USERS),
        (Piecewise(8.0), USERS),
        (Piecewise(10.0), USERS),
        (SquareWave(3.0), 10 * USERS),
    ],
    ids=str,
)
def test_everybody_at_one_value_passes_at_large_epsilons_and_with_many_reports(
    mechanism: Mechanism, users: int, value: float
) -> None:
    reports = mechanism.perturb(np.full(users, value), np.random.default_rng(2))
    assert min(p_values(attribute_of(mechanism), reports).values()) > NEVER


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_everybody_at_an_end_is_the_same_people_at_two_services(end: float) -> None:
    mechanisms = SquareWave(6.0), StochasticRounding(6.0)
    rng, values = np.random.default_rng(2), np.full(USERS, end)
    reports = [mechanism.perturb(values, rng) for mechanism in mechanisms]
    assert p_values(attribute_of(*mechanisms), *reports)["s0", "s1"] > NEVER


@pytest.mark.parametrize("buckets", [257, 514])
def test_reports_are_tested_in_any_number_of_buckets(buckets: int) -> None:
    mechanism, rng = SquareWave(1.0), np.random.default_rng(3)
    reports = mechanism.perturb(people(USERS, 1), rng)
    attribute = Attribute("x", UNIT, buckets, (ServiceVersion("s", "", mechanism),))
    assert min(p_values(attribute, reports).values()) > NEVER
    # Two in a hundred send one report.
    reports[rng.random(USERS) < 0.02] = reports[0]
    assert max(p_values(attribute, reports).values()) < NEVER


@pytest.mark.parametrize("kind", [HadamardRandomisedResponse, BlockHadamardResponse])
def test_the_noise_of_many_categories_is_tested(kind: type[CategoricalMechanism]) -> None:
    names = Categories(tuple(map(str, range(3_000))))
    sent, read = kind(0.5, size=3_000), kind(3.0, size=3_000)
    reports = sent.perturb(np.random.default_rng(1).integers(0, 3_000, USERS), np.random.default_rng(2))
    attribute = Attribute("x", names, 1, (ServiceVersion("s", "", read),))
    assert max(p_values(attribute, reports).values()) < 0.01


def test_a_flipped_sign_is_seen_beside_another_service() -> None:
    mechanisms = SquareWave(1.0), StochasticRounding(1.0)
    values, rng = people(USERS, 4), np.random.default_rng(4)
    wave, rounding = (mechanism.perturb(values, rng) for mechanism in mechanisms)
    right = p_values(attribute_of(*mechanisms), wave, rounding)
    wrong = p_values(attribute_of(*mechanisms), wave, -rounding)
    assert right.keys() == wrong.keys() == {("s0",), ("s1",), ("s0", "s1")}
    assert min(right.values()) > 0.01
    assert wrong["s0", "s1"] < NEVER
    # Alone, each looks like reports of some distribution.
    assert min(wrong["s0",], wrong["s1",]) > 0.01


@pytest.mark.parametrize(
    "mechanisms",
    [
        (SquareWave(1.0), Piecewise(1.0)),
        (RandomisedResponse(1.0, size=10), RandomisedResponse(1.0, size=10)),
        (RandomisedResponse(2.0, size=10), LocalHashing(2.0, size=10)),
    ],
    ids=["numbers", "categories", "hashes"],
)
def test_different_people_under_one_id_are_seen(mechanisms: tuple[Mechanism, Mechanism]) -> None:
    rng = np.random.default_rng(6)
    first, second = people(USERS, 7), people(USERS, 8)
    attribute = attribute_of(*mechanisms)
    if attribute.domain == BINS:
        first, second = (np.floor(10 * values).astype(np.int64) for values in (first, second))
    one = mechanisms[0].perturb(first, rng)
    same = p_values(attribute, one, mechanisms[1].perturb(first, rng))
    different = p_values(attribute, one, mechanisms[1].perturb(second, rng))
    assert min(same.values()) > 0.01
    if isinstance(mechanisms[1], LocalHashing):
        # Neighbouring hashes have nothing in common, so these are not compared, which is said.
        assert ("s0", "s1") not in same
        assert "s1: not compared with other services" in next(not_tested(attribute))
        return
    assert different["s0", "s1"] < NEVER
    assert min(different["s0",], different["s1",]) > 0.01
    assert not list(not_tested(attribute))


def test_versions_of_a_service_are_compared_separately() -> None:
    versions = (
        ServiceVersion("a", "v1", SquareWave(1.0)),
        ServiceVersion("a", "v2", SquareWave(2.0)),
        ServiceVersion("b", "", Piecewise(1.0)),
    )
    attribute = Attribute("x", UNIT, 256, versions, ("a", "b"))
    values, rng = people(4000, 9), np.random.default_rng(9)
    half = np.arange(4000) % 2 == 0
    answers = [
        Answers(0, np.flatnonzero(half), versions[0].mechanism.perturb(values[half], rng)),
        Answers(1, np.flatnonzero(~half), versions[1].mechanism.perturb(values[~half], rng)),
        Answers(2, np.arange(4000), versions[2].mechanism.perturb(values, rng)),
    ]
    found = {test.services: test for test in fit_tests(attribute, tally(attribute, 4000, answers))}
    assert set(found) == {("a@v1",), ("a@v2",), ("b",), ("a@v1", "b"), ("a@v2", "b")}
    assert [found[key].reports for key in (("a@v1", "b"), ("a@v2", "b"), ("b",))] == [2000, 2000, 4000]
    assert min(test.p_value for test in found.values()) > 0.001


def test_the_seeds_of_hashes_must_be_drawn_evenly() -> None:
    mechanism = LocalHashing(1.0, size=10)
    values = np.floor(10 * people(USERS, 10)).astype(np.int64)
    reports = mechanism.perturb(values, np.random.default_rng(10))
    few = reports.copy()
    few["seed"][: USERS // 50] = 17
    few["hash"][: USERS // 50] = 1
    assert p_values(attribute_of(mechanism), reports)["s0",] > 0.01
    assert p_values(attribute_of(mechanism), few)["s0",] < NEVER


def test_the_keys_that_people_are_asked_for_must_be_drawn_evenly() -> None:
    mechanism, keys = PrivKV(1.0, size=10), KeyValues(tuple("abcdefghij"), UNIT)
    attribute = Attribute("x", keys, 256, (ServiceVersion("s0", "", mechanism),))
    rng = np.random.default_rng(11)
    pairs = KeyValuePairs(np.arange(USERS + 1), rng.integers(0, 10, USERS), people(USERS, 11))
    reports = mechanism.perturb(pairs, rng)
    few = reports.copy()
    # By themselves, the reports on key 3 are those of more people who have it.
    few[: USERS // 100] = 3 * 3 + 1
    assert p_values(attribute, reports)["s0",] > 0.01
    assert p_values(attribute, few)["s0",] < NEVER


def test_few_reports_and_none_are_not_tested() -> None:
    attribute = attribute_of(SquareWave(1.0), Piecewise(1.0))
    assert not list(fit_tests(attribute, empty(attribute)))
    few = np.full(49, 0.5)
    statistic = statistic_of(attribute, few, few)
    assert not list(fit_tests(attribute, statistic))
    assert not list(fit_tests(attribute, difference(statistic, statistic)))


def test_a_test_gives_the_same_bits_every_time() -> None:
    attribute = attribute_of(SquareWave(1.0), Piecewise(0.5))
    values, rng = people(3000, 11), np.random.default_rng(11)
    reports = [version.mechanism.perturb(values, rng) for version in attribute.versions]
    # Borderline, so that the p-value comes from draws.
    reports[0][:25] = 0.4
    statistic = statistic_of(attribute, *reports)
    assert list(fit_tests(attribute, statistic)) == list(fit_tests(attribute, statistic))


def test_holm_flags_each_p_value_below_the_limit_of_those_left() -> None:
    assert flagged([]) == []
    assert flagged([0.01]) == [True]
    assert flagged([0.0101]) == [False]
    assert flagged([0.5, 0.001, 0.0049, 0.9]) == [False, True, False, False]
    # The second is compared with 1% of the three tests that are left after the first.
    assert flagged([0.0033, 0.0, 0.9, 0.9]) == [True, True, False, False]
    assert flagged([0.02, 0.04], false_alarms=0.05) == [True, True]
    assert flagged([0.0] * 5) == [True] * 5

"""``auto``: it answers for every mechanism, and it is what a study that names no estimator asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.forced_responses import forced_responses

from ldpbeam import Answers, Attribute, Categories, Numeric, ServiceVersion, tally
from ldpbeam.domains import Domain, KeyValuePairs, KeyValues
from ldpbeam.estimators import estimate as estimate_of
from ldpbeam.mechanisms import Mechanism, build_mechanism, registered_mechanisms
from ldpbeam.schemas.study.yaml_file import parse_study

NUMBERS = Numeric(0.0, 180.0)
COLOURS = Categories(("red", "green", "blue", "grey"))
KEYS = KeyValues(("milk", "bread", "tea"), Numeric(0.0, 5.0))
OPTIONS: dict[str, dict[str, Any]] = {
    "discrete_square_wave": {"bins": 32}, "binned": {"bins": 16}, "hierarchy": {"leaves": 64},
    "haar": {"leaves": 64}, "olh": {"seeds": 64},
}  # fmt: skip


def values_of(domain: Domain, people: int, rng: np.random.Generator) -> Any:
    if isinstance(domain, Numeric):
        return rng.beta(5, 2, people)
    if isinstance(domain, Categories):
        return rng.choice(domain.size, people, p=[0.5, 0.3, 0.15, 0.05])
    starts = np.arange(people + 1)
    return KeyValuePairs(starts, rng.choice(3, people, p=[0.6, 0.3, 0.1]), rng.beta(5, 2, people))


def attribute_of(domain: Domain, mechanisms: Sequence[Mechanism], joined: bool) -> Attribute:
    versions = tuple(ServiceVersion(f"s{i}", "", mechanism) for i, mechanism in enumerate(mechanisms))
    services = tuple(version.service for version in versions) if joined else ()
    return Attribute("a", domain, 64, versions, joint_services=services, joint_buckets=16)


def domains_of(name: str) -> Domain:
    kind = registered_mechanisms()[name].domain_type
    return next(domain for domain in (NUMBERS, COLOURS, KEYS) if isinstance(domain, kind))


NAMES = [name for name, kind in registered_mechanisms().items() if kind.__module__.startswith("ldpbeam.")]


@pytest.mark.parametrize(("services", "joined"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("name", NAMES)
def test_it_answers_for_every_mechanism(name: str, services: int, joined: bool) -> None:
    domain, rng = domains_of(name), np.random.default_rng(5)
    if isinstance(domain, KeyValues) and (joined or name == "privkvm"):
        pytest.skip("keys with values are not joined, and rounds are services of their own")
    mechanisms = []
    for epsilon in (2.0, 3.0)[:services]:
        options = forced_responses(4, epsilon) if name == "matrix" else OPTIONS.get(name, {})
        mechanisms.append(build_mechanism(name, domain, epsilon, **options))
    attribute = attribute_of(domain, mechanisms, joined)
    people, values = 4_000, values_of(domain, 4_000, rng)
    answers = [Answers(i, np.arange(people), m.perturb(values, rng)) for i, m in enumerate(mechanisms)]
    found = estimate_of("auto", attribute, tally(attribute, people, answers))
    assert found.estimator == "auto"
    assert isinstance(found.details["chosen"], str)
    shares = found.frequencies if isinstance(domain, KeyValues) else found.distribution
    assert np.isfinite(shares).all()
    # The most frequent share is found: of the categories and keys the first, of the numbers the upper half.
    if isinstance(domain, Numeric):
        assert shares.min() >= 0.0
        assert shares.sum() == pytest.approx(1.0, abs=1e-9)
        assert shares[32:].sum() > 0.75
    else:
        assert shares.argmax() == 0


def study(text: str) -> str:
    return f"study: s\nattributes:\n  a:\n    domain: {{numeric: [0, 1]}}\n    services: {text}\n"


TWO = "{x: {mechanism: square_wave, epsilon: 1}, y: {mechanism: piecewise, epsilon: 1}}"
ONE = "{x: {mechanism: square_wave, epsilon: 1}}"


def test_a_study_that_names_no_estimator_has_auto() -> None:
    for more in ("", "    estimates: {auto: {}}\n", "    estimates: {auto: {estimator: auto}}\n"):
        wanted = parse_study(study(TWO) + more).attributes["a"].estimates["auto"]
        assert (wanted.estimator, wanted.services, wanted.options) == ("auto", ("x", "y"), {})


@pytest.mark.parametrize(
    ("services", "more", "joined"),
    [
        (TWO, "", ("x", "y")),
        (ONE, "", ()),
        (TWO, "    estimates: {one: {services: [x]}}\n", ()),
        (TWO, "duplicates: keep\n", ()),
        (TWO.replace("piecewise", "binned, bins: 16, oracle: oue"), "", ()),
    ],
)  # fmt: skip
def test_it_joins_numbers_of_two_services_where_users_are_grouped(
    services: str, more: str, joined: tuple[str, ...]
) -> None:
    assert parse_study(study(services) + more).attribute("a").joint_services == joined

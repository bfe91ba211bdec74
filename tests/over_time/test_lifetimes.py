"""The lifetime epsilon in studies: what one window is, what is refused, fingerprints and stamps."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ldpbeam.answers.explain import explain
from ldpbeam.errors import StudyError
from ldpbeam.mechanisms import GeneralWave
from ldpbeam.schemas.reports.stamps import differences, stamp_of
from ldpbeam.schemas.study.json_schema import study_schema
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study

CATEGORIES = "{categories: [a, b, c, d, e]}"
NUMBERS = "{numeric: [0, 100]}"


def study_of(service: str, domain: str = CATEGORIES, more: str = "") -> Study:
    return parse_study(
        f"study: s\nattributes:\n  x:\n    domain: {domain}\n    services:\n      app: {{{service}}}\n{more}"
    )


def mechanism_of(service: str, domain: str = CATEGORIES) -> Any:
    return study_of(service, domain).attribute("x").versions[0].mechanism


@pytest.mark.parametrize("name", ["grr", "oue", "sue", "olh"])
def test_one_window_of_categories_has_the_mechanism_that_the_study_names(name: str) -> None:
    plain, lasting = (
        mechanism_of(f"mechanism: {name}, epsilon: 1{more}") for more in ("", ", lifetime_epsilon: 2")
    )
    assert lasting == plain


def test_one_window_of_a_wave_is_a_square_wave_of_the_width_of_a_lifetime() -> None:
    for name, half_width in [("square_wave", 0.12933706674576635), ("piecewise", 0.18393972058572117)]:
        found = mechanism_of(f"mechanism: {name}, epsilon: 1, lifetime_epsilon: 2", NUMBERS)
        assert found == GeneralWave(1.0, top=1.0, half_width=found.half_width)
        assert found.half_width == pytest.approx(half_width, rel=1e-12)


def test_published_local_hashing_has_the_hashes_and_seeds_of_released_clients() -> None:
    found = mechanism_of("mechanism: olh, epsilon: 2, lifetime_epsilon: 4, as_published: true")
    assert (found.hashes, found.seeds, found.hashed) == (7, "any", "text")
    assert found.epsilon < 2.0
    # BiLOLOHA's two hash values are a choice of the study; its constants are exact.
    two = mechanism_of("mechanism: olh, epsilon: 2, lifetime_epsilon: 4, as_published: true, hashes: 2")
    assert (two.hashes, two.epsilon) == (2, pytest.approx(2.0))


KEPT = "lifetime_epsilon: 2"


@pytest.mark.parametrize(
    ("service", "domain", "more", "sentence"),
    [
        ("grr, epsilon: 1, lifetime_epsilon: 1", CATEGORIES, "", "must be above epsilon"),
        ("square_wave, epsilon: 1, lifetime_epsilon: 1.0000000000001", NUMBERS, "", "too near to epsilon"),
        ("grr, epsilon: 1, lifetime_epsilon: 21", CATEGORIES, "", "at most 20"),
        (f"auto, epsilon: 1, {KEPT}", CATEGORIES, "", "name grr or olh"),
        (f"hadamard, epsilon: 1, {KEPT}", CATEGORIES, "", "not for hadamard"),
        (f"piecewise, epsilon: 1, {KEPT}", "{coordinates: 3, values: [0, 1]}", "", "not for vectors"),
        ("grr, epsilon: 1, as_published: true", CATEGORIES, "", "needs lifetime_epsilon"),
        (f"piecewise, epsilon: 1, {KEPT}, as_published: true", NUMBERS, "", "is published for numbers"),
        (f"grr, epsilon: 1, {KEPT}, memo_buckets: 5", CATEGORIES, "", "for numbers"),
        (f"piecewise, epsilon: 1, {KEPT}, memo_buckets: 300", NUMBERS, "", "multiple of the attribute's"),
        (f"olh, epsilon: 1, {KEPT}, values_at_most: 200", CATEGORIES, "", "are 5 categories, found 200"),
        (f"piecewise, epsilon: 1, {KEPT}, values_at_most: 513, memo_buckets: 512", NUMBERS, "",
         "values_at_most: there are 512 memo buckets, found 513"),
        (f"grr, epsilon: 1, {KEPT}", CATEGORIES, "repeats: all", "repeats: first"),
        (f"grr, epsilon: 1, {KEPT}", CATEGORIES, "duplicates: keep", "duplicates: drop"),
        ("olh, epsilon: 1, hashes: 1", CATEGORIES, "", "hashes must be from 2"),
    ],
)  # fmt: skip
def test_what_no_client_can_remember_is_refused_in_one_sentence(
    service: str, domain: str, more: str, sentence: str
) -> None:
    with pytest.raises(StudyError, match=sentence) as refused:
        study_of(f"mechanism: {service}", domain, more)
    assert "service app of attribute x" in str(refused.value) and "\n" not in str(refused.value)


def test_versions_can_remember_at_other_epsilons() -> None:
    found = study_of(
        "mechanism: grr, epsilon: 1, version_field: v, versions: {old: {}, new: {lifetime_epsilon: 2}}"
    ).attribute("x")
    assert [version.lifetime and version.lifetime.epsilon for version in found.versions] == [None, 2.0]


def test_a_lifetime_epsilon_changes_the_fingerprint_of_the_channels_and_of_the_study() -> None:
    services = [
        "mechanism: grr, epsilon: 1",
        "mechanism: grr, epsilon: 1, lifetime_epsilon: 2",
        "mechanism: grr, epsilon: 1, lifetime_epsilon: 3",
        "mechanism: grr, epsilon: 1, lifetime_epsilon: 3, as_published: true",
    ]
    studies = [study_of(service) for service in services]
    assert len({study.attribute("x").fingerprint for study in studies}) == 4
    assert len({study.fingerprint for study in studies}) == 4


def test_a_study_without_a_lifetime_epsilon_has_the_fingerprint_that_it_had() -> None:
    """The fingerprints of the commit before the key was there."""
    found = study_of("mechanism: olh, epsilon: 1")
    assert (found.fingerprint, found.attribute("x").fingerprint) == OLD_FINGERPRINTS


OLD_FINGERPRINTS = ("5ed9796b78096dcb6c6a71539500f09c", "d89e24aa24b90fcc852986c338f33e81")


def test_a_stamp_says_what_clients_remember_and_fresh_noise_differs_from_it() -> None:
    fresh, lasting = (
        study_of(f"mechanism: square_wave, epsilon: 1{more}", NUMBERS).attribute("x")
        for more in ("", ", lifetime_epsilon: 2, memo_buckets: 512")
    )
    stamp = stamp_of(lasting, 0)
    assert (stamp["ldpbeam.mechanism"], stamp["ldpbeam.epsilon"]) == ("square_wave", "1.0")
    assert json.loads(stamp["ldpbeam.options"]) == {"lifetime_epsilon": 2.0, "memo_buckets": 512}
    assert differences(stamp, lasting, 0) == []
    assert differences(stamp, fresh, 0) == [
        "an option lifetime_epsilon that does not exist",
        "an option memo_buckets that does not exist",
    ]
    assert differences(stamp_of(fresh, 0), lasting, 0) == ["fresh noise instead of a lifetime_epsilon of 2"]


def test_explain_says_both_epsilons_what_windows_reveal_and_how_much_is_rounded() -> None:
    text = " ".join(explain(study_of("mechanism: piecewise, epsilon: 1, lifetime_epsilon: 2", NUMBERS)))
    assert "epsilon 1 a window and 2 for life" in text
    assert "at most T x 1, and at most c x 2 with c different memo buckets" in text
    assert "moves none by more than 0.195" in text
    hashed = "mechanism: olh, epsilon: 1, lifetime_epsilon: 2, as_published: true"
    assert "with published constants of epsilon 0.948 a window" in " ".join(explain(study_of(hashed)))


def test_the_json_schema_takes_the_keys_where_clients_can_remember() -> None:
    schema = Draft202012Validator(study_schema())

    def problems(service: str, domain: str = CATEGORIES) -> int:
        text = f"study: s\nattributes:\n  x:\n    domain: {domain}\n    services:\n      app: {{{service}}}\n"
        return len(list(schema.iter_errors(yaml.safe_load(text))))

    for name in ("grr", "oue", "sue", "olh"):
        assert not problems(f"mechanism: {name}, epsilon: 1, lifetime_epsilon: 2, as_published: true")
    for name in ("stochastic_rounding", "square_wave", "piecewise"):
        assert not problems(f"mechanism: {name}, epsilon: 1, lifetime_epsilon: 2, memo_buckets: 512", NUMBERS)
    assert not problems("mechanism: grr, epsilon: 1, version_field: v, versions: {a: {lifetime_epsilon: 2}}")
    assert problems("mechanism: grr, epsilon: 1, lifetime_epsilon: 21")

"""Stamps: what a file says of its mechanism, compared with a study."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path

import pytest

from ldpbeam.domains import Categories, Domain, KeyValues, Numeric, Vector
from ldpbeam.schemas.reports import stamps
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY = parse_study(
    """
study: stamped
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services:
      maps: {mechanism: square_wave, epsilon: 1.0}
      taxi: {mechanism: binned, epsilon: 0.5, bins: 16}
      bus: {mechanism: piecewise, version_field: build, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
    estimates: {all: {estimator: ems}}
  mode:
    domain: {categories: [car, bus, bike]}
    services: {maps: {mechanism: olh, epsilon: 1.0}, auto: {mechanism: auto, epsilon: 3.0}}
    estimates: {all: {estimator: em}}
  places:
    domain: {coordinates: [home, work], values: [0, 1]}
    services: {maps: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {all: {estimator: ivw}}
"""
)
MAPS = {"ldpbeam.attribute": "minutes", "ldpbeam.service": "maps"}
REPORTS = Path(__file__).parents[2] / "docs" / "reports.md"


def test_a_stamp_names_the_mechanism_its_epsilon_its_options_and_the_domain() -> None:
    minutes, mode, places = (STUDY.attribute(name) for name in ("minutes", "mode", "places"))
    domain = hashlib.sha256(b"numeric\0" + struct.pack(">2d", 0.0, 180.0)).hexdigest()[:32]
    assert stamps.stamp_of(minutes, 0) == {
        "ldpbeam.mechanism": "square_wave", "ldpbeam.epsilon": "1.0", "ldpbeam.domain": domain,
    }  # fmt: skip
    options = json.loads(stamps.stamp_of(minutes, 1)["ldpbeam.options"])
    assert options["bins"] == 16
    found = stamps.stamp_of(mode, 0)
    assert json.loads(found["ldpbeam.options"]) == {"seeds": 1024, "size": 3}
    assert stamps.stamp_of(mode, 1)["ldpbeam.mechanism"] == "grr"
    assert stamps.stamp_of(places, 0)["ldpbeam.mechanism"] == "piecewise"
    assert stamps.stamp_of(places, 0)["ldpbeam.epsilon"] == "1.0"


@pytest.mark.parametrize("name", ["minutes", "mode", "places"])
def test_a_stamp_fits_its_own_channel_and_the_channel_of_no_other_service(name: str) -> None:
    attribute = STUDY.attribute(name)
    for index in range(len(attribute.versions)):
        stamp = stamps.stamp_of(attribute, index)
        alike = [i for i in range(len(attribute.versions)) if not stamps.differences(stamp, attribute, i)]
        assert alike == [index]


@pytest.mark.parametrize(
    ("entry", "difference"),
    [
        ({"ldpbeam.mechanism": "piecewise"}, "mechanism piecewise instead of square_wave"),
        ({"ldpbeam.epsilon": "0.9"}, "epsilon 0.9 instead of 1"),
        ({"ldpbeam.epsilon": "one"}, "epsilon one instead of 1"),
        ({"ldpbeam.epsilon": "nan"}, "epsilon nan instead of 1"),
        ({"ldpbeam.domain": "0" * 32}, "another domain of 'minutes'"),
        ({"ldpbeam.options": '{"bins": 3}'}, "an option bins that does not exist"),
        ({"ldpbeam.options": "[1]"}, "options that are no JSON object ('[1]')"),
        ({"ldpbeam.options": "{"}, "options that are no JSON object ('{')"),
        ({"ldpbeam.options": "[" * 100_000}, f"options that are no JSON object ('{'[' * 80}')"),
        ({"ldpbeam.epsilon": "1"}, None),
        ({"ldpbeam.epsilon": "1.0000000001"}, None),
        ({"ldpbeam.options": "{}"}, None),
        ({"ldpbeam.mechanism": "square_wave"}, None),
        ({"other": "entry"}, None),
        ({}, None),
    ],
)
def test_each_entry_that_is_there_must_be_the_study_s(entry: dict[str, str], difference: str | None) -> None:
    expected = (
        None if difference is None else f"its stamp differs from the study's 'minutes' at maps: {difference}"
    )
    assert stamps.problem(STUDY, {**MAPS, **entry}, None, None) == expected


def test_options_are_compared_one_by_one() -> None:
    taxi = {"ldpbeam.attribute": "minutes", "ldpbeam.service": "taxi", "ldpbeam.mechanism": "binned"}
    assert stamps.problem(STUDY, {**taxi, "ldpbeam.options": '{"bins": 16}'}, None, None) is None
    found = stamps.problem(STUDY, {**taxi, "ldpbeam.options": '{"bins": 32}'}, None, None)
    assert found == "its stamp differs from the study's 'minutes' at taxi: option bins 32 instead of 16"


def test_a_file_of_no_named_service_may_be_of_any() -> None:
    half = {"ldpbeam.epsilon": "0.5"}
    assert stamps.problem(STUDY, half, None, None) is None
    assert stamps.problem(STUDY, half, "minutes", "taxi") is None
    assert stamps.problem(STUDY, half, "minutes", "maps") is not None
    assert stamps.problem(STUDY, half, "mode", None) is not None
    # Both versions of a service may be in its file.
    assert stamps.problem(STUDY, {"ldpbeam.epsilon": "2"}, "minutes", "bus") is None
    assert stamps.problem(STUDY, {"ldpbeam.epsilon": "3"}, "minutes", "bus") is not None
    # What the study does not know becomes dead letters, which say so.
    assert stamps.problem(STUDY, half, "seconds", None) is None
    assert stamps.problem(STUDY, half, "minutes", "plane") is None


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        (Numeric(-0.0, 2), b"numeric\0" + bytes(8) + bytes.fromhex("4000000000000000")),
        (Categories(("é", "b")), b"categories\0\xc3\xa9\0b\0"),
        (
            KeyValues(("k", "l"), Numeric(0, 2)),
            b"keys\0k\0l\0" + bytes(8) + bytes.fromhex("4000000000000000"),
        ),
        (Vector(("k", "l"), Numeric(0, 2)), b"vector\0k\0l\0" + bytes(8) + bytes.fromhex("4000000000000000")),
    ],
    ids=["numeric", "categories", "keys", "vector"],
)
def test_the_hash_of_a_domain_is_of_the_bytes_that_are_documented(domain: Domain, text: bytes) -> None:
    assert stamps.domain_hash(domain) == hashlib.sha256(text).hexdigest()[:32]


def test_the_document_has_the_hashes_of_its_examples() -> None:
    found = dict(
        re.findall(r"^\| `(\{.+\})` \| `([0-9a-f]{32})` \|$", REPORTS.read_text(), flags=re.MULTILINE)
    )
    assert found == {
        "{numeric: [0, 180]}": stamps.domain_hash(STUDY.attribute("minutes").domain),
        "{categories: [car, bus, bike]}": stamps.domain_hash(STUDY.attribute("mode").domain),
    }

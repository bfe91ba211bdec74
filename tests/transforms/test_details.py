"""The detail of a dead letter: it says what was wrong, and never who sent it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ldpbeam.schemas.reports.columns import decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.dead_letters import Disclosure, as_batch
from ldpbeam.transforms.reports.details import MOST_UNKNOWN
from ldpbeam.transforms.reports.validation import Validation, wanted_columns

STUDY = parse_study(
    """
study: details
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services:
      maps: {mechanism: square_wave, epsilon: 1.0}
      taxi: {mechanism: piecewise, version_field: build, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
      dated: {mechanism: piecewise, versions: {v: {epsilon: 1.0, since: "2026-06-01T00:00:00Z"}}}
    estimates: {mean: {estimator: ivw}}
  colour:
    domain: {categories: 20}
    services: {bits: {mechanism: oue, epsilon: 1.0}}
    estimates: {all: {estimator: mle}}
"""
)
NOW = 1_795_168_800_000
GOOD = {"user_id": "ann", "attribute": "minutes", "service": "maps", "payload": 0.5, "event_time": NOW}
UNSHOWN = "not shown, because it may identify somebody"


def letters(*changes: dict[str, Any], disclosure: Disclosure | None = None) -> list[dict[str, Any]]:
    """The dead letters of a good record with each of these changes, in one batch for each kind of payload."""
    records = [{**GOOD, **change} for change in changes]
    wanted, found = wanted_columns(STUDY, None, None), []
    for chosen in by_payload(records):
        columns = columns_of([records[index] for index in chosen], wanted.names)
        batch = decoded(columns, wanted, {}, pa.array([0] * len(chosen)), pa.array(chosen))
        found += Validation(STUDY).validate(batch).letters
    return as_batch(found, disclosure or Disclosure()).to_pylist()


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"service": "map"}, "service 'map' of 'minutes' is unknown; did you mean 'maps'?"),
        ({"service": "bus"}, "service 'bus' of 'minutes' is unknown; there are: maps, taxi, dated"),
        ({"service": "bits"}, "service 'bits' of 'minutes' is unknown; there are: maps, taxi, dated"),
        ({"attribute": "minuts"}, "attribute 'minuts' is unknown; did you mean 'minutes'?"),
        ({"attribute": "age"}, "attribute 'age' is unknown; there are: minutes, colour"),
        ({"service": "taxi", "build": "beta"}, "its field 'build' names no version of service 'taxi'"),
        (
            {"service": "dated", "event_time": 1_767_225_600_000},
            "its event time lies in no version",
        ),
        ({"payload": 7.0}, "service 'maps' of 'minutes' sends reports of "),
        ({"payload": "ann"}, "service 'maps' of 'minutes' sends reports of "),
        (
            {"attribute": "colour", "service": "bits", "payload": "ff"},
            "service 'bits' of 'colour' sends reports of 3 bytes of ",
        ),
        ({"user_id": None}, ""),
        ({"payload": None}, ""),
    ],
)
def test_a_detail_says_what_was_wrong(change: dict[str, Any], detail: str) -> None:
    (letter,) = letters(change, {})
    assert letter["detail"].startswith(detail) and bool(letter["detail"]) == bool(detail)


def test_each_letter_has_the_detail_of_its_own_values() -> None:
    names = ["map", "taxis", "map", "bus", "taxis", None]
    found = letters(*({"service": name} for name in names), {"attribute": "minuts"})
    assert [own["detail"].partition(" is")[0] for own in found] == [
        "service 'map' of 'minutes'",
        "service 'taxis' of 'minutes'",
        "service 'map' of 'minutes'",
        "service 'bus' of 'minutes'",
        "service 'taxis' of 'minutes'",
        "",
        "attribute 'minuts'",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "ann@example.org",
        "Ann Smith",
        "123456",
        "person-20931",
        "9f86d081884c7d65",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "a" * 33,
        "añn",
        "\x1b[31m",
    ],
)
@pytest.mark.parametrize("field", ["service", "attribute"])
def test_what_may_be_an_id_is_not_shown(field: str, value: str) -> None:
    (letter,) = letters({field: value})
    assert UNSHOWN in letter["detail"] and value not in letter["detail"]


@pytest.mark.parametrize("field", ["service", "attribute"])
def test_a_user_id_in_the_place_of_a_name_is_not_shown(field: str) -> None:
    """The id of the same report or of another, or columns that were swapped."""
    for changes in (
        [{"user_id": "bob", field: "bob"}],
        [{"user_id": "bob", field: "cid"}, {"user_id": "cid"}, {"user_id": "cid", field: "x"}],
        [{"user_id": "maps", field: "bob"}],
        [{"user_id": "minutes", field: "bob"}],
        [{"user_id": "maps"}, {field: "bob"}],
        [{"user_id": "bob"}, {field: "bob"}],
    ):
        for letter in letters(*changes):
            assert not {"bob", "cid"} & set(letter["detail"].replace("'", " ").split()), changes


def test_many_different_names_are_not_shown() -> None:
    def details(count: int) -> list[str]:
        names = ["".join(chr(ord("g") + int(d)) for d in f"{place:03}") for place in range(count)]
        return [own["detail"] for own in letters(*({"service": name} for name in [*names, "maps"]))]

    assert all(UNSHOWN not in detail for detail in details(MOST_UNKNOWN))
    found = details(MOST_UNKNOWN + 1)
    assert all(UNSHOWN in detail for detail in found) and len(found) == MOST_UNKNOWN + 1
    assert len({*details(5_000)}) == 1


def test_with_a_key_there_is_no_detail() -> None:
    key = Disclosure(user_id_key=b"0123456789abcdef")
    assert [own["detail"] for own in letters({"service": "map"}, {"payload": 7.0}, disclosure=key)] == [
        "",
        "",
    ]

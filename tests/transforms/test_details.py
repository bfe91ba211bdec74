"""The detail of a dead letter: it says what was wrong, and never who sent it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ldpbeam.schemas.reports.columns import decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.dead_letters import Disclosure, disclosed
from ldpbeam.transforms.reports.refused import LONGEST_COMPARED, MOST_COMPARED
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
THERE_ARE = "an unknown service of 'minutes'; there are: maps, taxi, dated"


def letters(*changes: dict[str, Any], disclosure: Disclosure | None = None) -> list[dict[str, Any]]:
    """The dead letters of a good record with each of these changes, in one batch for each kind of payload."""
    records = [{**GOOD, **change} for change in changes]
    wanted, found = wanted_columns(STUDY, None, None), []
    for chosen in by_payload(records):
        columns = columns_of([records[index] for index in chosen], wanted.fields)
        batch = decoded(columns, wanted, {}, pa.array([0] * len(chosen)), pa.array(chosen))
        for part in Validation(STUDY).validate(batch).letters:
            found += disclosed(part, disclosure or Disclosure()).to_pylist()
    return found


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"service": "map"}, "an unknown service of 'minutes'; did you mean 'maps'?"),
        ({"service": "bus"}, THERE_ARE),
        ({"service": "bits"}, THERE_ARE),
        ({"attribute": "minuts"}, "an unknown attribute; did you mean 'minutes'?"),
        ({"attribute": "age"}, "an unknown attribute; there are: minutes, colour"),
        ({"event_time": NOW // 1000}, "looks like seconds; write milliseconds since 1970"),
        ({"event_time": "2026-11-20T10:00:00"}, "missing, without a zone, or no time; write RFC 3339 text"),
        ({"service": "taxi", "build": "beta"}, ""),
        ({"payload": 7.0}, ""),
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
    assert [own["detail"].partition("; ")[2] for own in found] == [
        "did you mean 'maps'?", "did you mean 'taxi'?", "did you mean 'maps'?",
        "there are: maps, taxi, dated", "did you mean 'taxi'?", "", "did you mean 'minutes'?",
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["ann@example.org", "ann", "bob", "123456", "x" * 100, "\x1b[31m"])
@pytest.mark.parametrize("field", ["service", "attribute", "payload", "build", "report_id", "event_time"])
def test_no_value_of_a_report_is_shown(field: str, value: str) -> None:
    changes: list[dict[str, Any]] = [{field: value}, {field: value, "service": "bus"}, {"user_id": value}]
    for letter in letters(*changes, {"user_id": None, field: value}):
        assert value not in letter["detail"]


def test_only_a_few_short_names_of_a_batch_are_compared() -> None:
    def details(count: int) -> list[str]:
        return [own["detail"] for own in letters(*({"service": f"maps{place}"} for place in range(count)))]

    assert all("did you mean" in detail for detail in details(MOST_COMPARED))
    found = details(5_000)
    assert sum("did you mean" in detail for detail in found) == MOST_COMPARED
    assert found[MOST_COMPARED:] == [THERE_ARE] * (5_000 - MOST_COMPARED)
    assert [own["detail"] for own in letters({"service": "m" * (LONGEST_COMPARED + 1)})] == [THERE_ARE]


def test_with_a_key_there_is_no_detail() -> None:
    key = Disclosure(user_id_key=b"0123456789abcdef")
    assert [own["detail"] for own in letters({"service": "map"}, {"payload": 7.0}, disclosure=key)] == [
        "",
        "",
    ]

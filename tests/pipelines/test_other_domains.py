"""Studies of categories by hash and by bits, vectors, and keys with values: what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.tallied import tallied

from ldpbeam.errors import StudyError
from ldpbeam.schemas.study.yaml_file import parse_study

TEXT = """\
study: mixed
attributes:
  colour:
    domain: {categories: [red, green, blue, grey, "NA"]}
    top: 3
    services:
      hashed: {mechanism: olh, epsilon: 2.0}
      any: {mechanism: olh, epsilon: 2.0, seeds: any}
      bits: {mechanism: oue, epsilon: 2.0}
      sign: {mechanism: hadamard, epsilon: 2.0}
    estimates:
      all: {estimator: inversion}
      cut: {estimator: base_cut, services: [bits]}
      joined: {estimator: ule, services: [hashed, bits, sign]}
  size:
    domain: {categories: 9}
    services: {s: {mechanism: oue, epsilon: 2.0}}
    estimates: {all: {estimator: norm_sub}}
  v:
    domain: {coordinates: [north, east, up], values: [-10, 10]}
    buckets: 16
    ranges: [[-10, 0], [2.5, 7], [9, 99]]
    quantiles: [0.5]
    services:
      s: {mechanism: piecewise, epsilon: 2.0}
    estimates:
      shape: {estimator: ems}
      mean: {estimator: ivw}
  basket:
    domain: {keys: [milk, bread, tea], values: [0, 5]}
    top: 2
    services:
      s: {mechanism: privkv, epsilon: 4.0}
    estimates:
      all: {estimator: key_value}
"""


def test_reports_of_no_key_are_dead_letters() -> None:
    payloads: list[Any] = [0, 8, 9, -1, 2.5, "0", None, 4.0]
    base = {"attribute": "basket", "service": "s"}
    reports = [{**base, "user_id": [f"u{i}"], "payload": [payload]} for i, payload in enumerate(payloads)]
    found = tallied(TEXT, reports)
    assert found.accounting["used"] == 3
    assert found.accounting["dead_letters_by_reason"] == {
        "payload_outside_mechanism": 3,
        "payload_not_a_number": 1,
        "no_payload": 1,
    }
    (snapshot,) = found.snapshots
    assert snapshot.statistic.histograms[0].tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1]


# Mistakes in the study file: (instead of what, what is written; the place; what is said).
MISTAKES = [
    ("{coordinates: [north, east, up], values: [-10, 10]}", "{coordinates: [north, east, up]}",
     "domain of attribute v", "values: [low, high] goes with keys or coordinates, and they need it"),
    ("{keys: [milk, bread, tea], values: [0, 5]}", "{keys: [milk, tea, milk], values: [0, 5]}",
     "domain of attribute basket", "milk"),
    ("[north, east, up]", "1", "coordinates of domain of attribute v", "greater than or equal to 2, found"),
    ("    top: 3", "    ranges: [[0, 1]]", "ranges of attribute colour",
     "ranges are for numbers; for categories use top"),
    ("    top: 3", "    top: 0", "top of attribute colour", "greater than or equal to 1, found 0"),
    ("    ranges: [[-10, 0], [2.5, 7], [9, 99]]", "    ranges: [[1, 1]]", "ranges of attribute v",
     "a range needs low < high"),
    ("s: {mechanism: privkv, epsilon: 4.0}", "s: {mechanism: olh, epsilon: 4.0}",
     "service s of attribute basket", "mechanism 'olh' is for categories"),
    ("s: {mechanism: piecewise, epsilon: 2.0}", "s: {mechanism: oue, epsilon: 2.0}",
     "service s of attribute v", "mechanism 'oue' is for categories"),
    ("bits: {mechanism: oue, epsilon: 2.0}", "bits: {mechanism: privkv, epsilon: 2.0}",
     "service bits of attribute colour", "mechanism 'privkv' is for keys with values"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_in_the_study_file_is_one_message_with_its_place(
    old: str, new: str, place: str, message: str
) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(StudyError) as caught:
        parse_study(TEXT.replace(old, new), "study.yaml")
    # The line of what is wrong; of services that do not go together, that of their attribute.
    at = "  colour:" if place == "attribute colour" else old
    line = 1 + TEXT[: TEXT.index(at)].count("\n")
    assert re.match(rf"study\.yaml:{line}: (entry \d+ of )?{re.escape(place)}: ", str(caught.value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

"""What a study's clients must know of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ldpbeam.clients.described import described_clients
from ldpbeam.schemas.study.yaml_file import parse_study

TEXT = """\
study: commute
attributes:
  x:
    domain: DOMAIN
    services: {app: {mechanism: MECHANISM, epsilon: 1}}
"""


def described(domain: str, mechanism: str, more: str = "") -> dict[str, Any]:
    text = TEXT.replace("DOMAIN", domain).replace("MECHANISM", mechanism)
    (client,) = described_clients(parse_study(text + more))
    return json.loads(json.dumps(client))


@pytest.mark.parametrize(
    ("domain", "mechanism", "options"),
    [
        ({"numeric": [0, 180]}, "gaussian", {"delta": 1e-6, "calibration": "analytic"}),
        ({"numeric": [0, 9], "step": 0.18}, "square_wave", {}),
        ({"categories": ["tea", "coffee"]}, "grr", {}),
        ({"categories": 5}, "olh", {"seeds": 1024}),
        ({"keys": ["drama", "comedy"], "values": [0, 10]}, "pckv_grr", {"padding": 1}),
        ({"coordinates": ["rest", "run"], "values": [40, 200], "step": 5}, "piecewise", {}),
    ],
)
def test_the_domain_and_the_options_are_those_of_the_study(
    domain: dict[str, Any], mechanism: str, options: dict[str, Any]
) -> None:
    client = described(json.dumps(domain), mechanism)
    assert (client["domain"], client["mechanism"], client["epsilon"]) == (domain, mechanism, 1)
    assert client["options"] == options
    assert (client["users"], client["needs"]) == ("ids", [])


def test_reports_have_the_fields_that_the_study_needs() -> None:
    client = described(
        "{categories: 5}", "grr", "windows: {size: 1h}\ngroups: {field: region, at_most: 2}\nusers: none\n"
    )
    assert (client["users"], client["needs"]) == ("none", ["event_time", "region"])
    assert client["fields"] == {"attribute": "x", "service": "app"}


def test_versions_are_clients_auto_is_what_it_selects_and_names_of_a_window_are_left_out() -> None:
    study = parse_study("""\
study: commute
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services:
      maps:
        mechanism: square_wave
        version_field: app
        versions: {old: {epsilon: 1}, new: {epsilon: 2, lifetime_epsilon: 3}}
  drink:
    domain: {categories: 100}
    services: {app: {mechanism: auto, epsilon: 1}}
  fragment:
    domain: {candidates: fragments.csv, places: 8}
    services: {app: {mechanism: grr, epsilon: 1}}
windows: {size: 1d}
""")
    old, new, drink = described_clients(study)
    assert [(c["version"], c["epsilon"], c["fields"]["app"]) for c in (old, new)] == [
        ("old", 1.0, "old"),
        ("new", 2.0, "new"),
    ]
    assert "lifetime_epsilon" not in old and (new["lifetime_epsilon"], new["memo_buckets"]) == (3.0, 256)
    assert drink["mechanism"] == "olh" and drink["options"]["seeds"] > 100

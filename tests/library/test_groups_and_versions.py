"""Fields and names of groups in the library; an epsilon that changed is never mixed into one channel."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.guessed_ids import START, report
from support.studies import SMALL
from support.tallied import tallied

import ldpbeam as ldp
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.times import rfc3339
from ldpbeam.transforms.tally import Tally
from ldpbeam.windows import Span

HOUR = 3_600_000
GROUPED = SMALL + "windows: {size: 1h}\ngroups: {field: region, at_most: 3}\npublish: {at_least: 1}\n"
VERSIONED = """\
study: versions
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      a: {mechanism: piecewise, HOW}
      b: {mechanism: laplace, epsilon: 2.0}
    estimates:
      mean: {estimator: ivw}
      both: {estimator: ule}
      a_only: {estimator: ems, services: [a]}
"""
BY_FIELD = VERSIONED.replace(
    "HOW", 'version_field: app, versions: {old: {epsilon: 0.5, values: ["1.0", "1.1"]}, new: {epsilon: 4.0}}'
)
BY_TIME = VERSIONED.replace(
    "HOW",
    "versions: {old: {epsilon: 0.5, until: '2026-11-20T11:00:00Z'}, "
    "new: {epsilon: 4.0, since: '2026-11-20T11:00:00Z'}}",
)


def by_group(sizes: dict[str | None, int], **changes: Any) -> list[dict[str, Any]]:
    """So many users a group, each with a report of its own payload."""
    return [
        report(f"{group} {i}", region=group, payload=i / 10, **changes)
        for group, size in sizes.items()
        for i in range(size)
    ]


def counted(found: Tally) -> list[int]:
    """How many reports each channel of the only snapshot counts."""
    (snapshot,) = found.snapshots
    return [int(histogram.sum()) for histogram in snapshot.statistic.histograms]


def test_a_study_whose_group_field_no_report_has_says_so() -> None:
    study = parse_study(GROUPED.replace("field: region", "field: regoin"))
    with pytest.warns(UserWarning, match="no estimated report has the field 'regoin'"):
        ldp.estimate(study, by_group({"north": 2, "south": 2}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ldp.estimate(parse_study(GROUPED), by_group({"north": 2, None: 2}))


@pytest.mark.parametrize(
    ("name", "said"), [("Region", "'Region': if it is meant"), ("path", "region= in the path")]
)
def test_a_field_of_groups_that_is_spelt_otherwise_or_only_in_a_path_is_named(
    name: str, said: str, tmp_path: Path, command: Any
) -> None:
    (tmp_path / "study.yaml").write_text(GROUPED)
    for place, field in (("region=north", name), ("plain", "region")):
        (tmp_path / place).mkdir()
        lines = [json.dumps({**report(f"{place}{i}"), field: "north"}) for i in range(9)]
        (tmp_path / place / "a.jsonl").write_text("\n".join(lines) + "\n")
    given = (
        "--study", tmp_path / "study.yaml", "--input", f"{tmp_path}/*/*.jsonl", "--output", tmp_path / "out",
    )  # fmt: skip
    ran = command("estimate", *map(str, given))
    assert f"9 reports without a group have no field 'region' and {said}" in ran.err


def test_windows_stand_in_the_order_of_time_also_within_a_second() -> None:
    times = [-1000, -250, 0, 250, 1000, 1250]
    study = parse_study(SMALL + "windows: {size: 250ms}\npublish: {at_least: 1}\n")
    reports = [report(f"u{t}", event_time=t) for t in times]
    found = ldp.estimate(study, reports, start="1960-01-01T00:00:00Z").records()
    assert [e["window_start"] for e in found if e["name"] == "mean"] == [rfc3339(time) for time in times]


def test_versions_by_field_are_channels_of_their_own_and_estimates_use_both() -> None:
    study, rng = parse_study(BY_FIELD), np.random.default_rng(2)
    values, mechanisms = rng.beta(2, 5, 4000), [v.mechanism for v in study.attribute("x").versions]
    assert [m.epsilon for m in mechanisms] == [0.5, 4.0, 2.0]
    old, new = slice(0, 2000), slice(2000, 4000)
    sent = [
        m.perturb(values[own], rng) for m, own in zip(mechanisms, (old, new, slice(0, 4000)), strict=True)
    ]
    users = np.array([f"u{place}" for place in range(4000)])
    tables: list[dict[str, Any]] = [
        {"user_id": users[old], "service": "a", "app": "1.1", "payload": sent[0]},
        {"user_id": users[new], "service": "a", "app": "new", "payload": sent[1]},
        {"user_id": users, "service": "b", "payload": sent[2]},
    ]
    (snapshot,) = tallied(BY_FIELD, tables).snapshots
    for histogram, mechanism, own in zip(snapshot.statistic.histograms, mechanisms, sent, strict=True):
        expected = np.bincount(mechanism.bucketise(own, 8), minlength=mechanism.cells(8))
        assert np.array_equal(histogram, expected)
    mean, both, a_only = ldp.estimate(study, tables).records()
    assert [line["reports"] for line in (mean, both, a_only)] == [8000, 8000, 4000]
    assert list(mean["details"]["weights"]) == ["a@old", "a@new", "b"]


def test_versions_by_time_are_channels_of_their_own() -> None:
    times = [START + HOUR - 1, START + HOUR, START + HOUR + 1]
    assert counted(tallied(BY_TIME, [report(f"u{t}", event_time=t) for t in times])) == [1, 2, 0]


def test_a_version_may_begin_or_end_at_time_zero() -> None:
    text = BY_TIME.replace("2026-11-20T11:00:00Z", "1970-01-01T00:00:00Z")
    found = tallied(text, [report(f"u{t}", event_time=t) for t in (-1, 0, 1)], Span(start=-HOUR))
    assert counted(found) == [1, 2, 0]
    assert found.accounting["dead_letters"] == 0

"""Estimates by group, capped and counted; an epsilon that changed is never mixed into one channel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import merge
from ldpbeam.times import rfc3339

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
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


def report(user: str, **changes: Any) -> dict[str, Any]:
    given = {"user_id": user, "attribute": "x", "service": "a", "event_time": START, "payload": 0.5}
    return {key: value for key, value in (given | changes).items() if value is not None}


def by_group(sizes: dict[str | None, int], **changes: Any) -> list[dict[str, Any]]:
    """So many users a group, each with a report of its own payload."""
    return [
        report(f"{group} {i}", region=group, payload=i / 10, **changes)
        for group, size in sizes.items()
        for i in range(size)
    ]


@pytest.fixture(scope="module")
def grouped(small_text: str) -> str:
    return small_text + "windows: {size: 1h}\ngroups: {field: region, at_most: 3}\n"


def test_there_is_an_estimate_a_group_and_window_and_the_rest_are_added_up(
    grouped: str, small_text: str, tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    first: dict[str | None, int] = {"north": 9, "south": 7, None: 8, "east": 2, "west": 3}
    second: dict[str | None, int] = {"west": 4, "east": 4}
    records = by_group(first) + by_group(second, event_time=START + HOUR)
    found = run_estimate(tmp_path / "all", grouped, [write_lines(tmp_path / "r.jsonl", records)])
    shown = [(e["window_start"][11:13], e["group"], e["other_groups"], e["users"]) for e in found.estimates]
    assert shown == [
        entry
        for entry in (
            ("10", None, 0, 8),
            ("10", "north", 0, 9),
            ("10", "south", 0, 7),
            ("10", None, 2, 5),
            ("11", "east", 0, 4),
            ("11", "west", 0, 4),
        )
        for _ in ("mean", "both")
    ]
    assert found.accounting["used"] == len(records), "every report is used"
    # A group's estimate is that of its reports alone.
    north = write_lines(tmp_path / "north.jsonl", by_group({"north": 9}))
    alone = run_estimate(tmp_path / "north", small_text, [north])
    own = [e for e in found.estimates if e["group"] == "north"]
    for one, other in zip(own, alone.estimates, strict=True):
        place = ("group", "window_start", "window_end")
        assert {k: v for k, v in one.items() if k not in place} == {
            k: v for k, v in other.items() if k not in place
        }


def test_groups_at_the_cap_are_chosen_by_reports_then_by_name(
    grouped: str, tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    records = by_group({"d": 2, "c": 2, "b": 2, "a": 2, "z": 3})
    found = run_estimate(tmp_path, grouped, [write_lines(tmp_path / "r.jsonl", records)])
    assert [(s.group, s.other_groups, s.statistic.users) for s in found.snapshots] == [
        ("a", 0, 2),
        ("b", 0, 2),
        ("z", 0, 3),
        (None, 2, 4),
    ]


def test_windows_stand_in_the_order_of_time_also_within_a_second(
    small_text: str, tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    times = [-1000, -250, 0, 250, 1000, 1250]
    inputs = write_lines(tmp_path / "r.jsonl", [report(f"u{t}", event_time=t) for t in times])
    found = run_estimate(
        tmp_path,
        small_text + "windows: {size: 250ms}\npublish: {at_least: 1}\n",
        [inputs],
        "--from",
        "1960-01-01T00:00:00Z",
    )
    starts = [e["window_start"] for e in found.estimates if e["name"] == "mean"]
    assert starts == [rfc3339(time) for time in times]


@pytest.mark.parametrize("name", ["[/b]", "[red]", "a\nb", "🚲"])
def test_a_groups_name_is_shown_as_it_is(
    name: str, grouped: str, tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    # Names come with the reports: anybody may have written them.
    found = run_estimate(tmp_path, grouped, [write_lines(tmp_path / "r.jsonl", by_group({name: 2}))])
    assert found.code == 0
    assert {e["group"] for e in found.estimates} == {name}
    assert all(part in found.out for part in name.split("\n"))


@pytest.fixture(scope="module")
def values() -> Any:
    return np.random.default_rng(2).beta(2, 5, 4000)


def reports_of(sent: list[Any], mechanisms: list[Any]) -> list[Any]:
    """Each channel's histogram, from what was sent."""
    return [
        np.bincount(m.bucketise(y, 8), minlength=m.cells(8)) for m, y in zip(mechanisms, sent, strict=True)
    ]


def test_versions_by_field_are_channels_of_their_own_and_estimates_use_both(
    values: Any, tmp_path: Path, simulate: Any, write_reports: Any, run_estimate: Any
) -> None:
    study = parse_study(BY_FIELD)
    old = simulate(study, "x", values[:2000], seed=1, versions={"a": "old"})
    new = simulate(study, "x", values[2000:], seed=2, versions={"a": "new"})
    write_reports(tmp_path / "in" / "old", old)
    write_reports(tmp_path / "in" / "new", new)
    found = run_estimate(tmp_path, BY_FIELD, [tmp_path / "in" / "*" / "*.avro"])
    assert found.code == 0, found.err
    (snapshot,) = found.snapshots
    mechanisms = [version.mechanism for version in study.attribute("x").versions]
    assert [m.epsilon for m in mechanisms] == [0.5, 4.0, 2.0]
    sent = [old[0].payloads, new[0].payloads, np.concatenate([old[1].payloads, new[1].payloads])]
    for histogram, expected in zip(snapshot.statistic.histograms, reports_of(sent, mechanisms), strict=True):
        assert np.array_equal(histogram, expected)
    for line in found.estimates:
        assert line["reports"] == (4000 if line["name"] == "a_only" else 8000)
        assert line["users"] == 4000
    # ivw is unbiased: four of its own standard errors, with fixed seeds. Taking the old reports for new
    # ones would weight their noise (20 times the variance) as if it were none.
    mean = found.estimates[0]
    assert abs(mean["mean"] - values.mean()) < 4 * mean["standard_error"]
    weights = mean["details"]["weights"]
    assert list(weights) == ["a@old", "a@new", "b"]
    assert weights["a@new"] > 10 * weights["a@old"]
    assert {e["epsilon"]: e["users"] for e in found.json("ledger.json")[0]["spent"]} == {2.5: 2000, 6.0: 2000}


def test_versions_by_time_are_channels_of_their_own(
    values: Any, tmp_path: Path, simulate: Any, write_reports: Any, run_estimate: Any
) -> None:
    study = parse_study(BY_TIME)
    sent = simulate(study, "x", values, seed=3, start=START, spread=2 * HOUR, services=["a"])
    write_reports(tmp_path / "in", sent)
    found = run_estimate(tmp_path, BY_TIME, [tmp_path / "in" / "*"])
    late = sent[0].times >= START + HOUR
    assert 1500 < late.sum() < 2500
    mechanisms = [version.mechanism for version in study.attribute("x").versions]
    expected = reports_of([sent[0].payloads[~late], sent[0].payloads[late]], mechanisms[:2])
    histograms = found.snapshots[0].statistic.histograms
    assert np.array_equal(histograms[0], expected[0])
    assert np.array_equal(histograms[1], expected[1])
    assert not histograms[2].any()
    assert found.code == 0


def test_a_report_of_no_version_is_a_dead_letter(
    tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    records = [
        report("u1", app="1.0"),
        report("u2", app="1.1"),
        report("u3", app="new"),
        report("u4", app="2"),
    ]
    # Neither the name of a version that lists its values, nor no version at all.
    records += [report("u5", app="old"), report("u6"), report("u7", service="b")]
    # At epsilon 4 reports lie within 1.313: 3.0 is one of epsilon 0.5 alone.
    records += [report("u8", app="1.0", payload=3.0), report("u9", app="new", payload=3.0)]
    found = run_estimate(tmp_path, BY_FIELD, [write_lines(tmp_path / "r.jsonl", records)])
    assert found.accounting["dead_letters_by_reason"] == {
        "payload_outside_mechanism": 1,
        "unknown_version": 3,
    }
    assert [int(h.sum()) for h in found.snapshots[0].statistic.histograms] == [3, 1, 1]


def test_two_versions_of_a_service_are_one_service_to_a_user(
    tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    records = [report("u1", app="new", event_time=START + 1), report("u1", app="1.0")]
    found = run_estimate(tmp_path, BY_FIELD, [write_lines(tmp_path / "r.jsonl", records)])
    assert (found.accounting["used"], found.accounting["duplicates"]) == (1, 1)
    assert [int(h.sum()) for h in found.snapshots[0].statistic.histograms] == [1, 0, 0]


@pytest.mark.parametrize("text", [BY_FIELD, BY_TIME])
def test_statistics_of_another_epsilon_have_another_fingerprint_and_refuse_to_merge(
    text: str, tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    inputs = write_lines(tmp_path / "r.jsonl", [report("u1", app="new", event_time=START + HOUR)])
    one = run_estimate(tmp_path / "one", text, [inputs]).snapshots[0].statistic
    again = run_estimate(tmp_path / "again", text, [inputs]).snapshots[0].statistic
    changed = text.replace("epsilon: 4.0", "epsilon: 3.0")
    other = run_estimate(tmp_path / "other", changed, [inputs]).snapshots[0].statistic
    assert merge([one, again]).reports == 2
    assert one.fingerprint != other.fingerprint
    with pytest.raises(ValueError, match="different channels"):
        merge([one, other])


def test_a_version_may_begin_or_end_at_time_zero(
    tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    text = BY_TIME.replace("2026-11-20T11:00:00Z", "1970-01-01T00:00:00Z")
    records = [report("u1", event_time=-1), report("u2", event_time=0), report("u3", event_time=1)]
    inputs = write_lines(tmp_path / "r.jsonl", records)
    found = run_estimate(tmp_path, text, [inputs], "--from", "1960-01-01T00:00:00Z")
    assert found.err == ""
    assert [int(h.sum()) for h in found.snapshots[0].statistic.histograms] == [1, 2, 0]
    assert json.loads((tmp_path / "output" / "accounting.json").read_text())["dead_letters"] == 0

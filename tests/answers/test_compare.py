"""Estimates against the truth: the people of the estimate's window and group, and the errors themselves."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from ldpbeam import empty
from ldpbeam.answers.people import People
from ldpbeam.answers.tables import print_estimates
from ldpbeam.answers.truth import errors_of
from ldpbeam.command_line.checks import true_values
from ldpbeam.domains import KeyValuePairs
from ldpbeam.errors import UserError
from ldpbeam.estimators import Estimate
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.windows import Span

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
STUDY = parse_study(
    """
study: compare
attributes:
  x:
    domain: {numeric: [10, 18]}
    buckets: 4
    services: {a: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {all: {estimator: ems}}
  colour:
    domain: {categories: [red, green, blue]}
    services: {shop: {mechanism: grr, epsilon: 1.0}}
    estimates: {all: {estimator: mle}}
  v:
    domain: {coordinates: [north, up], values: [0, 8]}
    buckets: 4
    services: {a: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {all: {estimator: ems}}
  basket:
    domain: {keys: [milk, bread, tea], values: [0, 5]}
    services: {a: {mechanism: privkv, epsilon: 1.0}}
    estimates: {all: {estimator: key_value}}
windows: {size: 1h}
groups: {field: region}
"""
)


def people(values: list[Any], times: list[int] | None = None, groups: list[Any] | None = None) -> People:
    return People(
        np.array(values), None, None if times is None else np.array(times),
        None if groups is None else pa.array(groups, pa.string()), 0, 0,
    )  # fmt: skip


def solved(
    attribute: str = "x",
    name: str = "all",
    window: tuple[int, int] | None = None,
    group: str | None = None,
    other_groups: int = 0,
    distribution: list[float] | None = None,
    **answer: Any,
) -> EstimateRecord:
    shares = None if distribution is None else np.array(distribution)
    known: dict[str, Any] = {"estimator": "em", "services": ("a",), "reports": 1, "users": 1, **answer}
    found = Estimate(**known, distribution=shares)
    snapshot = Snapshot(attribute, window, group, other_groups, empty(STUDY.attribute(attribute)))
    return estimate_record(STUDY, snapshot, name, found)


def test_errors_of_a_distribution_by_hand() -> None:
    # Buckets of width 2: the truth has shares 1/2, 1/2, 0, 0 and mean 12.
    found = errors_of(
        solved(distribution=[0.25, 0.25, 0.25, 0.25], mean=14.0), STUDY, people([10.5, 11.5, 12.5, 13.5])
    )
    # The distribution functions differ by 1/4, 1/2, 1/4 at the three inner edges, times the width.
    assert found["wasserstein"] == pytest.approx((0.25 + 0.5 + 0.25) * 2)
    assert found["kolmogorov_smirnov"] == pytest.approx(0.5)
    # sqrt of half of D(p || m) + D(q || m) with m = (3/8, 3/8, 1/8, 1/8).
    one = 0.5 * math.log(0.25 / 0.375) + 0.5 * math.log(0.25 / 0.125)
    other = math.log(0.5 / 0.375)
    assert found["jensen_shannon"] == pytest.approx(math.sqrt((one + other) / 2))
    assert found["mean"] == pytest.approx(2.0)
    assert "mean_absolute_error" not in found


def test_errors_of_frequencies_stand_beside_the_uniform_guess() -> None:
    found = errors_of(
        solved(attribute="colour", distribution=[0.5, 0.2, 0.3]), STUDY, people([0, 0, 0, 1, 2])
    )
    assert found == {
        "mean_absolute_error": pytest.approx((0.1 + 0 + 0.1) / 3),
        "uniform_guess": pytest.approx((0.6 - 1 / 3 + 2 * (1 / 3 - 0.2)) / 3),
    }


def test_errors_of_a_coordinate_are_those_of_its_own_values() -> None:
    somebody = people([[1.0, 5.0], [3.0, 7.0]])
    found = errors_of(solved(attribute="v.up", distribution=[0, 0, 1, 0], mean=5.5), STUDY, somebody)
    # Buckets of width 2: of the values 5 and 7 one is in the last.
    assert (found["wasserstein"], found["kolmogorov_smirnov"]) == (1.0, 0.5)
    assert found["mean"] == -0.5
    assert errors_of(solved(attribute="v.north", mean=5.5), STUDY, somebody) == {"mean": 3.5}


def test_errors_of_keys_are_of_their_frequencies_and_of_the_means_of_keys_that_somebody_has() -> None:
    # Two of four have milk, of values 1 and 2, and one of them tea, of 5; nobody has bread.
    pairs = KeyValuePairs(np.array([0, 2, 3, 3, 3]), np.array([0, 2, 0]), np.array([0.2, 1.0, 0.4]))
    somebody = replace(people([]), values=pairs)
    answer = {"frequencies": np.array([0.4, 0.1, 0.35]), "key_means": np.array([1.75, 3.0, 4.0])}
    found = errors_of(solved(attribute="basket", **answer), STUDY, somebody)
    assert found == {
        "mean_absolute_error": pytest.approx((0.1 + 0.1 + 0.1) / 3),
        "key_mean_error": pytest.approx((0.25 + 1.0) / 2),
    }


def test_an_estimate_of_the_mean_alone_has_one_error() -> None:
    assert errors_of(solved(mean=11.0), STUDY, people([12.0, 13.0])) == {"mean": pytest.approx(-1.5)}


@pytest.mark.parametrize(
    ("time", "inside"), [(START - 1, False), (START, True), (START + HOUR - 1, True), (START + HOUR, False)]
)
def test_people_are_those_of_the_window_to_the_millisecond(time: int, inside: bool) -> None:
    found = errors_of(solved(mean=11.0, window=(START, START + HOUR)), STUDY, people([12.0], [time]))
    assert found == ({"mean": pytest.approx(-1.0)} if inside else {})


def test_people_are_those_of_the_group() -> None:
    some = people([11.0, 12.0, 13.0], groups=["north", "south", "north"])
    assert errors_of(solved(mean=0.0, group="north"), STUDY, some) == {"mean": pytest.approx(-12.0)}
    assert errors_of(solved(mean=0.0, group="west"), STUDY, some) == {}


def test_the_estimate_of_reports_without_a_group_is_compared_with_people_without_one() -> None:
    some = people([11.0, 12.0, 17.0], groups=["north", "south", None])
    assert errors_of(solved(mean=0.0, group=None), STUDY, some) == {"mean": pytest.approx(-17.0)}


def test_the_estimate_of_other_groups_is_not_compared_with_everybody() -> None:
    # An estimate alone does not say which groups the rest are: no error, or that of the right people.
    some = people([11.0, 12.0, 17.0], groups=["north", "south", "west"])
    assert errors_of(solved(mean=0.0, group=None, other_groups=2), STUDY, some) == {}


def test_people_without_times_or_groups_are_compared_whole() -> None:
    window = START, START + HOUR
    some = people([11.0, 13.0])
    assert errors_of(solved(mean=0.0, group="north", window=window), STUDY, some) == {
        "mean": pytest.approx(-12.0)
    }


@pytest.mark.parametrize("terminal", [True, False])
def test_the_table_shows_every_number_in_full_however_narrow_the_terminal(terminal: bool) -> None:
    shown = solved(
        name="together", estimator="ule", reports=1_234_567, users=765_432, n_iterations=237, mean=50.3062,
        standard_error=3.01, distribution=[0.5, 0.25, 0.25, 0.0], window=(START, START + HOUR),
    )  # fmt: skip
    errors = {"wasserstein": 2.404, "kolmogorov_smirnov": 0.04577, "jensen_shannon": 0.1222, "mean": -1.058}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_estimates(Console(force_terminal=terminal, width=80), [shown], [errors])
    numbers = ["1,234,567", "765,432", "237", "50.3062", "10.2", "12", "15.6"]
    for text in [*numbers, "2.404", "0.04577", "0.1222", "-1.058", "2026-11-20T10:00:00Z", "together", "ule"]:
        assert text in out.getvalue()


def test_without_windows_only_people_of_the_runs_span_are_compared() -> None:
    some = people([12.0, 14.0, 18.0], [START, START + HOUR - 1, START + HOUR])
    span = Span(START, START + HOUR)
    assert errors_of(solved(mean=13.0), STUDY, some, span) == {"mean": pytest.approx(0.0)}


def asked(file: Path, **columns: str) -> argparse.Namespace:
    names = ("value", "key", "user", "time", "weight", "group")
    given = {f"{name}_column": columns.get(name) for name in names}
    return argparse.Namespace(truth=str(file), attribute="x", **given)


@pytest.mark.parametrize(
    ("times", "groups", "columns", "missing"),
    [
        (True, False, {}, "--time-column"),
        (True, True, {"group": "g"}, "--time-column"),
        (False, True, {}, "--group-column"),
        (True, True, {"time": "t"}, "--group-column"),
        (True, True, {"time": "t", "group": "g"}, None),
        (False, False, {}, None),
    ],
)
def test_a_truth_without_the_column_that_parts_the_people_is_refused(
    times: bool, groups: bool, columns: dict[str, str], missing: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    file.write_text("v,t,g\n12,2026-11-20T10:00:00Z,north\n")
    options = asked(file, value="v", **columns)
    if missing is None:
        found = true_values(options, STUDY, times=times, groups=groups)
        assert found.count == 1
        return
    with pytest.raises(UserError, match=rf"compares each estimate .* add {missing} COLUMN"):
        true_values(options, STUDY, times=times, groups=groups)


def test_values_of_a_truth_that_are_moved_or_left_out_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "people.csv"
    file.write_text("v\n12\n19\n11\nn/a\n")
    true_values(asked(file, value="v"), STUDY, times=False, groups=False)
    said = capsys.readouterr().err
    assert "1 row has no usable value and was left out; one has 'n/a'" in said
    assert "1 value lies outside the domain and was clipped to it" in said
    file.write_text("v\n1200\n1900\n")
    with pytest.raises(UserError, match="every value lies outside of the domain of 'x'"):
        true_values(asked(file, value="v"), STUDY, times=False, groups=False)


def test_a_truth_of_other_people_and_a_group_field_that_no_report_has_are_said(
    tmp_path: Path, run_estimate: Any, write_lines: Any, make_people: Any, small_text: str
) -> None:
    sent = [{"user_id": f"u{i}", "attribute": "x", "service": "a", "payload": 0.5} for i in range(3)]
    people = make_people(tmp_path / "people.csv", [0.2, 0.4], area=["north", "south"])
    ran = run_estimate(
        tmp_path, small_text + "groups: {field: region}\n", [write_lines(tmp_path / "sent.jsonl", sent)],
        "--truth", people, "--value-column", "value", "--group-column", "area",
    )  # fmt: skip
    assert ran.code == 0
    assert "--truth: nobody in the file belongs to the window and group of an estimate" in ran.err
    assert "no estimated report has the field 'region'" in ran.err

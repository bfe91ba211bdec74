"""``ldpbeam plan``: errors before any report, by formula."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.domains import Numeric
from ldpbeam.mechanisms import Piecewise
from ldpbeam.planning.planned import computed
from ldpbeam.trials.populations import drawn, names_for
from ldpbeam.trials.trial import trial

STUDY = """\
study: plan
attributes:
  minutes:
    domain: {numeric: [0, 100]}
    buckets: 64
    services: {a: {mechanism: piecewise, epsilon: 2.0}}
    estimates: {mean: {estimator: ivw}, shape: {estimator: ems}}
  app:
    domain: {categories: [mail, maps, chat]}
    services: {a: {mechanism: grr, epsilon: 1.0}}
    estimates: {shares: {estimator: norm_sub}}
  pulse:
    domain: {coordinates: [morning, evening], values: [0, 1]}
    buckets: 16
    services: {a: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
  apps:
    domain: {keys: [mail, maps], values: [0, 1]}
    services: {a: {mechanism: pckv_ue, epsilon: 2.0, padding: 1}}
    estimates: {keys: {estimator: pckv_em}}
"""


@pytest.fixture
def plan(command: Any, tmp_path: Path) -> Callable[..., Any]:
    """Runs ``ldpbeam plan`` on the study."""
    (tmp_path / "study.yaml").write_text(STUDY)
    return lambda *options: command("plan", "--study", tmp_path / "study.yaml", *options)


def test_errors_fall_with_the_root_of_the_people(plan: Any) -> None:
    few, many = (json.loads(plan("--users", n, "--json").out) for n in (1_000, 100_000))
    assert [line["attribute"] for line in few] == [
        "minutes", "minutes", "app", "pulse.morning", "pulse.evening",
    ]  # fmt: skip
    for one, other in zip(few, many, strict=True):
        assert other["error"] == pytest.approx(one["error"] / 10)
        assert other["least_error"] == pytest.approx(one["least_error"] / 10)


def test_it_says_the_finest_detail_and_how_wide_certain_intervals_will_be(plan: Any) -> None:
    few, many = (json.loads(plan("--users", n, "--json").out) for n in (10_000, 80_000))
    # It falls as the cube root of the people: to a half.
    assert 0.4 < many[1]["finest_detail"] / few[1]["finest_detail"] < 0.6
    # All numbers of an estimate hold together, and the finest detail is of the median alone.
    assert 0.99 < many[1]["certain_widths"]["quantile 0.5"] / (100.0 * many[1]["finest_detail"]) < 1.4
    # An estimate of a mean, and one of categories.
    for line in (few[0], few[2]):
        assert line["finest_detail"] is None and line["certain_widths"] == {}
    said = plan("--users", 10_000).out
    assert f"show no detail finer than {few[1]['finest_detail']:.0%} of the range" in said.replace("\n", " ")


def test_a_simulated_mean_is_as_far_off_as_the_formula_says() -> None:
    study = ldp.Study.from_yaml(STUDY)
    formula, *_ = computed(study, {"minutes"}, 500, None)
    rows = ldp.evaluate(study, "minutes", users=[500], populations=["even"], trials=60).rows
    [simulated] = [row for row in rows if (row["estimate"], row["error"]) == ("mean", "mean")]
    # The mean of |z| of a normal z is sqrt(2 / pi).
    scale, slack = math.sqrt(2.0 / math.pi), 4.0 * simulated["standard_error"]
    assert formula.least_error * scale - slack <= simulated["average"] <= formula.error * scale + slack


def test_a_coordinate_has_the_error_of_its_part_of_the_people(plan: Any) -> None:
    ran = plan("--users", 3_000, "--attribute", "pulse", "--error", 0.1, "--json")
    variance = Piecewise(1.0).variance(np.linspace(0.0, 1.0, 1_001))
    for line in json.loads(ran.out):
        least, most = (1_500 * line[error] ** 2 for error in ("least_error", "error"))
        assert variance.min() < least < most < variance.max()
        assert line["users_for_error"] == pytest.approx(3_000 * (line["error"] / 0.1) ** 2, rel=1e-2)


def test_an_estimate_that_has_no_mean_of_some_people_has_the_errors_of_others() -> None:
    study = ldp.Study.from_yaml(
        "study: cut\nattributes:\n  x:\n    domain: {numeric: [0, 1]}\n    buckets: 64\n"
        "    services: {a: {mechanism: binned, epsilon: 0.1}}\n    estimates: {cut: {estimator: base_cut}}\n"
    )
    rows = [row for row in ldp.evaluate(study, users=[1_000], trials=3).rows if row["error"] == "mean"]
    # All shares may be cut to zero.
    assert 0 < sum(row["trials"] for row in rows) < 3 * len(names_for(Numeric(0.0, 1.0)))


def test_a_bound_that_is_not_computed_is_not_said_to_be_none(command: Any, tmp_path: Path) -> None:
    services = "services: {a: {mechanism: grr, epsilon: 1}}\n    estimates: {shares: {estimator: norm_sub}}"
    attributes = "".join(
        f"  {name}:\n    domain: {{categories: {categories}}}\n    {services}\n"
        for name, categories in (("few", 2_048), ("many", 2_049))
    )
    (tmp_path / "study.yaml").write_text(f"study: fake\nattributes:\n{attributes}")
    asked = "plan", "--study", tmp_path / "study.yaml", "--users", 300
    few, many = json.loads(command(*asked, "--json").out)
    assert few["one_percent_fake"] > 0
    assert many["one_percent_fake"] is None
    assert "have no such bound, or too many categories to try every report" in command(*asked).out


@pytest.mark.parametrize("many", ["repeats: all", "duplicates: keep"])
def test_fake_users_who_count_several_times_have_no_bound(command: Any, tmp_path: Path, many: str) -> None:
    (tmp_path / "study.yaml").write_text(f"{many}\n{STUDY}")
    lines = json.loads(command("plan", "--study", tmp_path / "study.yaml", "--users", 300, "--json").out)
    assert lines and all(line["one_percent_fake"] is None for line in lines)


def test_what_has_no_formula_is_named(plan: Any) -> None:
    ran = plan("--users", 300)
    assert "'apps' has no line, because its error has no formula: ldpbeam evaluate measures it" in ran.out
    assert "'minutes' has no line" not in ran.out


PAIRED = """\
study: paired
attributes:
  bytes: {domain: {numeric: [1, 1000], scale: log}, services: {a: {mechanism: square_wave, epsilon: 4}}}
  size: {domain: {numeric: [0, 9]}, services: {a: {mechanism: square_wave, epsilon: 4}}}
  app: {domain: {categories: [mail, maps]}, services: {a: &grr {mechanism: grr, epsilon: 4}, b: *grr}}
pairs: {all: [bytes, size, app]}
"""


def test_scales_and_pairs_have_no_formula(command: Any, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(PAIRED)
    said = command("plan", "--study", tmp_path / "study.yaml", "--users", 400).out
    for name in ("bytes", "all.bytes_app"):
        assert f"{name!r} has no line, because its error has no formula: ldpbeam evaluate" in said


def test_a_plan_of_a_pair_is_what_is_observed() -> None:
    study = ldp.Study.from_yaml(PAIRED)
    named: dict[str, Any] = {"users": [2_000], "populations": ["related"], "trials": 6}
    planned, observed = (
        {row["error"]: row["average"] for row in ldp.evaluate(study, "all.size_app", seed=seed, **named).rows}
        for seed in (0, 100)
    )
    assert observed == pytest.approx(planned, rel=0.4) and planned["conditional_shares"] < 0.05
    # The same people, given as values.
    rng = np.random.default_rng(1)
    size, app = drawn("related", study.attribute("all.size_app").domain, 4_000, rng).T  # type: ignore[union-attr]
    values = 9 * size, np.array(["mail", "maps"])[app.astype(int)]
    (row,) = ldp.evaluate(study, "all.size_app", users=[2_000], values=values, trials=6).rows
    assert row["average"] == pytest.approx(planned["conditional_shares"], rel=0.5)
    # More noise is more error.
    assert ldp.evaluate(study, "all.size_app", epsilons=[1], **named).rows[0]["average"] > row["average"]


def test_pairs_have_one_estimator() -> None:
    study = ldp.Study.from_yaml(PAIRED)
    with pytest.raises(ldp.StudyError, match="is a pair: other epsilons can be tried"):
        ldp.evaluate(study, "all.size_app", mechanisms=["oue"])
    with pytest.raises(ldp.StudyError, match=r"no attribute 'all'; there are: .*all\.size_app"):
        ldp.evaluate(study, "all")


@pytest.mark.parametrize("design", ["warner, p: 0.8", "crosswise, p: 0.2", "kuk, p: [0.8, 0.2]"])
def test_the_error_of_a_design_is_that_of_its_formula(design: str) -> None:
    study = ldp.Study.from_yaml(f"""\
study: s
attributes:
  x:
    domain: {{categories: ["yes", "no"]}}
    services: {{a: {{mechanism: matrix, epsilon: 1.3863, design: {design}}}}}
    estimates: {{e: {{estimator: inversion}}}}
""")
    (planned,) = computed(study, {"x"}, 1_000, None)

    def draw(people: int, rng: np.random.Generator) -> Any:
        return (rng.random(people) >= 0.3).astype(np.int64)

    errors = [trial(study, "x", draw, 1_000, seed)["e"]["mean_absolute_error"] for seed in range(60)]
    assert 0.8 < math.sqrt(np.mean(np.square(errors))) / planned.error < 1.25


@pytest.mark.parametrize(
    ("error", "people"), [("1e300", 1), ("1e-5", None), ("1e-300", None), ("5e-324", None)]
)
def test_any_error_has_a_number_of_people(plan: Any, error: str, people: int | None) -> None:
    asked = ("--users", 10, "--attribute", "minutes", "--error", error)
    assert {line["users_for_error"] for line in json.loads(plan(*asked, "--json").out)} == {people}
    assert ("more than 1,000,000,000,000" in plan(*asked).out) == (people is None)


def test_a_table_says_how_many_people_an_error_needs(plan: Any) -> None:
    ran = plan("--users", 1_000, "--error", 0.5, "--attribute", "minutes")
    [enough] = [
        line["users_for_error"]
        for line in json.loads(plan("--users", 1_000, "--error", 0.5, "--attribute", "minutes", "--json").out)
        if line["estimate"] == "mean"
    ]
    assert f"{enough:,}" in ran.out
    assert "people for 0.5" in ran.out

"""``ldpbeam diff``: what is equal, what differs by less than its error, and what by more."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from ldpbeam.schemas.study.yaml_file import parse_study

TEXT = """\
study: two
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 8
    quantiles: [0.5]
    services: {a: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}, shape: {estimator: ems}}
  colour:
    domain: {categories: [red, green, blue]}
    services: {a: {mechanism: grr, epsilon: 1.0}}
    estimates: {shares: {estimator: inversion}}
"""
PEOPLE = 4000


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, run_estimate: Any, simulate: Any, write_reports: Any
) -> Callable[..., Path]:
    """A run: (seed, mean of x, share of red)."""

    def make(seed: int, mean: float = 4.0, red: float = 0.5, text: str = TEXT) -> Path:
        folder = tmp_path_factory.mktemp("run")
        rng, study = np.random.default_rng(seed), parse_study(text)
        sent = simulate(study, "x", np.clip(rng.normal(mean, 1, PEOPLE), 0, 10), seed=seed)
        values = rng.choice(3, PEOPLE, p=[red, 0.7 - red, 0.3])
        sent += simulate(study, "colour", values, seed=seed + 1)
        ran = run_estimate(folder, text, write_reports(folder / "in", sent))
        assert ran.code == 0, ran.err
        return Path(ran.path)

    return make


@pytest.fixture(scope="module")
def first(run: Callable[..., Path]) -> Path:
    return run(1)


def numbers_of(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(own["estimate"], own["number"]): own for own in found["numbers"]}


def lines_of(folder: Path) -> dict[str, Any]:
    lines = map(json.loads, (folder / "estimates.jsonl").read_text().splitlines())
    return {line["name"]: line for line in lines}


def test_a_run_does_not_differ_from_itself(first: Path, command: Any) -> None:
    ran = command("diff", first, first)
    assert (ran.code, ran.err) == (0, "")
    assert "0 of " in ran.out and " 0 by more than their error" in ran.out


def test_each_number_is_compared_with_the_errors_of_both(first: Path, run: Any, command: Any) -> None:
    second = run(3)
    ran = command("diff", first, second, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["differs"]) == (0, False)
    numbers, ours, theirs = numbers_of(found), lines_of(first), lines_of(second)
    mean = numbers["mean", "mean"]
    assert (mean["first"], mean["second"]) == (ours["mean"]["mean"], theirs["mean"]["mean"])
    assert mean["standard_error"] == math.hypot(*(own["mean"]["standard_error"] for own in (ours, theirs)))
    assert mean["first"] != mean["second"]
    # Intervals of categories that are not cut have the same width on both sides.
    errors = []
    for own in (ours, theirs):
        ends, value = own["shares"]["intervals"]["frequencies"], own["shares"]["frequencies"][0]
        wide = max(ends["high"][0] - value, value - ends["low"][0], (ends["high"][0] - ends["low"][0]) / 2)
        errors.append(wide / norm.ppf(0.975))
    assert numbers["shares", "share of red"]["standard_error"] == pytest.approx(math.hypot(*errors))
    judged = sum(own["standard_error"] is not None for own in found["numbers"])
    assert found["z"] == pytest.approx(norm.ppf(1 - 0.01 / 2 / judged))
    # 8 buckets, mean and one quantile of the shape (and its variance), a mean, three shares.
    names = {name for name in numbers if name[0] == "shape"}
    assert {"mean", "quantile 0.5"} <= {number for _, number in names}
    assert sum(number.startswith("share in ") for _, number in names) == 8


def test_other_people_differ_by_more_than_the_error(first: Path, run: Any, command: Any) -> None:
    second = run(5, mean=6.0, red=0.2)
    ran = command("diff", first, second, "--json")
    numbers = numbers_of(json.loads(ran.out))
    assert ran.code == 1
    for place in (("mean", "mean"), ("shares", "share of red"), ("shares", "share of green")):
        own = numbers[place]
        assert own["beyond"] and abs(own["second"] - own["first"]) > 4 * own["standard_error"]
    assert not numbers["shares", "share of blue"]["beyond"]
    said = command("diff", first, second)
    assert said.code == 1
    assert "share of red" in said.out and "share of blue" not in said.out


def test_estimates_that_only_one_has_and_other_buckets(first: Path, run: Any, command: Any) -> None:
    text = TEXT.replace("buckets: 8", "buckets: 4").replace(
        "mean: {estimator: ivw}", "average: {estimator: ivw}"
    )
    second = run(1, text=text)
    ran = command("diff", first, second, "--json")
    found = json.loads(ran.out)
    assert ran.code == 1
    assert [own["estimate"] for own in found["only_first"]] == ["mean"]
    assert [own["estimate"] for own in found["only_second"]] == ["average"]
    assert [own["estimate"] for own in found["unlike"]] == ["shape"]
    said = command("diff", first, second)
    assert f"1 estimate only in {first}: x mean" in said.out
    assert "1 estimate with other buckets or names: x shape" in said.out
    assert "different studies" in said.err


def test_numbers_without_an_error_are_not_judged(first: Path, run: Any, command: Any) -> None:
    text = TEXT + "intervals: false\n"
    numbers = numbers_of(json.loads(command("diff", run(1, text=text), run(5, 6.0, 0.2, text), "--json").out))
    share = numbers["shares", "share of red"]
    assert (share["standard_error"], share["beyond"]) == (None, False)
    assert abs(share["second"] - share["first"]) > 0.2
    assert numbers["mean", "mean"]["beyond"]


def test_windows_and_groups_are_compared_with_their_own(folders: dict[str, Path], command: Any) -> None:
    """The scheduled and the batch run of the same reports have the same estimates."""
    ran = command("diff", folders["batch"], folders["scheduled"], "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["only_first"], found["only_second"]) == (0, [], [])
    assert len(found["numbers"]) > 50
    assert all(own["first"] == own["second"] for own in found["numbers"])

"""``ldpbeam evaluate``: trials over populations, epsilons and sizes; resumed, and in processes."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.domains import Categories, KeyValuePairs, KeyValues, Numeric, Vector
from ldpbeam.pipelines.simulated import evaluation
from ldpbeam.pipelines.simulated.evaluation import with_epsilon
from ldpbeam.populations import drawn, names_for
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY = """\
study: evaluated
attributes:
  minutes:
    domain: {numeric: [0, 100]}
    buckets: 32
    services: {a: {mechanism: piecewise, epsilon: 2.0}, b: {mechanism: square_wave, epsilon: 2.0}}
    estimates: {mean: {estimator: ivw, services: [a]}, shape: {estimator: ems, services: [b]}}
"""


@pytest.fixture
def evaluate(command: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Runs ``ldpbeam evaluate`` on the study, into the folder ``out``."""
    (tmp_path / "study.yaml").write_text(STUDY)
    return lambda *options: command(
        "evaluate", "--study", tmp_path / "study.yaml", "--output", tmp_path / "out", *options
    )


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "out" / "table.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


SMALL = [
    "--population",
    "skewed",
    "--epsilon",
    "1",
    "4",
    "--users",
    "300",
    "600",
    "--trials",
    "2",
    "--no-figures",
]


def test_a_table_has_a_row_for_every_case_estimate_and_error(
    evaluate: Callable[..., Any], tmp_path: Path
) -> None:
    ran = evaluate(*SMALL)
    assert (ran.code, ran.err) == (0, "")
    rows = table(tmp_path)
    cases = {(row["epsilon"], row["users"]) for row in rows}
    assert cases == {(e, n) for e in ("1.0", "4.0") for n in ("300", "600")}
    kinds = {row["error"] for row in rows if row["estimate"] == "shape"}
    assert kinds == {
        "wasserstein", "kolmogorov_smirnov", "jensen_shannon", "mean", "variance", "quantiles",
    }  # fmt: skip
    assert {row["error"] for row in rows if row["estimate"] == "mean"} == {"mean"}
    assert {row["trials"] for row in rows} == {"2"}
    assert "8 trials" in ran.out


def test_what_is_there_is_not_computed_again(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    evaluate(*SMALL)
    kept = tmp_path / "out" / "trials.jsonl"
    whole, rows = kept.read_text(), table(tmp_path)
    lines = whole.splitlines(keepends=True)
    # A kill in the middle of a line leaves a part of it.
    marked = json.loads(lines[0])
    marked["errors"]["mean"]["mean"] = 77.0
    kept.write_text(json.dumps(marked) + "\n" + "".join(lines[1:4]) + lines[4][:30])
    evaluate(*SMALL)
    again = kept.read_text().splitlines(keepends=True)
    assert sorted(again[1:]) == sorted(lines[1:])
    changed = [one for one, other in zip(table(tmp_path), rows, strict=True) if one != other]
    assert len(changed) == 1
    assert changed[0]["error"] == "mean"
    assert float(changed[0]["mean"]) > 30


def test_processes_change_no_number(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    evaluate(*SMALL, "--processes", "1")
    rows = table(tmp_path)
    (tmp_path / "out" / "trials.jsonl").unlink()
    evaluate(*SMALL, "--processes", "2")
    assert table(tmp_path) == rows


def test_other_people_come_from_a_file(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("m\n" + "20\n" * 50)
    ran = evaluate(
        "--data", tmp_path / "people.csv", "--value-column", "m", "--epsilon", "10", "--users", "4000",
        "--trials", "1", "--no-figures", "--estimators", "em",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    [row] = [row for row in table(tmp_path) if row["error"] == "mean"]
    assert (row["population"], row["estimate"], row["standard_error"]) == ("data", "em", "")
    # Everybody has 20; a bucket is 3.1 wide, so half of that is the least that can be wrong with its middle.
    assert float(row["mean"]) < 3.0


def test_other_people_are_computed_again(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    means = []
    for value in ("20", "70"):
        (tmp_path / "people.csv").write_text("m\n" + f"{value}\n" * 50)
        ran = evaluate(
            "--data", tmp_path / "people.csv", "--value-column", "m", "--users", "300", "--trials", "1",
            "--no-figures", "--estimators", "em",
        )  # fmt: skip
        assert (ran.code, ran.err) == (0, "")
        means.append([row["mean"] for row in table(tmp_path)])
        assert len((tmp_path / "out" / "trials.jsonl").read_text().splitlines()) == len(means)
    assert means[0] != means[1]


def test_rows_without_a_number_are_told(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("m\n20\nmany\nnan\n30\n900\n")
    asked = ("--value-column", "m", "--users", "50", "--trials", "1", "--no-figures")
    ran = evaluate("--data", tmp_path / "people.csv", *asked)
    assert ran.code == 0
    assert "2 rows have no usable value and were left out" in ran.err
    assert "1 values lie outside the domain and were clipped to it" in ran.err
    (tmp_path / "people.csv").write_text("m\n900\n-3\n")
    ran = evaluate("--data", tmp_path / "people.csv", *asked)
    assert ran.code == 2
    assert "every value lies outside of the domain of 'minutes'" in ran.err


def test_a_number_given_twice_counts_once(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    ran = evaluate(
        "--population", "even", "even", "--epsilon", "1", "1", "--users", "300", "300", "--trials", "1",
        "--no-figures",
    )  # fmt: skip
    assert "1 trial;" in ran.out
    assert {row["trials"] for row in table(tmp_path)} == {"1"}


def test_an_interrupted_evaluation_says_what_is_kept(
    evaluate: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = evaluation._one, []

    def interrupted(case: evaluation.Case) -> dict[str, dict[str, float]]:
        calls.append(case)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(case)

    monkeypatch.setattr(evaluation, "_one", interrupted)
    ran = evaluate(*SMALL, "--processes", "1")
    assert ran.code == 130
    assert "2 of 8 trials are kept; the same command computes the rest" in ran.err
    assert len((tmp_path / "out" / "trials.jsonl").read_text().splitlines()) == 2
    assert evaluate(*SMALL, "--processes", "1").code == 0
    assert len(calls) == 3 + 6


def test_figures_have_a_line_for_every_estimate(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    evaluate("--population", "even", "skewed", "--epsilon", "1", "2", "--users", "300", "--trials", "1")
    figure = (tmp_path / "out" / "mean.svg").read_text()
    ElementTree.fromstring(figure)
    for text in ("even", "skewed", "shape", "absolute error of the mean"):
        assert f">{text}<" in figure


def test_every_version_of_a_service_has_the_other_epsilon() -> None:
    text = """\
study: versions
attributes:
  x:
    domain: {numeric: [0, 1]}
    services:
      a:
        mechanism: piecewise
        epsilon: 1.0
        version_field: v
        versions: {one: {}, two: {epsilon: 2.0}}
    estimates: {mean: {estimator: ivw}}
"""
    study = parse_study(with_epsilon(text, "x", 0.5))
    assert [version.mechanism.epsilon for version in study.attribute("x").versions] == [0.5, 0.5]


DOMAINS = [
    Numeric(5.0, 9.0),
    Categories(("a", "b", "c")),
    KeyValues(("a", "b", "c"), Numeric(0.0, 1.0)),
    Vector(("a", "b"), Numeric(0.0, 1.0)),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
def test_every_population_of_a_domain_lies_in_it(domain: Any) -> None:
    rng = np.random.default_rng(3)
    for name in names_for(domain):
        values = drawn(name, domain, 500, rng)
        if isinstance(values, KeyValuePairs):
            assert values.people == 500
            values = values.values
        if isinstance(domain, Categories):
            # Of three categories a third is the first.
            assert set(values) == ({0} if name == "a_third" else {0, 1, 2})
        else:
            assert (values >= 0).all()
            assert (values <= 1).all()
        if isinstance(domain, Vector):
            assert values.shape == (500, 2)
    with pytest.raises(ValueError, match="no population is called 'other'"):
        drawn("other", domain, 5, rng)


def test_the_long_tail_is_one_over_the_rank() -> None:
    people = 60_000
    shares = (
        np.bincount(drawn("long_tail", Categories(("a", "b", "c")), people, np.random.default_rng(4)))
        / people
    )  # type: ignore[arg-type]
    expected = np.array([6, 3, 2]) / 11
    assert (np.abs(shares - expected) < 4 * np.sqrt(expected / people)).all()
    assert math.isclose(shares.sum(), 1.0)

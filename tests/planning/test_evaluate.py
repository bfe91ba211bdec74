"""``ldpbeam evaluate``: trials over populations, epsilons and sizes; resumed, and in processes."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ldpbeam as ldp
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.library.evaluate import charts_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.trials.evaluation import study_with
from ldpbeam.trials.trial import of_population, trial

STUDY = """\
study: evaluated
attributes:
  minutes:
    domain: {numeric: [0, 100]}
    buckets: 32
    services: {a: {mechanism: piecewise, epsilon: 2.0}, b: {mechanism: square_wave, epsilon: 2.0}}
    estimates: {mean: {estimator: ivw, services: [a]}, shape: {estimator: ems, services: [b]}}
"""


SMALL = (
    "--population", "skewed", "--epsilons", "1", "4", "--users", "300", "600", "--trials", "2",
    "--no-figures",
)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, command: Any) -> Path:
    """A folder with the study and, in ``out``, what one process left of a small evaluation."""
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "study.yaml").write_text(STUDY)
    ran = evaluated(command, folder, *SMALL, "--processes", 1)
    assert (ran.code, ran.err) == (0, "")
    assert "8 trials" in ran.out
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the study."""
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def evaluated(command: Callable[..., Any], folder: Path, *options: object) -> Any:
    return command("evaluate", "--study", folder / "study.yaml", "--output", folder / "out", *options)


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "out" / "table.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_table_has_a_row_for_every_case_estimate_and_error(small: Path) -> None:
    rows = table(small)
    cases = {(row["epsilon"], row["users"]) for row in rows}
    assert cases == {(e, n) for e in ("1.0", "4.0") for n in ("300", "600")}
    kinds = {row["error"] for row in rows if row["estimate"] == "shape"}
    assert kinds == {
        "wasserstein", "kolmogorov_smirnov", "jensen_shannon", "mean", "variance", "quantiles",
    }  # fmt: skip
    assert {row["error"] for row in rows if row["estimate"] == "mean"} == {"mean"}
    assert {row["trials"] for row in rows} == {"2"}


def test_a_trial_computes_no_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    studies = parse_study(STUDY), parse_study(f"{STUDY}intervals: false\n")
    draw = of_population(studies[0], "minutes", "skewed")
    # Nothing in a trial reads them, and they take most of its time.
    monkeypatch.setattr(StatisticIntervals, "of", None)
    errors, without = (trial(study, "minutes", draw, 300, 5) for study in studies)
    assert errors == without


def test_processes_change_no_number(small: Path, folder: Path, command: Any) -> None:
    evaluated(command, folder, *SMALL, "--processes", 2)
    assert table(folder) == table(small)


def test_people_may_come_from_a_file(folder: Path, command: Any) -> None:
    for value in (20, 70):
        (folder / "people.csv").write_text("m\n" + f"{value}\n" * 50)
        ran = evaluated(
            command, folder, "--data", folder / "people.csv", "--value-column", "m", "--epsilons", "10", "10",
            "--users", "4000", "4000", "--trials", "1", "--no-figures", "--estimators", "em",
        )  # fmt: skip
        # A number that is given twice counts once.
        assert (ran.code, ran.err, "1 trial;" in ran.out) == (0, "", True)
        [row] = [row for row in table(folder) if row["error"] == "mean"]
        assert (row["population"], row["estimate"], row["standard_error"]) == ("data", "em", "")
        # Everybody has one value; a bucket is 3.1 wide, so its middle may be half of that off.
        assert float(row["average"]) < 3.0


def test_figures_have_a_line_for_every_estimate(tmp_path: Path) -> None:
    pytest.importorskip("altair"), pytest.importorskip("vl_convert")
    rows = [
        {"population": population, "epsilon": epsilon, "users": 300, "estimate": estimate, "error": "mean",
         "mechanism": "piecewise", "standard_error": 0.01, "average": epsilon / 10}
        for population in ("even", "skewed")
        for epsilon in (1.0, 2.0)
        for estimate in ("mean", "shape")
    ]  # fmt: skip
    charts = charts_of([*rows, {**rows[0], "error": "variance", "average": 0.0}])
    assert list(charts) == ["mean"]
    charts["mean"].save(tmp_path / "mean.svg")
    figure = (tmp_path / "mean.svg").read_text()
    ElementTree.fromstring(figure)
    for text in ("even", "skewed", "shape", "absolute error of the mean"):
        assert f">{text}<" in figure


def test_the_library_gives_the_rows_of_the_command(small: Path) -> None:
    study = ldp.Study.from_yaml(small / "study.yaml")
    found = ldp.evaluate(study, populations=["skewed"], epsilons=[1, 4], users=[300, 600], trials=2)
    wanted = table(small)
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in found.rows] == wanted
    assert found.to_arrow().num_rows == len(found.to_pandas()) == len(wanted)
    of_values = ldp.evaluate(study, values=[20.0, 30.0], users=[300], trials=1)
    assert {(row["population"], row["standard_error"]) for row in of_values.rows} == {("data", None)}


def test_mechanisms_are_tried_beside_estimators(folder: Path, command: Any) -> None:
    ran = evaluated(
        command, folder, "--population", "skewed", "--epsilons", "1", "4", "--users", "4000", "--trials", "3",
        "--mechanisms", "piecewise,stochastic_rounding", "--estimators", "ivw", "ua", "--no-figures",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    rows = table(folder)
    assert {(row["mechanism"], row["estimate"], row["epsilon"]) for row in rows} == {
        (mechanism, estimate, epsilon)
        for mechanism in ("piecewise", "stochastic_rounding")
        for estimate in ("ivw", "ua")
        for epsilon in ("1.0", "4.0")
    }
    # With a large epsilon PM's reports are near the values, and SR's are one of two numbers.
    errors = {row["mechanism"]: float(row["average"]) for row in rows if row["epsilon"] == "4.0"}
    assert 2.0 * errors["piecewise"] < errors["stochastic_rounding"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"attribute": "hours"}, "no attribute 'hours'"),
        ({"mechanisms": ["grr"]}, "mechanism grr: "),
        ({"mechanisms": ["olh"], "estimators": ["auto"]}, "mechanism olh: "),
        ({"estimators": ["mle"]}, "estimator mle: "),
        ({"epsilons": [0.0]}, "epsilon 0: a number above 0"),
        ({"populations": ["round"]}, "population round: 'minutes' can have "),
        ({"values": ["far"]}, "'minutes' is a number"),
    ],
)
def test_mistakes_of_a_program_are_named(asked: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ldp.evaluate(ldp.Study.from_yaml(STUDY), **asked)


def test_every_version_of_a_service_has_the_other_epsilon() -> None:
    text = """\
study: versions
attributes:
  x:
    domain: {numeric: [0, 1]}
    services:
      a: {mechanism: piecewise, epsilon: 1.0, version_field: v, versions: {one: {}, two: {epsilon: 2.0}}}
    estimates: {mean: {estimator: ivw}}
"""
    study = study_with(parse_study(text), "x", epsilon=0.5)
    assert [version.mechanism.epsilon for version in study.attribute("x").versions] == [0.5, 0.5]


@pytest.mark.parametrize(
    "categories", ["'1e3', '2e5', x", "'1:30', '0x1f', '1_000'", "é, '🙂', 'no', '2026-01-02'"]
)
def test_a_changed_study_has_the_texts_of_the_study(categories: str) -> None:
    text = f"""\
study: texts
attributes:
  x:
    domain: {{categories: [{categories}]}}
    services: {{a: {{mechanism: grr, epsilon: 1e-1}}}}
    estimates: {{shares: {{estimator: em, tolerance: 1e-5}}}}
windows: {{size: 1h}}
"""
    study = parse_study(text)
    for changed in (study_with(study, "x", epsilon=0.5), study_with(study, "x", estimators=["em"])):
        assert changed != study
        assert changed.attribute("x").domain == study.attribute("x").domain
    assert study_with(study, "x", epsilon=0.1) == study

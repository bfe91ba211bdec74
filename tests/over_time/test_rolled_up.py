"""Roll-ups of memoised reports that are not joined by user: wide enough, and said to be."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.memoised_reports import FLEETS, HOUR

from ldpbeam import Answers, Attribute, merge, tally
from ldpbeam.answers.rolled_up import rolled_up
from ldpbeam.answers.solve import answers
from ldpbeam.cells import Cells
from ldpbeam.estimators import estimate
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.several_windows import of_several_windows
from ldpbeam.folders.output import Output
from ldpbeam.folders.written import read_all, write_all
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.bounded import within_one
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.outputs.snapshots import Snapshot

WINDOWS, PEOPLE = 24, 400


def day_of(name: str, tmp_path: Path, seed: int = 3) -> tuple[Any, Snapshot, np.ndarray]:
    """(the study, a day that is rolled up from the hours of a fleet, people's values)."""
    fleet, rng = FLEETS[name], np.random.default_rng(seed)
    values = rng.beta(2.0, 5.0, (PEOPLE, 1)) if not fleet.size else rng.integers(0, fleet.size, (PEOPLE, 1))
    payloads = fleet.payloads(np.repeat(values, WINDOWS, axis=1), rng)
    study = fleet.study
    write_all(Output(study, str(tmp_path), "hours"), fleet.tally(fleet.service, payloads).snapshots)
    sums = rolled_up(study, read_all([f"{tmp_path}/statistics/*.avro"]), cells=Cells(24 * HOUR))
    (day,) = sums.snapshots
    return study, day, values


def test_a_roll_up_counts_the_windows_that_went_into_it(tmp_path: Path) -> None:
    _, day, _ = day_of("grr", tmp_path)
    assert day.windows == WINDOWS and day.statistic.reports == WINDOWS * PEOPLE
    # Runs and groups of one window add none, and runs without windows are one each.
    names = [f"{run}/x/{window}/{group}" for run in "ab" for window in ("1-2", "2-3") for group in "nm"]
    assert replace(day, parts=tuple(names)).windows == 2
    assert replace(day, parts=("a/x/all/", "b/x/all/n/o")).windows == 2
    assert replace(day, parts=()).windows == 1


@pytest.mark.parametrize("name", ["oue", "square_wave", "stochastic_rounding"])
def test_a_day_of_memoised_hours_says_that_its_users_were_not_brought_together(
    name: str, tmp_path: Path
) -> None:
    study, day, _ = day_of(name, tmp_path)
    (answer,) = answers(study, day).values()
    (hour,) = answers(study, replace(day, parts=())).values()
    assert f"the fewest users who can have sent them, {PEOPLE}, each with one value" in answer.warnings[-1]
    assert "24 windows were not brought together" in answer.warnings[-1]
    how = answer.intervals.methods.items()
    assert {text.rpartition("; ")[2] for part, text in how if not text.startswith("none: ")} == {
        "for the fewest users who can have reported in 24 windows"
    }
    # Hours that follow one another have answers in common, so that nothing holds at every look at their sum.
    assert "any_look" not in answer.intervals.ends and "any_look" in hour.intervals.ends
    assert "clients remember their noise" in answer.intervals.methods["any_look"]
    if answer.standard_error is not None:
        factor = study.attribute("x").versions[0].lifetime.chain.factor(WINDOWS)
        assert answer.standard_error == pytest.approx(hour.standard_error * factor**0.5)
    remembering, plain = (
        one.ends["certain"]["frequencies" if name == "oue" else "mean"].columns
        for one in (answer.intervals, hour.intervals)
    )
    if name == "oue":
        # The variance of each share over the windows of one person with one value: test_chains.
        version, (histogram,) = study.attribute("x").versions[0], day.statistic.histograms
        unbiased = version.mechanism.unbiased_frequencies(histogram, WINDOWS * PEOPLE)
        likely = np.clip(unbiased, 0.0, 1.0)
        noise = version.mechanism.share_variances(likely, histogram) / (WINDOWS * PEOPLE)
        deviation = np.sqrt(noise * version.lifetime.chain.share_factors(likely, WINDOWS))
        np.testing.assert_allclose(remembering, within_one(unbiased, deviation, 0.95), rtol=1e-9)
    assert (np.diff(remembering, axis=1) >= np.diff(plain, axis=1) - 1e-12).all()
    assert np.diff(remembering, axis=1).mean() > 1.5 * np.diff(plain, axis=1).mean()


def test_roll_ups_of_fresh_noise_have_the_intervals_that_they_had(tmp_path: Path) -> None:
    fleet, rng = FLEETS["oue"], np.random.default_rng(1)
    mechanism = fleet.study.attribute("x").versions[0].mechanism
    payloads = np.stack([mechanism.perturb(np.arange(PEOPLE) % 8, rng) for _ in range(3)], axis=1)
    plain = Attribute("x", *(getattr(fleet.study.attribute("x"), name) for name in ("domain", "buckets")), (
        replace(fleet.study.attribute("x").versions[0], lifetime=None),
    ))  # fmt: skip
    statistic = merge(
        tally(plain, PEOPLE, [Answers(0, np.arange(PEOPLE), payloads[:, window])]) for window in range(3)
    )
    answer = estimate("inversion", plain, statistic)
    wanted = WantedIntervals()
    one, several = (StatisticIntervals(plain, statistic, windows).of(answer, wanted) for windows in (1, 3))
    assert one.ends == several.ends and one.of("frequencies", "any_look") is not None
    assert of_several_windows(Question(plain, statistic, ("app",), windows=3), answer) is answer


def test_the_command_warns_writes_it_and_tests_no_fit(tmp_path: Path, command: Any) -> None:
    fleet, rng = FLEETS["grr"], np.random.default_rng(8)
    payloads = fleet.payloads(np.repeat(rng.integers(0, 8, (PEOPLE, 1)), 4, axis=1), rng)
    (tmp_path / "study.yaml").write_text(fleet.text(fleet.service))
    hours = fleet.tally(fleet.service, payloads).snapshots
    write_all(Output(fleet.study, str(tmp_path / "hours"), "hours"), hours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ran = command(
            "rollup", "--study", str(tmp_path / "study.yaml"), "--statistics",
            str(tmp_path / "hours/statistics/*.avro"), "--window", "1d", "--output", str(tmp_path / "day"),
        )  # fmt: skip
    assert ran.code == 0 and "remember their noise" in ran.err
    (line,) = (tmp_path / "day/estimates.jsonl").read_text().splitlines()
    assert "remember their noise" in json.loads(line)["warnings"][-1]
    fit = json.loads((tmp_path / "day/fit.json").read_text())
    assert fit["tests"] == [] and "share their noise" in fit["not_tested"][0]

"""``ldpbeam estimate``: the study of issue 3 from files of reports to everything a run leaves."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.statistics import Answers, tally
from ldpbeam.study import Study

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
PEOPLE = 900
WINDOWS = [(f"2026-11-20T{h}:00:00Z", f"2026-11-20T{h + 1}:00:00Z") for h in (10, 11)]
ESTIMATES = {"together": "ule", "maps_only": "ems", "mean": "ivw"}


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return 180 * np.random.default_rng(11).beta(2, 5, PEOPLE)


@pytest.fixture(scope="module")
def sent(commute: Study, values: np.ndarray, simulate: Callable[..., Any]) -> list[Any]:
    """Two hours of reports; a third of the people do not answer the survey."""
    parts = simulate(commute, "minutes", values, seed=1, start=START, spread=2 * HOUR)
    answered = np.arange(PEOPLE) % 3 != 0
    survey = parts[2]
    fields = ("users", "times", "payloads")
    own = {name: getattr(survey, name)[answered] for name in fields}
    return [*parts[:2], type(survey)(survey.attribute, survey.service, extras={}, **own)]


@pytest.fixture(scope="module")
def reports(
    sent: list[Any], tmp_path_factory: pytest.TempPathFactory, write_reports: Callable[..., Any]
) -> Path:
    folder: Path = tmp_path_factory.mktemp("reports")
    write_reports(folder, sent)
    return folder / "*.avro"


@pytest.fixture(scope="module")
def people(
    values: np.ndarray, sent: list[Any], tmp_path_factory: pytest.TempPathFactory, make_people: Any
) -> Path:
    path: Path = make_people(tmp_path_factory.mktemp("people") / "p.csv", values, t=sent[0].times)
    return path


@pytest.fixture(scope="module")
def run(
    commute_text: str,
    reports: Path,
    people: Path,
    tmp_path_factory: pytest.TempPathFactory,
    run_estimate: Callable[..., Any],
) -> Any:
    """One run of it all; most tests look at what it left."""
    options = ("--truth", people, "--value-column", "value", "--time-column", "t")
    found = run_estimate(tmp_path_factory.mktemp("run"), commute_text, [reports], *options)
    assert found.code == 0, found.err
    return found


def test_there_is_an_estimate_a_name_and_window_in_order(run: Any) -> None:
    found = [(e["window_start"], e["window_end"], e["name"], e["estimator"]) for e in run.estimates]
    assert found == [(*window, *names) for window in WINDOWS for names in ESTIMATES.items()]


def test_every_line_has_every_key(run: Any, commute: Study) -> None:
    always = {
        "study": "commute", "attribute": "minutes", "group": None, "other_groups": 0,
        "pane_index": 0, "pane_timing": "on_time", "converged": True,
    }  # fmt: skip
    for line in run.estimates:
        assert line | always == line
        assert {"name", "estimator", "window_start", "window_end", "reports", "users"} <= set(line)
        assert math.isfinite(line["mean"])
        if line["name"] == "mean":
            assert line["n_iterations"] == 0
            assert line["standard_error"] > 0
            continue
        assert line["n_iterations"] > 0
        assert line["bucket_edges"] == commute.attribute("minutes").domain.edges(256).tolist()
        assert len(line["distribution"]) == 256
        assert min(line["distribution"]) >= 0
        assert sum(line["distribution"]) == pytest.approx(1, abs=1e-9)
        assert list(line["quantiles"]) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
        assert sorted(line["quantiles"].values()) == list(line["quantiles"].values())
        assert line["variance"] > 0


def test_estimates_say_on_how_many_reports_and_users_they_stand(run: Any, sent: list[Any]) -> None:
    for place, (start, _) in enumerate(WINDOWS):
        inside = [(s.times - START) // HOUR == place for s in sent]
        maps, everything = int(inside[0].sum()), int(sum(part.sum() for part in inside))
        for line in [e for e in run.estimates if e["window_start"] == start]:
            alone = line["name"] == "maps_only"
            assert (line["reports"], line["users"]) == ((maps, maps) if alone else (everything, maps))


def test_the_accounting_closes_and_is_printed(run: Any) -> None:
    total = 2 * PEOPLE + PEOPLE * 2 // 3
    zeros = dict.fromkeys(("duplicates", "late", "out_of_range", "dead_letters", "damaged_files"), 0)
    assert run.accounting == {"in": total, "used": total, **zeros, "dead_letters_by_reason": {}}
    line = f"{total:,} reports in = {total:,} used + 0 duplicates + 0 late + 0 out of range + 0 dead letters"
    assert line in run.out
    assert not (run.path / "dead_letters").exists()


def test_statistics_are_those_of_the_reports_one_by_one(run: Any, sent: list[Any], commute: Study) -> None:
    attribute = commute.attribute("minutes")
    assert [s.window for s in run.snapshots] == [(START + k * HOUR, START + (k + 1) * HOUR) for k in range(2)]
    for place, snapshot in enumerate(run.snapshots):
        rows: dict[bytes, int] = {}
        answers = []
        for version, part in enumerate(sent):
            inside = np.flatnonzero((part.times - START) // HOUR == place)
            own = [rows.setdefault(part.users[i].tobytes(), len(rows)) for i in inside]
            answers.append(Answers(version, np.array(own), part.payloads[inside]))
        assert snapshot.statistic == tally(attribute, len(rows), answers)
        assert (snapshot.attribute, snapshot.group, snapshot.other_groups) == ("minutes", None, 0)


def test_the_table_compares_every_estimate_with_the_truth(run: Any, people: Path) -> None:
    lines = run.out.splitlines()
    header = re.split(r"\s{2,}", lines[0].strip())
    assert {"W1", "KS", "JS", "mean - truth", "reports", "users"} <= set(header)
    rows = [line for line in lines if line.startswith("minutes")]
    assert len(rows) == 6
    truth = np.loadtxt(people, delimiter=",", skiprows=1)
    for row, line in zip(rows, run.estimates, strict=True):
        place = [start for start, _ in WINDOWS].index(line["window_start"])
        inside = truth[(truth[:, 1] - START) // HOUR == place, 0]
        assert f"{line['mean'] - inside.mean():.4g}" in row.split()

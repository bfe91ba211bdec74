"""Whether the tests of fit see fleets that do not remember their noise as their study says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.memoised_reports import FLEETS, HOUR, START, Fleet
from support.tallied import tallied

from ldpbeam.answers.explain import explain
from ldpbeam.attributes import ServiceVersion
from ldpbeam.cells import Cells
from ldpbeam.fit import fit_tests, flagged
from ldpbeam.fit.spending import Spending
from ldpbeam.over_time.joined_windows import JoinedSupports, Table, joined_supports
from ldpbeam.over_time.remembered_noise import FEWEST_USERS, agreement, noise_p_values
from ldpbeam.pipelines.estimates import fit
from ldpbeam.pipelines.estimates.pane_fit import write_pane_tests
from ldpbeam.results.page.warnings import misfit
from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.records import Fit, FitEntry, bounds
from ldpbeam.schemas.study.yaml_file import parse_study

PEOPLE = 3_000
NAMES = ("grr", "oue", "sue", "olh", "published grr", "published olh")


def version(fleet: Fleet, service: str) -> ServiceVersion:
    (found,) = parse_study(fleet.text(service)).attribute("x").versions
    return found


def sent(fleet: Fleet, of: ServiceVersion, values: Any, seed: int) -> JoinedSupports:
    """What clients send who remember their noise."""
    payloads = fleet.payloads(values, np.random.default_rng(seed))
    supported = of.mechanism.supported(payloads.ravel())  # type: ignore[attr-defined]
    people, windows = payloads.shape
    return joined_supports(np.repeat(np.arange(people), windows), supported, windows)


@pytest.mark.parametrize("name", NAMES)
def test_reports_of_clients_agree_as_the_constants_say(name: str) -> None:
    fleet, rng = FLEETS[name], np.random.default_rng(4)
    of = version(fleet, fleet.service)
    told = agreement(of)
    # Half of the people change their value, from 0 to 1; nobody has 2 to 7.
    values = np.zeros((40_000, 2), dtype=np.int64)
    values[:20_000, 1] = 1
    joined = sent(fleet, of, values, int(rng.integers(1000)))
    # (X - q)(X' - q) of two reports with 0, 1 or 2 supports.
    pairs = told.q**2 - told.q * np.arange(3) + np.array([0, 0, 1])
    found = joined.users[:, :, 2] @ pairs / len(values)
    errors = np.sqrt(joined.users[:, :, 2] @ pairs**2) / len(values)
    same = np.array([0.5] + [0.0] * 7)
    shares = np.array([0.75, 0.25] + [0.0] * 6)
    expected = told.same * same + told.kept * 0.5 + told.first * shares + told.always
    # Five standard errors by user, and what a family of 1,024 seeds moves: its hashes of two values meet in
    # 1/4 of seeds, give or take sqrt(3/16/1024), and D^2 is at most 0.06.
    family = 5.0 * np.sqrt(3 / 16 / 1024) * 0.06 if name == "olh" else 0.0
    assert (abs(found - expected) < 5.0 * errors + family).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_fleet_that_does_not_do_what_its_study_says_is_seen(name: str) -> None:
    fleet, rng = FLEETS[name], np.random.default_rng(5)
    remembered, fresh = version(fleet, fleet.service), version(fleet, fleet.plain)
    shares = np.array([0.6, 0.3, 0.1, 0, 0, 0, 0, 0])
    values = np.repeat(rng.choice(8, (PEOPLE, 1), p=shares), 12, axis=1)
    right = sent(fleet, remembered, values, 1)
    for of, wrong in ((remembered, []), (fresh, ["fresh_noise"])):
        assert flags(of, right) == wrong
    # One report of each person, in all windows.
    times = np.zeros((8, 13, 13), dtype=np.int64)
    times[:, [0, 12], 12] = sent(fleet, remembered, values[:, :1], 2).users[:, :2, 1]
    for of in (remembered, fresh):
        assert flags(of, JoinedSupports(Table.of(times))) == ["fresh_noise"]
    supported = fresh_supports(fleet, remembered, values)
    assert flags(remembered, supported) == ["remembered_noise"]
    assert flags(fresh, supported) == []


def fresh_supports(fleet: Fleet, of: ServiceVersion, values: Any, seed: int = 6) -> JoinedSupports:
    """What people send who draw everything anew in each window: the reports of as many people as windows."""
    payloads = fleet.payloads(values.reshape(-1, 1), np.random.default_rng(seed))
    supported = of.mechanism.supported(payloads.ravel())  # type: ignore[attr-defined]
    people, windows = values.shape
    return joined_supports(np.repeat(np.arange(people), windows), supported, windows)


def flags(of: ServiceVersion, joined: JoinedSupports) -> list[str]:
    """The tests with a p-value below 1e-4: of 36 calls, no clean one has that but once in 100 seeds."""
    found = noise_p_values(of, joined)
    assert found is not None and found[0] == PEOPLE
    return [kind for kind, p_value in found[1].items() if p_value < 1e-4]


def test_few_users_with_several_reports_are_not_tested() -> None:
    of = version(FLEETS["oue"], FLEETS["oue"].service)
    users = np.zeros((8, 3, 3), dtype=np.int64)
    users[:, 1, 1], users[:, 1, 2] = 10_000, FEWEST_USERS - 1
    assert noise_p_values(of, JoinedSupports(Table.of(users))) is None
    users[:, 1, 2] += 1
    assert noise_p_values(of, JoinedSupports(Table.of(users))) is not None


@pytest.mark.slow
@pytest.mark.parametrize("remembered", [True, False])
def test_clean_runs_are_flagged_no_more_often_than_stated(remembered: bool) -> None:
    alarms, shares = 0, 1 / np.arange(1.0, 9.0) / np.sum(1 / np.arange(1.0, 9.0))
    for name, windows, place in itertools.product(("grr", "oue", "olh"), (2, 6), range(60)):
        fleet, rng = FLEETS[name], np.random.default_rng([windows, place])
        values = np.repeat(rng.choice(8, (500, 1), p=shares), windows, axis=1)
        of = version(fleet, fleet.service if remembered else fleet.plain)
        seed = int(rng.integers(10**6))
        joined = sent(fleet, of, values, seed) if remembered else fresh_supports(fleet, of, values, seed)
        found = noise_p_values(of, joined)
        alarms += any(flagged(list(found[1].values())))
    # 360 runs at 1%: 3.6 flags, and 11 or more with probability 0.0015.
    assert alarms <= 10


def test_reports_that_go_through_the_pipeline_are_tested_and_a_sentence_says_what_is_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fleet, rng = FLEETS["oue"], np.random.default_rng(9)
    text = fleet.text(fleet.plain).replace("{size: 1h}", "{size: 1h, joined: 4h}")
    payloads = fleet.payloads(np.repeat(rng.choice(8, (400, 1), p=[0.65] + [0.05] * 7), 4, axis=1), rng)
    study, hours = parse_study(text), START + np.arange(4) * HOUR
    table = {
        "user_id": np.repeat([f"u{i}" for i in range(400)], 4),
        "event_time": np.tile(hours, 400),
        "payload": payloads.ravel(),
    }
    snapshots = tallied(text, table).snapshots
    (day,) = [snapshot for snapshot in snapshots if snapshot.joined]
    (entry,) = fit.tests_of_window(study, [day])
    assert (entry.test, entry.services, entry.reports) == ("fresh_noise", ("app",), 400)
    assert entry.p_value < 1e-6 and bounds(entry.window_start, entry.window_end) == day.window
    assert [test.p_value for test in fit_tests(study.attribute("x"), day.statistic)] == [entry.p_value]
    sentence = fit.misfit_sentence(study, entry)
    assert "window 2026-11-20T00:00:00Z: the reports of 400 users to app" in sentence
    assert "takes for fresh: correct the clients, or the study (lifetime_epsilon)" in sentence
    # A stream's days are numbered by themselves, and have limits of their own.
    spending = Spending(since=START, started=START, earlier_runs=0, windows=Cells(HOUR), attributes=2)
    (told,) = write_pane_tests(study, str(tmp_path / "fit"), spending, [day])
    (path,) = (tmp_path / "fit").iterdir()
    (found,) = read_record(Fit, path.read_bytes()).tests
    assert told == found and day.window is not None and found.flagged
    assert fit.misfit_sentence(study, found) == sentence
    assert found.limit == replace(spending, windows=Cells(4 * HOUR)).limit(day.window, 0)
    assert "remember noise that the study takes for fresh" in misfit(found).sentence


def test_the_page_says_that_clients_remember_nothing() -> None:
    entry = FitEntry("x", None, False, None, None, "remembered_noise", ("app",), 900, 1e-9, True)
    warned = misfit(entry)
    assert warned.attribute == "x"
    assert warned.sentence.startswith("the reports of 900 users to app in several windows agree less")


def test_explain_says_what_is_tested_of_joined_windows() -> None:
    for name, start in (
        ("oue", "Tests say whether the clients of 'x' remember"),
        ("piecewise", "Not tested"),
    ):
        fleet = FLEETS[name]
        text = fleet.text(fleet.service)
        said = explain(parse_study(text.replace("{size: 1h}", "{size: 1h, joined: 4h}")))
        assert any(sentence.startswith(start) for sentence in said)
        assert not any("remember their noise if" in sentence for sentence in explain(parse_study(text)))

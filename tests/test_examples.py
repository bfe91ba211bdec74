"""The examples run, on made-up people where the real data is not at hand."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from ldpbeam.schemas.study.yaml_file import read_study

ROOT = Path(__file__).parents[1]


def run(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    return int(str(ended.value.code))


def test_the_demonstration_runs_and_accounts_for_every_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "commute/demo.py", "--output", tmp_path, "--people", 2000) == 0
    found = json.loads((tmp_path / "estimates" / "accounting.json").read_text())
    assert (found["in"], found["used"]) == (6000, 6000)
    assert "6,000 reports in = 6,000 used" in capsys.readouterr().out


STUDIES = sorted(path.parent.name for path in ROOT.glob("examples/*/study.yaml"))
#: These have programs of their own.
PROGRAMS = ("commute", "diamonds", "interests", "memoised", "newtab", "confidence", "polls")
RUN = [name for name in STUDIES if name not in PROGRAMS]


@pytest.mark.parametrize("name", RUN)
def test_an_example_of_every_family_runs_and_answers_all_its_study_asks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "run.py", name, "--output", tmp_path, "--people", 500) == 0
    study = read_study(ROOT / "examples" / name / "study.yaml")
    folder = tmp_path / name / "estimates"
    found = [json.loads(line) for line in (folder / "estimates.jsonl").read_text().splitlines()]
    expected = {(own, key) for own in study.estimated for key in study.described(own).estimates}
    assert {(record["attribute"], record["name"]) for record in found} == expected
    for record in found:
        answer = [record.get(key) for key in ("mean", "frequencies", "distribution", "key_means")]
        assert any(part is not None for part in answer)
        assert record["reports"] > 0
    accounting = json.loads((folder / "accounting.json").read_text())
    services = {service for model in study.attributes.values() for service in model.services}
    assert accounting["in"] == accounting["used"] == 500 * len(services)
    assert f"{accounting['in']:,} reports in = {accounting['in']:,} used" in capsys.readouterr().out


def test_a_day_of_clients_that_remember_is_joined_by_user_or_says_whose_intervals_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "memoised/day.py", "--output", tmp_path, "--people", 400) == 0
    assert "remember their noise" in capsys.readouterr().err
    (line,) = (tmp_path / "rolled-up" / "estimates.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found["reports"] == 24 * 400
    assert "the fewest users who can have sent them, 400, each with one value" in found["warnings"][-1]
    hours = list(map(json.loads, (tmp_path / "run" / "estimates.jsonl").read_text().splitlines()))
    (day,) = (hour for hour in hours if hour.get("joined"))
    assert len(hours) == 25 and not any("warnings" in hour for hour in hours)
    assert (day["reports"], day["users"]) == (24 * 400, 400)
    (period,) = json.loads((tmp_path / "run" / "ledger_periods.json").read_text())
    # 24 reports at epsilon 1, and the lifetime epsilon of five drinks.
    assert (period["about_values"], period["users_over_cap"]) == ([{"at_most": 10.0, "users": 400}], 0)


def test_a_device_that_keeps_a_key_alone_remembers_its_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The permanent answer is in 95 of 168 reports, each other one in 18; standard errors are 6.4 and 4.1.
    # The draws are those of the system: 60 lies beyond 5.4 standard errors of both.
    assert run(monkeypatch, "memoised/device.py") == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert int(first.split()[1]) > 60 > int(second.split()[1])


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        ("newtab/clicks.py", ("--people", 120_000), "with the stated epsilon"),
        ("confidence/curves.py", ("--people", 2_000, "--share-of-high", 0.1), "the published weights"),
        ("polls/days.py", ("--devices", 20_000), "zebra crossing"),
    ],
)
@pytest.mark.filterwarnings("ignore:not estimated")
def test_reports_of_live_fleets_are_read(
    script: str,
    arguments: tuple[object, ...],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / script.partition("/")[0]))
    monkeypatch.delitem(sys.modules, "client", raising=False)
    assert run(monkeypatch, script, *arguments) == 0
    assert says in capsys.readouterr().out
    monkeypatch.delitem(sys.modules, "client")


def test_a_record_of_eight_features_gives_shares_within_three_standard_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "interests"))
    monkeypatch.delitem(sys.modules, "client", raising=False)
    assert run(monkeypatch, "interests/interests.py", "--people", 8_000) == 0
    monkeypatch.delitem(sys.modules, "client")
    out = capsys.readouterr().out
    assert "all 8 tests of fit passed" in out and "64,000 reports in = 64,000 used" in out
    pairs = np.array(re.findall(r"(0\.\d{4}) \((0\.\d{4})\)", out), float)
    assert len(pairs) == 32
    own, other = 0.92, 0.0288
    noise = pairs[:, 1] * own * (1 - own) + (1 - pairs[:, 1]) * other * (1 - other)
    assert (np.abs(pairs[:, 0] - pairs[:, 1]) < 3 * np.sqrt(noise / 8_000) / (own - other) + 1e-4).all()

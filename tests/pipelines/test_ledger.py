"""The privacy ledger: how many users spent how much, from the statistics of a run."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tallied import tallied

import ldpbeam as ldp
from ldpbeam.answers.ledger import Ledger
from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.pipelines.commands.ledger import ledger_command
from ldpbeam.pipelines.estimates.ledger_files import write_ledger
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.spent import Line
from ldpbeam.times import window_fields

START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
TEXT = """\
study: spending
attributes:
  x:
    domain: {numeric: [0, 1]}
    services:
      a: {mechanism: piecewise, version_field: app, versions: {old: {epsilon: 0.5}, new: {epsilon: 4.0}}}
      b: {mechanism: laplace, epsilon: 2.0}
    estimates: {mean: {estimator: ivw}}
"""
VECTOR = """\
study: pulses
attributes:
  pulse:
    domain: {coordinates: [rest, run], values: [0, 1]}
    services: {watch: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
"""
B: dict[str, Any] = {"attribute": "x", "service": "b", "event_time": START, "payload": 0.5}
OLD, NEW = (B | {"service": "a", "app": app} for app in ("old", "new"))


def ledger(folder: Path, text: str, reports: Any) -> list[dict[str, Any]]:
    """What is written of a run over reports of these users and channels."""
    job = Output(parse_study(text), str(folder), "run-1")
    spent = Ledger(job.study)
    # Files are read in the order of their windows.
    spent.add(sorted(tallied(text, reports).snapshots, key=lambda snapshot: snapshot.window or (0, 0)))
    entries = [
        fields_of(entry) | window_fields(window) for entry, windows in spent.alike() for window in windows
    ]
    over = write_ledger(job, spent)
    assert over == sum(entry["users_over_cap"] for entry in entries)
    # Entries are written around their windows, and in the same way as all other JSON.
    assert (folder / "ledger.json").read_text() == json.dumps(entries, indent=1) + "\n"
    return entries


def test_a_users_services_add_up_each_with_the_epsilon_of_its_version(tmp_path: Path) -> None:
    sent = {"u1": [OLD, B], "u2": [NEW, B], "u3": [NEW], "u4": [OLD], "u5": [NEW, B]}
    reports = [{"user_id": user} | channel for user, own in sent.items() for channel in own]
    (entry,) = ledger(tmp_path, TEXT + "epsilon_cap: 4\n", reports)
    spent = {own["epsilon"]: own["users"] for own in entry.pop("spent")}
    assert spent == {0.5: 1, 2.5: 1, 4.0: 1, 6.0: 2}
    ends = dict.fromkeys(("group", "window_start", "window_end"))
    assert entry == {"attribute": "x", **ends, "epsilon_cap": 4.0, "users_over_cap": 2}


def test_who_spends_just_the_cap_is_not_over_it(tmp_path: Path) -> None:
    """A cap may have more digits than sums are rounded to."""
    text = TEXT.replace("epsilon: 2.0", "epsilon: 0.6666666666666666")
    reports = [{"user_id": "u1"} | B, {"user_id": "u2"} | B, {"user_id": "u2"} | OLD]
    (entry,) = ledger(tmp_path, text + "epsilon_cap: 0.6666666666666666\n", reports)
    assert entry["users_over_cap"] == 1
    # The same of a period: of three users, two spent what two thirds are after rounding.
    line = Line(np.round([1 / 3, 2 / 3, 1.0], 9), np.array([3, 2, 1]))
    assert [line.above(cap) for cap in (1 / 3, 2 / 3, 0.67, 1.0, 0.6666)] == [3, 1, 1, 0, 3]


def test_there_is_an_entry_a_window_and_group(tmp_path: Path) -> None:
    text = TEXT + "windows: {size: 1h}\ngroups: {field: region, at_most: 1}\n"
    regions = ["north", "north", "south", "east"]
    reports = [{**B, "user_id": f"u{place}", "region": region} for place, region in enumerate(regions)]
    reports.append({**B, "user_id": "u1", "region": "north", "event_time": START + 3_600_000})
    found = [
        (entry["window_start"], entry["group"], entry["spent"][0]["users"], entry["users_over_cap"])
        for entry in ledger(tmp_path, text, reports)
    ]
    first, second = "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"
    assert found == [(first, "north", 2, 0), (first, None, 2, 0), (second, "north", 1, 0)]


def test_the_coordinates_of_a_vector_share_an_entry(tmp_path: Path) -> None:
    client = ldp.Client(parse_study(VECTOR), "pulse", "watch", rng=np.random.default_rng(1))
    sent = client.reports(np.full((5, 2), 0.5), [f"u{place}" for place in range(5)])
    (entry,) = ledger(tmp_path, VECTOR, sent)
    assert (entry["attribute"], entry["spent"]) == ("pulse", [{"epsilon": 1.0, "users": 5, "delta": 0.0}])


def test_where_no_report_is_joined_to_a_user_the_ledger_is_empty(tmp_path: Path) -> None:
    assert ledger(tmp_path, TEXT + "duplicates: keep\n", [{"user_id": "u1"} | B]) == []


def test_the_command_refuses_a_study_without_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(TEXT)
    with pytest.raises(UserError, match=r"study\.yaml: the study keeps no ledger over periods"):
        ledger_command(Namespace(folders=[], study=str(path)))

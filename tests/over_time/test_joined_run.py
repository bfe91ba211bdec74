"""Whole commands over a day of joined hours: the estimates, the files, what may read them, and a span."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support.memoised_reports import FLEETS, HOUR, START

PEOPLE = 90
STUDY = FLEETS["oue"].text(FLEETS["oue"].service).replace("{size: 1h}", "{size: 1h, joined: 1d}")


def a_day(folder: Path) -> Path:
    """A file of reports of people who answer in most hours."""
    rng = np.random.default_rng(4)
    values = np.repeat(rng.integers(0, 8, (PEOPLE, 1)), 24, axis=1)
    place = np.flatnonzero(rng.random(values.size) < 0.8)
    user, hour = np.divmod(place, 24)
    payloads = FLEETS["oue"].payloads(values, rng).ravel()[place]
    table = pa.table(
        {
            "user_id": [f"u{i}" for i in user],
            "event_time": START + hour * HOUR,
            "payload": pa.array([bytes(own) for own in payloads], pa.binary()),
            "attribute": ["x"] * len(place),
            "service": ["app"] * len(place),
        }
    )
    pq.write_table(table, folder / "day.parquet")
    (folder / "study.yaml").write_text(STUDY)
    return folder / "day.parquet"


def test_a_run_estimates_the_day_beside_its_hours_and_keeps_it_to_its_owner(
    tmp_path: Path, command: Any
) -> None:
    reports = a_day(tmp_path)
    given = ["--study", str(tmp_path / "study.yaml"), "--input", str(reports)]
    out = tmp_path / "out"
    assert command("estimate", *given, "--output", str(out)).code == 0
    records = [json.loads(line) for line in (out / "estimates.jsonl").read_text().splitlines()]
    (day,) = (record for record in records if record.get("joined"))
    assert len(records) == 25 and all("joined" not in record for record in records if record is not day)
    assert (day["window_start"], day["window_end"]) == ("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z")
    hours = sum(record["reports"] for record in records if record is not day)
    accounting = json.loads((out / "accounting.json").read_text())
    assert day["reports"] == hours == accounting["in"] == accounting["used"] and day["users"] == PEOPLE
    modes = {stat.S_IMODE(path.stat().st_mode) for path in out.glob("statistics/*T000000Z-20261121T0*.avro")}
    others = {stat.S_IMODE(path.stat().st_mode) for path in out.glob("statistics/*-20261120T*.avro")}
    assert 0o600 in modes and others - {0o600}
    # Hours are counted in the ledger, and the day is not. It is tested for its clients' memory alone.
    tests = [entry["test"] for entry in json.loads((out / "fit.json").read_text())["tests"]]
    assert sorted(tests) == ["fresh_noise", "remembered_noise"] + 24 * ["reports"]
    assert len(json.loads((out / "ledger.json").read_text())) == 24
    assert "2026-11-20T00:00:00Z (1d)" in command("show", str(out)).out
    assert sum(pq.read_table(out / "estimates.parquet")["joined"].to_pylist()) == 1

    # A roll-up of the day's statistics is the day.
    rolled = tmp_path / "rolled"
    statistics = ["--statistics", f"{out}/statistics/*.avro", "--window", "1d", "--output", str(rolled)]
    command("rollup", *given[:2], *statistics)
    (again,) = map(json.loads, (rolled / "estimates.jsonl").read_text().splitlines())
    assert {**again, "run": ""} == {**day, "run": ""}


def test_a_span_that_cuts_a_day_says_that_its_users_are_not_joined(tmp_path: Path, command: Any) -> None:
    given = ["--study", str(tmp_path / "study.yaml"), "--input", str(a_day(tmp_path))]
    ends = ["--from", "2026-11-20T06:00:00Z", "--to", "2026-11-21T00:00:00Z"]
    ran = command("estimate", *given, *ends, "--output", str(tmp_path / "out"))
    assert "users are not joined from 2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z" in ran.err
    assert len(list((tmp_path / "out" / "statistics").iterdir())) == 18

"""Days by the clocks of a zone, over both changes of summer time."""

from __future__ import annotations

import importlib.resources
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpbeam as ldp
from ldpbeam.times import milliseconds

HOUR = 3_600_000
STUDY = """\
study: days
attributes:
  drink: {domain: {categories: [tea, coffee, water]}, services: {app: {mechanism: grr, epsilon: 2.0}}}
intervals: false
publish: {at_least: 1}
"""
#: Zones, and the days around which people report. The clocks of Lord Howe move by half an hour; Santiago is
#: south of the equator, and its clocks move at midnight; Apia had no 30 December 2011.
CHANGES = {
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
    "America/Santiago": ("2026-04-04", "2026-09-06"),
    "Pacific/Apia": ("2011-04-02", "2011-12-30"),
}


class Sent(NamedTuple):
    """Reports, and how many of each day of the zone are to count: the first of each user and half hour."""

    zone: str
    table: pa.Table
    counts: dict[str, int]


def rules_of(zone: str) -> ZoneInfo:
    with importlib.resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as stream:
        return ZoneInfo.from_file(stream, zone)


@pytest.fixture(scope="module", params=list(CHANGES))
def sent(request: pytest.FixtureRequest) -> Sent:
    """Three reports a user, within half an hour that is one of the local days, too: one of them counts."""
    zone, rng = request.param, np.random.default_rng(47)
    begin = [milliseconds(f"{day}T00:00:00Z") - 36 * HOUR for day in CHANGES[zone]]
    slots = np.concatenate([first + HOUR // 2 * rng.integers(0, 2 * 3 * 24, 100) for first in begin])
    times = np.repeat(slots, 3) + rng.integers(0, HOUR // 2, 600)
    order = np.argsort(times)
    users = [f"user-{number:03}" for number in np.repeat(np.arange(200), 3)[order]]
    client = ldp.Client(ldp.Study.from_yaml(STUDY), "drink", "app", rng=rng)
    table = client.reports(
        rng.choice(["tea", "coffee", "water"], 600), users, event_times=times[order].tolist()
    )
    rules, days = rules_of(zone), Counter[str]()
    for time in np.sort(slots).tolist():
        local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)
        days[local.astimezone(rules).date().isoformat()] += 1
    return Sent(zone, table, dict(days))


def text_of(windows: str, more: str = "") -> str:
    return f"{STUDY}windows: {{{windows}, max_age: 30000d}}\n{more}"


def in_days(sent: Sent) -> str:
    return text_of(f"size: 1d, zone: {sent.zone}")


def of_days(estimates: list[Any]) -> dict[str, int]:
    """Reports by day, from the name of the window."""
    return {str(line["window_name"]).split(" ")[0]: line["reports"] for line in estimates}


@pytest.fixture(scope="module")
def file(sent: Sent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sent") / "reports.parquet"
    pq.write_table(sent.table, path)
    return path


@pytest.fixture(scope="module")
def batch(sent: Sent, file: Path, run_estimate: Any) -> Any:
    return run_estimate(file.parent / "batch", in_days(sent), [file])


def test_a_batch_run_and_the_library_count_by_local_days(sent: Sent, batch: Any) -> None:
    assert batch.code == 0 and batch.err.count("warning") == 1, batch.err
    assert "400 of 600 reports are duplicates" in batch.err
    assert of_days(batch.estimates) == sent.counts
    estimates = ldp.estimate(ldp.Study.from_yaml(in_days(sent)), sent.table)
    assert estimates.records() == batch.estimates
    lengths = {
        line["window_name"]: (milliseconds(line["window_end"]) - milliseconds(line["window_start"])) / HOUR
        for line in batch.estimates
    }
    others = {name: hours for name, hours in lengths.items() if hours != 24}
    assert {name: name.rpartition(", ")[2] for name in others} == {
        name: f"{hours:g} h" for name, hours in others.items()
    }
    assert sorted(others.values()) == {"Australia/Lord_Howe": [23.5, 24.5], "Pacific/Apia": [25.0]}.get(
        sent.zone, [23.0, 25.0]
    )


def test_hours_rolled_up_to_local_days_count_the_same(
    sent: Sent, batch: Any, file: Path, run_estimate: Any, command: Any
) -> None:
    half_hours = run_estimate(file.parent / "half_hours", text_of("size: 30m"), [file])
    days = file.parent / "days"
    ran = command(
        *("rollup", "--study", half_hours.path.parent / "study.yaml", "--output", days),
        *("--statistics", f"{half_hours.path}/statistics/*.avro", "--window", "1d", "--zone", sent.zone),
        *("--processes", 1),
    )
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (days / "estimates.jsonl").open()]
    # They have other names of snapshots, and users are counted in each half hour.
    names = ("window_start", "window_end", "window_name", "reports", "frequencies")
    assert [[line[name] for name in names] for line in lines] == [
        [line[name] for name in names] for line in batch.estimates
    ]


def test_a_ledger_of_months_is_by_the_clock_of_the_windows(sent: Sent) -> None:
    study = ldp.Study.from_yaml(text_of(f"size: 1d, zone: {sent.zone}", "ledger: {period: month}\n"))
    wanted = Counter[str]()
    for day, reports in sent.counts.items():
        wanted[day[:7]] += reports
    rules, users = rules_of(sent.zone), Counter[str]()
    for entry in ldp.estimate(study, sent.table).periods:
        local = datetime.fromisoformat(entry.period_start).astimezone(rules)
        end = datetime.fromisoformat(entry.period_end).astimezone(rules)
        assert (local.day, local.hour, end.day, end.hour) == (1, 0, 1, 0)
        users[f"{local:%Y-%m}"] = entry.users
    assert users == wanted

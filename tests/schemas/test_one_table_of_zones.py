"""One table of zones, that of the package: what clocks show on a day lies in that day's window."""

from __future__ import annotations

import importlib.resources
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.cells import DAY, MONDAY, Cells, clock_of
from ldpbeam.schemas.reports.casts import cast_column

FILES = importlib.resources.files("tzdata").joinpath("zoneinfo")
NAMES = importlib.resources.files("tzdata").joinpath("zones").read_text().split()
#: A zone of each set of rules: the others are other names of these.
ZONES = [*{FILES.joinpath(*name.split("/")).read_bytes(): name for name in NAMES}.values()]
#: Days from 1970 to 2100: all of some years would take minutes, so every zone has others.
FIRST, LAST = 0, 47_846
TIMES = ("00:30:00", "23:30:00")


def days_of(texts: list[str], zone: str) -> np.ndarray:
    """The day of the window of each time, counted from 1970; -1 for a time that there is not, or twice."""
    clock = clock_of(zone)
    times = cast_column("event_time", pa.array(texts), clock)
    days = Cells(DAY, clock=clock).numbers(times.fill_null(0).to_numpy()) + MONDAY // DAY
    return np.where(times.is_valid().to_numpy(zero_copy_only=False), days, -1)


@pytest.mark.parametrize("part", range(4))
def test_half_past_midnight_and_half_an_hour_before_it_lie_in_the_window_of_their_day(part: int) -> None:
    for index, zone in enumerate(ZONES[part::4]):
        changes = np.array([change // DAY for change, _ in clock_of(zone).changes[1:]], dtype=np.int64)
        near = np.unique(np.add.outer(changes[(changes > FIRST) & (changes < LAST)], [-1, 0, 1]))
        days = np.union1d(np.arange(index % 97, LAST, 97), near)
        shown = [str(day) for day in days.astype("datetime64[D]")]
        for time in TIMES:
            found = days_of([f"{day}T{time}" for day in shown], zone)
            there = found >= 0
            np.testing.assert_array_equal(found[there], days[there], err_msg=zone)
            # Few changes are at midnight.
            assert there.mean() > 0.8


#: What the library and a run make of two times of a day, of winter and of summer, that have no zone.
CODE = """
import json, pathlib, sys
import ldpbeam as ldp
from ldpbeam.command_line.main import main

folder, service = pathlib.Path(sys.argv[1]), {"mechanism": "grr", "epsilon": 1}
for zone, winter, summer in (("America/New_York", "15T05", "15T04"), ("Europe/Berlin", "14T23", "14T22")):
    own = folder / zone.replace("/", "-")
    own.mkdir(parents=True)
    study = {
        "study": "t", "zone": zone, "windows": {"size": "1d", "zone": zone}, "publish": {"at_least": 1},
        "attributes": {"x": {"domain": {"categories": 3}, "services": {"s": service}}},
    }
    (own / "study.yaml").write_text(json.dumps(study))
    times = [f"2026-{day}T{time}:00" for day in ("01-15", "07-15") for time in ("00:30", "23:30")]
    reports = [{"user_id": f"u{t}", "payload": 0, "event_time": t} for t in times]
    (own / "in.jsonl").write_text("".join(json.dumps(report) + chr(10) for report in reports))
    given = ["--study", str(own / "study.yaml"), "--input", str(own / "in.jsonl"), "--quiet"]
    assert main(["estimate", *given, "--output", str(own / "out")]) == 0
    library = ldp.estimate(ldp.Study.from_yaml(own / "study.yaml"), reports)
    lines = (own / "out" / "estimates.jsonl").read_text().splitlines()
    found = [(record["window_start"], record["reports"]) for record in map(json.loads, lines)]
    assert found == [(record.window_start, record.reports) for record in library]
    assert found == [(f"2026-{day}:00:00Z", 2) for day in (f"01-{winter}", f"07-{summer}")], found
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slim", "of one zone"])
def test_a_machine_with_another_table_of_zones_changes_nothing(kind: str, tmp_path: Path) -> None:
    """The library of Arrow reads the machine's files; slim ones have no rules that follow the last change."""
    table = tmp_path / "zones"
    with importlib.resources.as_file(FILES) as files:
        shutil.copytree(files, table)
    if kind == "of one zone":
        for path in table.rglob("*"):
            if path.is_file() and path.read_bytes().startswith(b"TZif"):
                path.write_bytes((table / "Asia" / "Tokyo").read_bytes())
    mounted = 'mount --bind "$0" /usr/share/zoneinfo && exec "$1" -c "$2" "$3"'
    command = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c"]
    if subprocess.run([*command, "mount --bind / /mnt"], capture_output=True).returncode:
        pytest.skip("this machine mounts nothing")
    done = subprocess.run(
        [*command, mounted, str(table), sys.executable, CODE, str(tmp_path / "runs")],
        env={**os.environ, "PYTHONTZPATH": str(table), "TZDIR": str(table)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
